//! `/api/v1/trust`: senders who are let in or kept out by name, and what the trust gate decided.

use std::time::Duration;

use actix::MailboxError;
use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    channel_type::ChannelType,
    router::{
        audit::AuditRow,
        granting::{Grant, GrantError, ListGrants, Revoke, Which},
        grants::{Grantee, Level, SenderGrant},
    },
    store::trust::{AuditFilter, audit},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};

/// An actor that does not answer in this time is in trouble.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/trust", Methods::new().get(list).post(grant))
}

pub(super) fn decisions() -> Resource {
    routes::resource("/api/v1/trust/audit", Methods::new().get(show_audit))
}

pub(super) fn one() -> Resource {
    routes::resource("/api/v1/trust/{id}", Methods::new().delete(revoke))
}

/// A grant as answers show it.
#[derive(Serialize)]
struct Row {
    id: String,
    channel_type: ChannelType,
    sender_id: String,
    channel_id: Option<String>,
    trust_level: Level,
    granted_by: String,
    granted_at: Option<String>,
}

impl From<SenderGrant> for Row {
    fn from(grant: SenderGrant) -> Self {
        Self {
            id: grant.id,
            channel_type: grant.grantee.channel_type,
            sender_id: grant.grantee.sender,
            channel_id: grant.grantee.channel.map(|channel| channel.to_string()),
            trust_level: grant.level,
            granted_by: grant.granted_by,
            granted_at: json::date(grant.at),
        }
    }
}

/// A decision as answers show it.
#[derive(Serialize)]
struct Decided {
    id: String,
    time: Option<String>,
    channel_type: ChannelType,
    channel_id: String,
    sender: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    asserted_by: Option<String>,
    decision: &'static str,
    reason: &'static str,
}

impl From<AuditRow> for Decided {
    fn from(row: AuditRow) -> Self {
        Self {
            id: row.id,
            time: json::date(row.at),
            channel_type: row.channel_type,
            channel_id: row.channel.to_string(),
            sender: row.sender,
            asserted_by: row.asserted_by.map(|principal| principal.to_string()),
            decision: row.decision.as_str(),
            reason: row.decision.reason.as_str(),
        }
    }
}

#[derive(Deserialize)]
struct Wish {
    channel_type: String,
    sender_id: String,
    channel_id: Option<String>,
    trust_level: Option<String>,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] =
        &["channel_type", "sender_id", "channel_id", "trust_level"];
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    let query = Query::read(
        &request,
        &["channel_type", "trust_level", "limit", "offset"],
    )?;
    let channel_type: Option<ChannelType> = match query.text("channel_type") {
        Some(name) => Some(name.parse().map_err(
            |error: hivewright_actors::channel_type::UnknownChannelType| {
                ApiError::invalid_field("channel_type", error.to_string())
            },
        )?),
        None => None,
    };
    let level = query.text("trust_level").map(level).transpose()?;
    let page = query.page()?;
    let grants = state.spine.router.send(ListGrants).timeout(PATIENCE).await;
    let rows: Vec<Row> = answered(grants)?
        .into_iter()
        .filter(|grant| {
            channel_type
                .as_ref()
                .is_none_or(|wanted| grant.grantee.channel_type == *wanted)
                && level.is_none_or(|wanted| grant.level == wanted)
        })
        .map(Row::from)
        .collect();
    Ok(json::page(&rows, page))
}

async fn grant(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let wish: Wish = json::read(&request, payload).await?;
    let channel = wish.channel_id.as_deref();
    let grantee = Grantee::read(&wish.channel_type, &wish.sender_id, channel)
        .map_err(|(field, reason)| ApiError::invalid_field(field, reason))?;
    let level = wish.trust_level.as_deref().map(level).transpose()?;
    let granted = state.spine.router.send(Grant {
        grantee,
        level: level.unwrap_or_default(),
        by: principal.id().to_string(),
    });
    let granted = answered(granted.timeout(PATIENCE).await)?;
    Ok(json::data(StatusCode::CREATED, Row::from(granted)))
}

fn level(name: &str) -> Result<Level, ApiError> {
    Level::named(name).map_err(|reason| ApiError::invalid_field("trust_level", reason))
}

async fn revoke(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let revoke = Revoke(Which::Id(id.into_inner()));
    let revoked = state.spine.router.send(revoke).timeout(PATIENCE).await;
    match answered(revoked)? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(ApiError::not_found("there is no such grant")),
    }
}

/// Newest first.
async fn show_audit(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    let known = ["since", "decision", "sender", "limit", "offset", "cursor"];
    let query = Query::read(&request, &known)?;
    let page = query.page()?;
    let filter = AuditFilter {
        since: query
            .moment("since", state.access.auth.now())?
            .unwrap_or_default(),
        allowed: match query.text("decision") {
            None => None,
            Some("allowed") => Some(true),
            Some("denied") => Some(false),
            Some(_) => {
                let reason = "expected `allowed` or `denied`";
                return Err(ApiError::invalid_field("decision", reason));
            }
        },
        sender: query.text("sender").map(str::to_owned),
    };
    let rows = state
        .spine
        .store
        .read(move |storage| audit(storage, &filter));
    let rows = rows.await.map_err(ApiError::internal)?;
    let total = rows.len();
    let start = match query.text("cursor") {
        // Rows that came since stand before it, so that its place is found anew.
        Some(cursor) => rows
            .iter()
            .position(|row| row.id == cursor)
            .map(|at| at + 1),
        None => Some(page.offset),
    };
    let start = start.ok_or_else(|| {
        ApiError::invalid_field("cursor", "there is no such row; begin without a cursor")
    })?;
    let shown = rows.into_iter().skip(start).take(page.limit);
    let shown: Vec<Decided> = shown.map(Decided::from).collect();
    let mut answer = json::counted(&shown, total);
    if start + shown.len() < total
        && let Some(last) = shown.last()
    {
        answer["next_cursor"] = json!(last.id);
    }
    Ok(HttpResponse::Ok().json(answer))
}

fn answered<T>(answer: Result<Result<T, GrantError>, MailboxError>) -> Result<T, ApiError> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error @ GrantError::TooMany)) => Err(ApiError::conflict(error.to_string())),
        Ok(Err(error)) => Err(ApiError::internal(error)),
        Err(error) => Err(ApiError::internal(error)),
    }
}
