//! `/api/v1/logs`: what the service wrote to its log.

use actix_web::web;
use hivewright_actors::store::reads::parse;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    State,
    approvals::words,
    arguments::{Caller, Read},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Clean, Rows},
    routes::{Resource, at},
};
use crate::logging::{keeper, tap::Line};

/// From the worst to the least.
const LEVELS: [(&str, usize); 5] =
    [("error", 0), ("warn", 1), ("info", 2), ("debug", 3), ("trace", 4)];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/logs").get(
            Operation::new("Lists what the service wrote to its log in the last 14 days.")
                .query(
                    const {
                        &[
                            Field::word("level", || words(&LEVELS), "Only this, and worse."),
                            Field::text("team", "Only about this team."),
                            Field::moment("since", "Not before."),
                            Field::text("q", "Only with this in it."),
                        ]
                    },
                )
                .pages(&["-at"]),
            list,
        ),
    ]
}

/// A line as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = LogLine)]
struct Row {
    id: String,
    at: Option<String>,
    level: String,
    target: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[schema(value_type = Object)]
    fields: Map<String, Value>,
}

impl Row {
    fn new(id: String, line: Line) -> Self {
        let field = |name: &str| line.field(name).map(str::to_owned);
        Self {
            id,
            at: json::date(line.at),
            team: field("team"),
            task_id: field("task").or(field("task_id")),
            request_id: field("request_id"),
            level: line.level,
            target: line.target,
            message: line.message,
            fields: line.fields,
        }
    }
}

fn rank(level: &str) -> usize {
    let known = LEVELS.iter().find(|(name, _)| *name == level);
    known.map_or(LEVELS.len(), |(_, rank)| *rank)
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Clean<Rows<Row>>, ApiError> {
    let query = &caller.query;
    match query.text("team") {
        Some(team) => caller.team(team)?,
        None => caller.all_teams()?,
    }
    let worst = query.word("level", &LEVELS);
    let team = query.text("team").map(str::to_owned);
    let text = query.text("q").map(str::to_lowercase);
    let since = query.moment("since", state.access.auth.now());
    let page = query.page()?;
    let found = state.spine.store.read(move |storage| {
        let range = keeper::since(since.unwrap_or_default());
        listing::scan(storage, range, &page, |key, line| {
            let says = |text: &String| {
                let whole = format!("{} {} {}", line.target, line.message, json!(line.fields));
                whole.to_lowercase().contains(text.as_str())
            };
            let is_wanted = worst.is_none_or(|worst| rank(&line.level) <= worst)
                && (team.is_none() || line.field("team") == team.as_deref())
                && text.as_ref().is_none_or(says);
            is_wanted.then(|| Row::new(parse::<Line>(key).unwrap_or_default(), line))
        })
    });
    let rows = found.await.map_err(ApiError::internal)?;
    Ok(Clean::new(&state.secrets, rows))
}
