//! `/api/v1/memories`: what teams remember, for operators.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::ids::{MemoryId, TeamKey};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{
    State,
    auth::{principal::Principal, scope::Scope},
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};
use crate::memory::{
    chain::{Draft, Edit, Verdict},
    date,
    entry::{Actor, Entry, Key, Remark, Review, beginning},
    kind::Kind,
    provenance::Provenance,
    reading::Browse,
};

/// How much of a content a list shows, in characters.
const SHOWN: usize = 200;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/memories", Methods::new().get(list).post(create))
}

pub(super) fn one() -> Resource {
    routes::resource(
        "/api/v1/memories/{id}",
        Methods::new().get(show).patch(edit).delete(deactivate),
    )
}

pub(super) fn chain() -> Resource {
    routes::resource("/api/v1/memories/{id}/chain", Methods::new().get(versions))
}

pub(super) fn rollback() -> Resource {
    routes::resource(
        "/api/v1/memories/{id}/rollback",
        Methods::new().post(bring_back),
    )
}

pub(super) fn review() -> Resource {
    routes::resource("/api/v1/memories/{id}/review", Methods::new().post(decide))
}

pub(super) fn pin() -> Resource {
    routes::resource("/api/v1/memories/{id}/pin", Methods::new().post(set_pin))
}

/// A version as answers show it.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a MemoryId,
    team: &'a str,
    generation: u32,
    key: &'a Key,
    version: u32,
    #[serde(rename = "type")]
    kind: Kind,
    /// Whole where one version is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    /// The beginning, or the part that was found, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    active: bool,
    /// It waits to take the place of the active version.
    proposal: bool,
    review: Review,
    reviewed: Option<Done<'a>>,
    pinned: bool,
    expires_at: Option<String>,
    ended: Option<Done<'a>>,
    supersedes_id: Option<&'a MemoryId>,
    supersede_reason: Option<&'a str>,
    provenance: &'a Provenance,
    sources: &'a [String],
    updated_by: &'a Actor,
    created_at: Option<String>,
    updated_at: Option<String>,
    /// The version that a proposal would replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Current<'a>>,
}

#[derive(Serialize)]
struct Done<'a> {
    at: Option<String>,
    by: &'a Actor,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Current<'a> {
    id: &'a MemoryId,
    content: &'a str,
}

impl<'a> Done<'a> {
    fn of(remark: &'a Remark) -> Self {
        Self {
            at: json::date(remark.at),
            by: &remark.by,
            note: remark.note.as_deref(),
        }
    }
}

impl<'a> Row<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self {
            id: &entry.id,
            team: entry.team.name.as_str(),
            generation: entry.team.generation,
            key: &entry.key,
            version: entry.version,
            kind: entry.kind,
            content: None,
            snippet: None,
            score: None,
            active: entry.active,
            proposal: entry.is_proposal(),
            review: entry.review,
            reviewed: entry.reviewed.as_ref().map(Done::of),
            pinned: entry.pinned,
            expires_at: entry.expires_at.and_then(json::date),
            ended: entry.ended.as_ref().map(Done::of),
            supersedes_id: entry.supersedes_id.as_ref(),
            supersede_reason: entry.supersede_reason.as_deref(),
            provenance: &entry.provenance,
            sources: &entry.sources,
            updated_by: &entry.updated_by,
            created_at: json::date(entry.created_at),
            updated_at: json::date(entry.updated_at),
            current: None,
        }
    }

    fn whole(entry: &'a Entry) -> Self {
        Self {
            content: Some(&entry.content),
            ..Self::of(entry)
        }
    }
}

#[derive(Deserialize)]
struct Wish {
    team: String,
    key: String,
    content: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    supersede_reason: Option<String>,
    expires_at: Option<String>,
    #[serde(default)]
    sources: Vec<String>,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] = &[
        "team",
        "key",
        "content",
        "type",
        "supersede_reason",
        "expires_at",
        "sources",
    ];
}

#[derive(Deserialize)]
struct Correction {
    content: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    supersede_reason: Option<String>,
    /// Null takes the end away.
    #[serde(default, deserialize_with = "given")]
    expires_at: Option<Option<String>>,
}

impl Body for Correction {
    const FIELDS: &'static [&'static str] = &["content", "type", "supersede_reason", "expires_at"];
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Reject,
}

#[derive(Deserialize)]
struct Decided {
    decision: Decision,
    note: Option<String>,
}

impl Body for Decided {
    const FIELDS: &'static [&'static str] = &["decision", "note"];
}

#[derive(Deserialize)]
struct Pin {
    pinned: bool,
}

impl Body for Pin {
    const FIELDS: &'static [&'static str] = &["pinned"];
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let known = [
        "team", "key", "type", "review", "active", "q", "limit", "offset",
    ];
    let query = Query::read(&request, &known)?;
    let page = query.page()?;
    let browse = Browse {
        team: query.text("team").map(Into::into),
        key: query.text("key").map(Key::parse).transpose()?,
        kind: query.text("type").map(Kind::named).transpose()?,
        review: query.text("review").map(state_of_review).transpose()?,
        active: query.text("active").map(flag).transpose()?,
        words: query.text("q").map(ToOwned::to_owned),
        limit: page.limit,
        offset: page.offset,
    };
    let searched = browse.words.is_some();
    let found = state.memory.browse(browse).await?;
    let rows: Vec<Row<'_>> = found
        .rows
        .iter()
        .map(|found| Row {
            snippet: Some(match searched {
                true => &found.snippet,
                false => beginning(&found.snippet, SHOWN),
            }),
            score: searched.then_some(found.score),
            ..Row::of(&found.entry)
        })
        .collect();
    Ok(HttpResponse::Ok().json(json::counted(&rows, found.total)))
}

