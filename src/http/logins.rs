//! `/api/v1/logins`: the browsers that are logged in.

use super::{
    auth::rows::{Grant, Session},
    call::Call,
    caller::Caller,
    error::ApiError,
    json, listing,
    routes::{Resource, on},
    tokens::is_within,
};
use crate::api::{
    endpoint::ById,
    logins::{END_LOGIN, LIST_LOGINS, LoginRow},
    reply::{Done, Rows},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&LIST_LOGINS, list), on(&END_LOGIN, end)]
}

fn row(session: Session, grant: Grant, caller: &Caller) -> LoginRow {
    LoginRow {
        current: session.id == *caller.principal.credential(),
        created_at: json::date(session.created_at),
        last_used_at: json::date(session.last_used_at),
        ends_at: json::date(session.ends_at()),
        id: session.id,
        principal: grant.name,
        token_id: grant.id,
        kind: grant.kind,
    }
}

async fn list(Call { state, caller, page, .. }: Call) -> Result<Rows<LoginRow>, ApiError> {
    let sessions = state.access.auth.sessions().into_iter();
    let within = sessions.filter(|(_, grant)| is_within(grant, &caller));
    let rows = within.map(|(session, grant)| row(session, grant, &caller));
    listing::page(rows, &page, |row| row.id.to_string())
}

async fn end(Call { state, caller, path, .. }: Call<ById>) -> Result<Done, ApiError> {
    let auth = &state.access.auth;
    let mut sessions = auth.sessions().into_iter();
    let meant = sessions
        .find(|(session, grant)| session.id.as_str() == path.id && is_within(grant, &caller));
    let (session, _) = meant.ok_or_else(|| ApiError::not_found("there is no such login"))?;
    auth.end_session(&session.id, &caller.principal).await?;
    Ok(Done)
}
