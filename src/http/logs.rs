//! `/api/v1/logs`: what the service wrote to its log.

use std::ops::ControlFlow;

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    State,
    approvals::choice,
    auth::scope::Scope,
    error::ApiError,
    json,
    query::Query,
    routes::{self, Methods},
};
use crate::logging::{keeper, tap::Line};

/// Lists are counted so far.
const MOST: usize = 10_001;
/// No list looks at more lines than this.
const FURTHEST: usize = 100_000;

/// From the worst to the least.
const LEVELS: [(&str, usize); 5] = [
    ("error", 0),
    ("warn", 1),
    ("info", 2),
    ("debug", 3),
    ("trace", 4),
];

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/logs", Methods::new().get(list))
}

/// A line as answers show it.
#[derive(Serialize)]
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

/// Newest first. A level means that and worse.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let known = ["level", "team", "since", "q", "limit", "offset"];
    let query = Query::read(&request, &known)?;
    let worst = choice(&query, "level", &LEVELS)?;
    let team = query.text("team").map(str::to_owned);
    let words = query.text("q").map(str::to_lowercase);
    let since = query.moment("since", state.access.auth.now())?;
    let page = query.page()?;
    let found = state.spine.store.read(move |storage| {
        let (mut rows, mut total, mut looked) = (Vec::new(), 0, 0);
        keeper::lines(storage, &mut |id, line| {
            looked += 1;
            let is_old = since.is_some_and(|since| line.at < since);
            if is_old || total >= MOST || looked > FURTHEST {
                return ControlFlow::Break(());
            }
            let says = |words: &String| {
                let text = format!("{} {} {}", line.target, line.message, json!(line.fields));
                text.to_lowercase().contains(words.as_str())
            };
            let is_wanted = worst.is_none_or(|worst| rank(&line.level) <= worst)
                && (team.is_none() || line.field("team") == team.as_deref())
                && words.as_ref().is_none_or(says);
            if is_wanted {
                if total >= page.offset && rows.len() < page.limit {
                    rows.push(Row::new(id, line));
                }
                total += 1;
            }
            ControlFlow::Continue(())
        })?;
        Ok((rows, total))
    });
    let (rows, total) = found.await.map_err(ApiError::internal)?;
    Ok(json::clean(&state.secrets, &json::counted(&rows, total)))
}