async fn create(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let by = operator(&state.access.require(&request, Scope::Operate)?);
    json::no_query(&request)?;
    let wish: Wish = json::read(&request, payload).await?;
    let draft = Draft {
        team: team(&state, &wish.team)?,
        key: Key::parse(&wish.key)?,
        content: wish.content,
        kind: wish.kind.as_deref().map(Kind::named).transpose()?,
        reason: wish.supersede_reason,
        sources: wish.sources,
        provenance: Provenance::by(&by),
        by,
        call: None,
        expires_at: wish.expires_at.as_deref().map(moment).transpose()?,
        looks_back: false,
    };
    let saved = state.memory.save(draft).await?;
    if saved.unchanged {
        let mut answer = json!({ "data": Row::whole(&saved.entry) });
        answer["data"]["unchanged"] = json!(true);
        return Ok(HttpResponse::Ok().json(answer));
    }
    Ok(json::data(StatusCode::CREATED, Row::whole(&saved.entry)))
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let id = MemoryId::from(id.into_inner());
    let chain = state.memory.chain(&id).await?;
    let entry = chain.iter().find(|entry| entry.id == id);
    let entry = entry.ok_or_else(|| ApiError::not_found("there is no such memory"))?;
    let active = chain.iter().find(|entry| entry.active);
    let current = active
        .filter(|_| entry.is_proposal())
        .map(|active| Current {
            id: &active.id,
            content: &active.content,
        });
    let row = Row {
        current,
        ..Row::whole(entry)
    };
    Ok(json::data(StatusCode::OK, row))
}

async fn edit(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let by = operator(&state.access.require(&request, Scope::Operate)?);
    json::no_query(&request)?;
    let wish: Correction = json::read(&request, payload).await?;
    let expires_at = match wish.expires_at {
        Some(text) => Some(text.as_deref().map(moment).transpose()?),
        None => None,
    };
    let edit = Edit {
        content: wish.content,
        kind: wish.kind.as_deref().map(Kind::named).transpose()?,
        reason: wish.supersede_reason,
        expires_at,
    };
    let edited = state.memory.edit(&id.into_inner().into(), edit, by).await?;
    Ok(json::data(StatusCode::OK, Row::whole(&edited)))
}

async fn deactivate(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let by = operator(&state.access.require(&request, Scope::Operate)?);
    let query = Query::read(&request, &["note"])?;
    let note = query.text("note").map(ToOwned::to_owned);
    let id = id.into_inner().into();
    state.memory.deactivate(&id, note, by).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn versions(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let chain = state.memory.chain(&id.into_inner().into()).await?;
    let rows: Vec<_> = chain.iter().map(Row::whole).collect();
    Ok(json::list(&rows))
}

async fn bring_back(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let by = operator(&state.access.require(&request, Scope::Operate)?);
    json::no_query(&request)?;
    let restored = state.memory.rollback(&id.into_inner().into(), by).await?;
    Ok(json::data(StatusCode::CREATED, Row::whole(&restored)))
}

async fn decide(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let by = operator(&state.access.require(&request, Scope::Operate)?);
    json::no_query(&request)?;
    let Decided { decision, note } = json::read(&request, payload).await?;
    let verdict = match decision {
        Decision::Approve => Verdict::Approve,
        Decision::Reject => Verdict::Reject,
    };
    let id = id.into_inner().into();
    let reviewed = state.memory.review(&id, verdict, note, by).await?;
    Ok(json::data(StatusCode::OK, Row::whole(&reviewed)))
}

async fn set_pin(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let by = operator(&state.access.require(&request, Scope::Operate)?);
    json::no_query(&request)?;
    let Pin { pinned } = json::read(&request, payload).await?;
    let entry = state
        .memory
        .pin(&id.into_inner().into(), pinned, by)
        .await?;
    Ok(json::data(StatusCode::OK, Row::whole(&entry)))
}

fn operator(principal: &Principal) -> Actor {
    Actor::Operator(principal.id().to_string())
}

fn team(state: &State, name: &str) -> Result<TeamKey, ApiError> {
    let found = state.service.team(name);
    found.ok_or_else(|| ApiError::invalid_field("team", "there is no such team"))
}

fn state_of_review(word: &str) -> Result<Review, ApiError> {
    let found = Review::ALL
        .into_iter()
        .find(|review| review.as_str() == word);
    found.ok_or_else(|| {
        let known = Review::ALL.map(Review::as_str).join(", ");
        ApiError::invalid_field("review", format!("expected one of {known}"))
    })
}

fn flag(word: &str) -> Result<bool, ApiError> {
    word.parse()
        .map_err(|_| ApiError::invalid_field("active", "expected `true` or `false`"))
}

fn moment(text: &str) -> Result<hivewright_actors::clock::Timestamp, ApiError> {
    date::read(text).ok_or_else(|| {
        ApiError::invalid_field("expires_at", "expected a date such as 2026-01-31T12:00:00Z")
    })
}
