//! `/api/v1/logins`: the browsers that are logged in.

use actix_web::web;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    State,
    arguments::{Admin, Caller},
    auth::rows::{Grant, Kind, Session},
    error::ApiError,
    json, listing,
    operation::Operation,
    reply::{Done, Rows},
    routes::{Resource, at},
    tokens::is_within,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/logins").get(
            Operation::new("Lists browsers that are logged in.").pages(&[
                "created_at",
                "last_used_at",
                "principal",
            ]),
            list,
        ),
        at("/api/v1/logins/{id}").delete(
            Operation::new("Logs a browser out.")
                .description("Its requests and streams end within a second."),
            end,
        ),
    ]
}

/// A browser that is logged in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrowserLogin")]
struct Row {
    id: String,
    /// Whose token or code it came with.
    principal: String,
    /// The token.
    token_id: String,
    kind: Kind,
    created_at: Option<String>,
    last_used_at: Option<String>,
    /// When it ends if it is not used.
    ends_at: Option<String>,
    /// It is the one that asks.
    current: bool,
}

impl Row {
    fn new(session: &Session, grant: &Grant, caller: &Caller<Admin>) -> Self {
        Self {
            id: session.id.to_string(),
            principal: grant.name.clone(),
            token_id: grant.id.to_string(),
            kind: grant.kind,
            created_at: json::date(session.created_at),
            last_used_at: json::date(session.last_used_at),
            ends_at: json::date(session.ends_at()),
            current: session.id == *caller.principal.credential(),
        }
    }
}

async fn list(state: web::Data<State>, caller: Caller<Admin>) -> Result<Rows<Row>, ApiError> {
    let page = caller.query.page()?;
    let sessions = state.access.auth.sessions().into_iter();
    let within = sessions.filter(|(_, grant)| is_within(grant, &caller));
    let rows = within.map(|(session, grant)| Row::new(&session, &grant, &caller));
    listing::page(rows, &page, |row| row.id.clone())
}

async fn end(
    state: web::Data<State>,
    caller: Caller<Admin>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    let mut sessions = state.access.auth.sessions().into_iter();
    let meant =
        sessions.find(|(session, grant)| session.id.as_str() == *id && is_within(grant, &caller));
    let (session, _) = meant.ok_or_else(|| ApiError::not_found("there is no such login"))?;
    let auth = &state.access.auth;
    auth.end_session(&session.id, &caller.principal).await?;
    Ok(Done)
}
