//! `/api/v1/audit`: who did what to the service.

use actix_web::web;
use hivewright_actors::{
    audit::Audit,
    store::{damage::row, reads},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    State,
    arguments::{Admin, Caller},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Clean, Rows},
    routes::{Resource, at},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/audit").get(
            Operation::new("Lists who did what to the service.")
                .query(
                    const {
                        &[
                            Field::text("actor", "Only what they did."),
                            Field::text(
                                "action",
                                "Only this, such as `tokens.create`, or all of a kind, such as `tokens`.",
                            ),
                            Field::moment("since", "Not before."),
                            Field::text("q", "Only with this in who, what, on what or the outcome."),
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
#[schema(as = AuditLine)]
struct Row {
    id: String,
    at: Option<String>,
    actor: String,
    action: String,
    target: String,
    from: String,
    outcome: String,
}

impl From<Audit> for Row {
    fn from(audit: Audit) -> Self {
        Self {
            id: audit.id,
            at: json::date(audit.at),
            actor: audit.actor.to_string(),
            action: audit.action,
            target: audit.target,
            from: audit.from,
            outcome: audit.outcome,
        }
    }
}

async fn list(
    state: web::Data<State>,
    caller: Caller<Admin>,
) -> Result<Clean<Rows<Row>>, ApiError> {
    caller.all_teams()?;
    let query = &caller.query;
    let (actor, action) = (
        query.text("actor").map(str::to_owned),
        query.text("action").map(str::to_owned),
    );
    let word = query.text("q").map(str::to_lowercase);
    let since = query.moment("since", state.access.auth.now());
    let page = query.page()?;
    let found = state.spine.store.read(move |storage| {
        let (start, end) = reads::audits_since(since.unwrap_or_default());
        listing::scan(storage, start, end, &page, |key, value| {
            let audit: Audit = row(storage, key, Ok(value))?;
            // `approval` means all that is done with approvals.
            let of_kind = |wanted: &String| {
                let rest = audit.action.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let holds = |word: &String| {
                let Audit {
                    action,
                    target,
                    from,
                    outcome,
                    actor,
                    ..
                } = &audit;
                let mut parts = [actor.as_str(), action, target, from, outcome].into_iter();
                parts.any(|part| part.to_lowercase().contains(word))
            };
            let is_wanted = actor
                .as_ref()
                .is_none_or(|name| audit.actor.as_str() == name)
                && action.as_ref().is_none_or(of_kind)
                && word.as_ref().is_none_or(holds);
            is_wanted.then(|| Row::from(audit))
        })
    });
    let rows = found.await.map_err(ApiError::internal)?;
    Ok(Clean::new(&state.secrets, rows))
}
