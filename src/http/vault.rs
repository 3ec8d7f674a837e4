//! `/api/v1/vault`: what the service and its teams keep secret, for operators. No answer holds the
//! value of a secret.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::ids::TeamKey;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    State,
    auth::{principal::Principal, scope::Scope as Right},
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};
use crate::{
    tools::filter::ToolFilter,
    vault::{
        audit::{Action, Actor, AuditRow, Wanted},
        entry::{Entry, Put},
        error::VaultError,
        scope::Scope,
        seal::Plain,
    },
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/vault", Methods::new().get(list))
}

pub(super) fn audit() -> Resource {
    routes::resource("/api/v1/vault/audit", Methods::new().get(show_audit))
}

pub(super) fn rotation() -> Resource {
    routes::resource("/api/v1/vault/rotate", Methods::new().post(rotate))
}

pub(super) fn one() -> Resource {
    routes::resource(
        "/api/v1/vault/{scope}/{key}",
        Methods::new().get(show).put(set).delete(remove),
    )
}

/// An entry as answers show it.
#[derive(Serialize)]
struct Row {
    scope: String,
    key: String,
    secret: bool,
    tools: Vec<String>,
    hosts: Vec<String>,
    note: String,
    version: u64,
    updated_by: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    last_used_at: Option<String>,
    /// Only of one that is no secret, and not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The same, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

impl Row {
    fn new(scope: &Scope, entry: Entry) -> Self {
        Self {
            scope: scope.to_string(),
            key: entry.key,
            secret: entry.secret,
            tools: entry.tools,
            hosts: entry.hosts,
            note: entry.note,
            version: entry.version,
            updated_by: entry.updated_by,
            created_at: json::date(entry.created_at),
            updated_at: json::date(entry.updated_at),
            last_used_at: entry.last_used_at.and_then(json::date),
            value: None,
            value_base64: None,
        }
    }
}

/// A row of the audit as answers show it.
#[derive(Serialize)]
struct Act {
    at: Option<String>,
    scope: String,
    key: Option<String>,
    action: Action,
    actor: Actor,
    tool: Option<String>,
    host: Option<String>,
    outcome: String,
}

impl From<AuditRow> for Act {
    fn from(row: AuditRow) -> Self {
        Self {
            at: json::date(row.at),
            scope: row.shown_scope(),
            key: row.key,
            action: row.action,
            actor: row.actor,
            tool: row.tool,
            host: row.host,
            outcome: row.outcome,
        }
    }
}

#[derive(Deserialize)]
struct Wish {
    value: Option<String>,
    value_base64: Option<String>,
    secret: Option<bool>,
    tools: Option<Vec<String>>,
    hosts: Option<Vec<String>>,
    note: Option<String>,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] =
        &["value", "value_base64", "secret", "tools", "hosts", "note"];
}

impl Wish {
    fn put(self) -> Result<Put, ApiError> {
        let value = match (self.value, self.value_base64) {
            (Some(_), Some(_)) => {
                let both = "`value` and `value_base64` exclude each other";
                return Err(ApiError::invalid_field("value_base64", both));
            }
            (Some(text), None) => Some(Plain::new(text)),
            (None, Some(text)) => {
                let bytes = STANDARD.decode(text);
                let bytes = bytes
                    .map_err(|_| ApiError::invalid_field("value_base64", "expected base64"))?;
                Some(Plain::new(bytes))
            }
            (None, None) => None,
        };
        if let Some(tools) = &self.tools {
            ToolFilter::parse(tools)
                .map_err(|error| ApiError::invalid_field("tools", error.to_string()))?;
        }
        Ok(Put {
            // What an operator sets is a secret unless they say otherwise.
            secret: self.secret.or(value.is_some().then_some(true)),
            value,
            tools: self.tools,
            hosts: self.hosts,
            note: self.note,
        })
    }
}

#[derive(Deserialize)]
struct Rotate {
    #[serde(default)]
    forget_old: bool,
}

