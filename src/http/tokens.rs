//! `/api/v1/tokens`: credentials for programs and people.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use serde::{Deserialize, Serialize};

use super::{
    State,
    auth::{
        registry::{DEFAULT_EXPIRY, NewToken},
        rows::{Grant, Kind},
        scope::{Scope, Scopes},
    },
    error::ApiError,
    json::{self, Body},
    routes::{self, Methods},
};
use crate::settings::units;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/tokens", Methods::new().get(list).post(create))
}

pub(super) fn one() -> Resource {
    routes::resource("/api/v1/tokens/{id}", Methods::new().delete(revoke))
}

pub(super) fn rotation() -> Resource {
    routes::resource(
        "/api/v1/tokens/operator/rotate",
        Methods::new().post(rotate),
    )
}

/// A token as the list shows it.
#[derive(Serialize)]
pub struct Row {
    id: String,
    kind: Kind,
    name: String,
    scopes: Scopes,
    created_at: Option<String>,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    /// Shown once, to whoever made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl From<Grant> for Row {
    fn from(grant: Grant) -> Self {
        Self {
            id: grant.id.to_string(),
            kind: grant.kind,
            name: grant.name,
            scopes: grant.scopes,
            created_at: json::date(grant.created_at),
            expires_at: grant.expires_at.and_then(json::date),
            last_used_at: grant.last_used_at.and_then(json::date),
            token: None,
        }
    }
}

#[derive(Deserialize)]
struct Wish {
    name: String,
    scopes: Scopes,
    expires: Option<String>,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] = &["name", "scopes", "expires"];
}

/// How long a token is to be good: `never`, or a duration such as `90d`.
pub fn expiry(text: Option<&str>) -> Option<Option<Duration>> {
    match text {
        None => Some(Some(DEFAULT_EXPIRY)),
        Some("never") => Some(None),
        Some(text) => units::duration(text).map(Some),
    }
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let grants = state.access.auth.grants();
    let rows: Vec<Row> = grants.into_iter().map(Row::from).collect();
    Ok(json::list(&rows))
}

async fn create(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let wish: Wish = json::read(&request, payload).await?;
    let expires_in = expiry(wish.expires.as_deref()).ok_or_else(|| {
        ApiError::invalid_field("expires", "expected a duration such as 90d, or `never`")
    })?;
    let wish = NewToken {
        name: wish.name,
        scopes: wish.scopes,
        expires_in,
    };
    let minted = state.access.auth.mint(wish, &principal).await?;
    let mut row = Row::from(minted.row);
    row.token = Some(minted.text.expose().to_owned());
    Ok(json::data(StatusCode::CREATED, row))
}

async fn revoke(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    state.access.auth.revoke(&id, &principal).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// The new token is in its file, not in the answer.
async fn rotate(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    // The operator token has all scopes: only whoever has them all may make one.
    if let Some(missing) = Scopes::all().beyond(principal.scopes()) {
        return Err(ApiError::forbidden(missing));
    }
    state.access.auth.rotate_operator().await?;
    Ok(HttpResponse::NoContent().finish())
}
