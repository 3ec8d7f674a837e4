//! `/api/v1/tokens` and `/api/v1/logins`: credentials for programs and people, and the browsers that are
//! logged in with them.

use super::teams::existing;
use crate::{
    api::{endpoint::*, logins::*, reply::*, scope::Scope, tokens::*},
    http::{
        auth::rows::{Grant, Session},
        kit::{call::*, error::*, json, listing},
    },
};

impl From<Grant> for TokenRow {
    fn from(grant: Grant) -> Self {
        Self {
            id: grant.id,
            kind: grant.kind,
            name: grant.name,
            scopes: grant.scopes,
            teams: grant.teams,
            created_at: json::date(grant.created_at),
            expires_at: grant.expires_at.and_then(json::date),
            last_used_at: grant.last_used_at.and_then(json::date),
            minted_by: grant.minted_by,
            token: None,
        }
    }
}

/// For the audit: which token, and what it may do.
fn described(row: &TokenRow) -> String {
    let scopes: Vec<_> = row.scopes.iter().map(Scope::as_str).collect();
    let teams = row.teams.as_ref().map(|teams| format!(" for {}", teams.join(",")));
    format!("{} {} {}{}", row.id, row.name, scopes.join(","), teams.unwrap_or_default())
}

/// It reaches no more teams than the caller does.
fn is_within(grant: &Grant, caller: &Caller) -> bool {
    let is_reached = |teams: &Vec<String>| teams.iter().all(|team| caller.reaches(team));
    caller.principal.teams.is_none() || grant.teams.as_ref().is_some_and(is_reached)
}

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<TokenRow>> {
    let grants = state.access.auth.grants().into_iter();
    let rows = grants.filter(|grant| is_within(grant, &caller)).map(TokenRow::from);
    listing::page(rows, &page, |row| row.id.to_string())
}

pub(super) async fn create(
    Call { state, caller, body: new, .. }: Call<Empty, Empty, NewToken>,
) -> ApiResult<Created<TokenRow>> {
    caller.names(&new.name);
    // Those of others are refused with the token.
    for team in new.teams.iter().flatten().filter(|team| caller.reaches(team)) {
        existing(&state, &caller, "teams", team)?;
    }
    let minted = state.access.auth.mint(new, &caller.principal).await?;
    let mut row = TokenRow::from(minted.row);
    caller.names(described(&row));
    row.token = Some(minted.text.expose().to_owned());
    Ok(Created(row))
}

pub(super) async fn revoke(
    Call { state, caller, path, query: Revocation { minted }, .. }: Call<ById, Revocation>,
) -> ApiResult<Done> {
    let auth = &state.access.auth;
    let mut grants = auth.grants().into_iter();
    let meant = grants.find(|grant| grant.id.as_str() == path.id || grant.name == path.id);
    if meant.is_some_and(|grant| !is_within(&grant, &caller)) {
        return Err(ApiError::not_found("there is no such token"));
    }
    let ended = auth.revoke(&path.id, minted, &caller.principal).await?;
    let ended: Vec<_> = ended.iter().map(|id| id.as_str()).collect();
    caller.names(ended.join(" "));
    Ok(Done)
}

/// The new token is in its file, not in the answer.
pub(super) async fn rotate(Call { state, caller, .. }: Call) -> ApiResult<Done> {
    let principal = &caller.principal;
    // The operator token has all scopes: only whoever has them all may make one.
    caller.everything()?;
    state.access.auth.rotate_operator(principal).await?;
    Ok(Done)
}

fn login_row(session: Session, grant: Grant, caller: &Caller) -> LoginRow {
    LoginRow {
        current: session.id == caller.principal.credential,
        created_at: json::date(session.created_at),
        last_used_at: json::date(session.last_used_at),
        ends_at: json::date(session.ends_at()),
        id: session.id,
        principal: grant.name,
        token_id: grant.id,
        kind: grant.kind,
    }
}

pub(super) async fn list_logins(
    Call { state, caller, page, .. }: Call,
) -> ApiResult<Rows<LoginRow>> {
    let sessions = state.access.auth.sessions().into_iter();
    let within = sessions.filter(|(_, grant)| is_within(grant, &caller));
    let rows = within.map(|(session, grant)| login_row(session, grant, &caller));
    listing::page(rows, &page, |row| row.id.to_string())
}

pub(super) async fn end_login(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Done> {
    let auth = &state.access.auth;
    let mut sessions = auth.sessions().into_iter();
    let meant = sessions
        .find(|(session, grant)| session.id.as_str() == path.id && is_within(grant, &caller));
    let (session, _) = meant.ok_or_else(|| ApiError::not_found("there is no such login"))?;
    auth.end_session(&session.id, &caller.principal).await?;
    Ok(Done)
}