impl Body for Rotate {
    const FIELDS: &'static [&'static str] = &["forget_old"];
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Right::Secrets)?;
    let query = Query::read(&request, &["scope", "prefix", "limit", "offset"])?;
    let (page, actor) = (query.page()?, operator(&principal));
    let prefix = query.text("prefix").unwrap_or_default();
    let found = match query.text("scope") {
        Some(text) => {
            let scope = scope(&state, text.to_owned()).await?;
            let entries = state.vault.list(&scope, prefix, &actor).await?;
            let entries = entries.into_iter();
            entries.map(|entry| (scope.clone(), entry)).collect()
        }
        None => state.vault.list_all(prefix, &actor).await?,
    };
    let rows = found
        .into_iter()
        .map(|(scope, entry)| Row::new(&scope, entry));
    Ok(json::page(&rows.collect::<Vec<_>>(), page))
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    place: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Right::Secrets)?;
    json::no_query(&request)?;
    let (of, key) = place.into_inner();
    let of = scope(&state, of).await?;
    let seen = state.vault.get(&of, &key, &operator(&principal)).await?;
    let mut row = Row::new(&of, seen.entry);
    if let Some(value) = seen.value {
        match value.text() {
            Some(text) => row.value = Some(text.to_owned()),
            None => row.value_base64 = Some(STANDARD.encode(value.bytes())),
        }
    }
    Ok(json::data(StatusCode::OK, row))
}

async fn set(
    state: web::Data<State>,
    request: HttpRequest,
    place: web::Path<(String, String)>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Right::Secrets)?;
    json::no_query(&request)?;
    let put = json::read::<Wish>(&request, payload).await?.put()?;
    let (of, key) = place.into_inner();
    let of = scope(&state, of).await?;
    let is_first = put.value.is_some();
    let entry = state
        .vault
        .set(&of, &key, put, &operator(&principal))
        .await?;
    let status = match entry.version {
        1 if is_first => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let answer = json!({
        "scope": of.to_string(),
        "key": entry.key,
        "secret": entry.secret,
        "version": entry.version,
    });
    Ok(json::data(status, answer))
}

async fn remove(
    state: web::Data<State>,
    request: HttpRequest,
    place: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Right::Secrets)?;
    json::no_query(&request)?;
    let (of, key) = place.into_inner();
    let of = scope(&state, of).await?;
    match state.vault.delete(&of, &key, &operator(&principal)).await? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(ApiError::not_found("there is no such entry")),
    }
}

async fn show_audit(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Right::Secrets)?;
    let known = ["scope", "key", "action", "since", "limit", "offset"];
    let query = Query::read(&request, &known)?;
    let page = query.page()?;
    let action = match query.text("action") {
        Some(name) => Some(Action::named(name).ok_or_else(|| {
            let known = Action::ALL.map(Action::as_str).join("`, `");
            ApiError::invalid_field("action", format!("expected one of `{known}`"))
        })?),
        None => None,
    };
    let rows = state.vault.audit(Wanted {
        scope: query.text("scope").map(str::to_owned),
        key: query.text("key").map(str::to_owned),
        action,
        since: query.moment("since", state.vault.now())?,
        limit: page.offset + page.limit,
    });
    let rows = rows.await?.into_iter().skip(page.offset);
    let rows: Vec<_> = rows.map(Act::from).collect();
    Ok(json::list(&rows))
}

async fn rotate(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Right::Admin)?;
    json::no_query(&request)?;
    let Rotate { forget_old } = json::read(&request, payload).await?;
    let actor = operator(&principal);
    let answer = match forget_old {
        true => json!({ "forgotten": state.vault.forget_old_master(&actor).await? }),
        false => json!({ "data_keys": state.vault.rotate_master(&actor).await?.data_keys }),
    };
    Ok(json::data(StatusCode::OK, answer))
}

fn operator(principal: &Principal) -> Actor {
    Actor::Operator {
        name: principal.id().to_string(),
        token: principal.credential().to_string(),
    }
}

/// The scope of `system` or `team:<name>`.
async fn scope(state: &web::Data<State>, text: String) -> Result<Scope, ApiError> {
    if text == "system" {
        return Ok(Scope::System);
    }
    let Some(name) = text.strip_prefix("team:").map(str::to_owned) else {
        let message = "expected `system`, or `team:` with the name of a team";
        return Err(ApiError::invalid_field("scope", message));
    };
    let service = state.service.clone();
    let team = web::block(move || service.team(&name)).await;
    let team: Option<TeamKey> = team.map_err(ApiError::internal)?;
    team.map(Scope::Team)
        .ok_or_else(|| ApiError::not_found("there is no such team"))
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        let (code, message) = (error.code(), error.to_string());
        match code {
            "not_found" => Self::not_found(message),
            "invalid_key" => Self::invalid_as("key", code, message),
            "too_short" | "too_large" => Self::invalid_as("value", code, message),
            "invalid_input" => Self::invalid(message),
            "internal" => Self::internal(message),
            _ => Self::new(StatusCode::CONFLICT, code, message),
        }
    }
}
