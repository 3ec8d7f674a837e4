//! `/api/v1/audit`: who did what to the service.

use std::ops::ControlFlow;

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use hivewright_actors::{audit::Audit, store::reads};
use serde::Serialize;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json,
    query::Query,
    routes::{self, Methods},
};

/// Lists are counted so far.
const MOST: usize = 10_001;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/audit", Methods::new().get(list))
}

/// A line as answers show it.
#[derive(Serialize)]
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

/// Newest first.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Admin)?;
    let query = Query::read(&request, &["actor", "action", "since", "limit", "offset"])?;
    let (actor, action) = (
        query.text("actor").map(str::to_owned),
        query.text("action").map(str::to_owned),
    );
    let since = query.moment("since", state.access.auth.now())?;
    let page = query.page()?;
    let found = state.spine.store.read(move |storage| {
        let (mut rows, mut total) = (Vec::new(), 0);
        reads::audits(storage, &mut |audit| {
            if since.is_some_and(|since| audit.at < since) || total >= MOST {
                return ControlFlow::Break(());
            }
            // `approval` means all that is done with approvals.
            let of_kind = |wanted: &String| {
                let rest = audit.action.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let is_wanted = actor
                .as_ref()
                .is_none_or(|name| audit.actor.as_str() == name)
                && action.as_ref().is_none_or(of_kind);
            if is_wanted {
                if total >= page.offset && rows.len() < page.limit {
                    rows.push(Row::from(audit));
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
