//! `/api/v1/approvals`: calls that wait for a person, and what became of them.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    approvals::{
        Decide, List,
        record::{Approval, Choice, Decider, Status, Vote, Word},
        refusal::NotDecided,
    },
    clock::{Timestamp, millis},
    policy::class::Kind,
    store::reads,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};

/// An actor that does not answer in this time is in trouble.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/approvals", Methods::new().get(list))
}

pub(super) fn one() -> Resource {
    routes::resource(
        "/api/v1/approvals/{id}",
        Methods::new().get(show).post(decide),
    )
}

/// An approval as answers show it.
#[derive(Serialize)]
pub(super) struct Row {
    id: String,
    short_id: String,
    kind: Kind,
    team: String,
    generation: u32,
    session: Option<String>,
    turn: Option<String>,
    task_id: Option<String>,
    requester: Value,
    tool: Option<String>,
    arguments: Value,
    cwd: Option<String>,
    secrets: Vec<String>,
    summary: String,
    diff: Option<String>,
    rule: Option<String>,
    risk: Value,
    label: Value,
    lineage: Value,
    digest: String,
    status: Status,
    resolution: Value,
    votes: Vec<Value>,
    resolved_by: Option<String>,
    resolved_via: Option<String>,
    note: Option<String>,
    created_at: Option<String>,
    expires_at: Option<String>,
    /// Milliseconds until nobody can decide any more.
    time_left_ms: Option<u64>,
    resolved_at: Option<String>,
    execution: Value,
}

impl Row {
    pub(super) fn new(approval: Approval, now: Timestamp) -> Self {
        let vote =
            |vote: &Vote| json!({"by": vote.by, "choice": vote.choice, "at": json::date(vote.at)});
        let pending = approval.is_pending(now);
        Self {
            id: approval.id.to_string(),
            short_id: approval.short_id,
            kind: approval.kind,
            generation: approval.team.generation,
            team: approval.team.name.to_string(),
            session: approval.lane.map(|lane| match lane.topic {
                Some(topic) => format!("{}/{topic}", lane.team),
                None => lane.team.to_string(),
            }),
            turn: approval.turn.map(|turn| turn.to_string()),
            task_id: approval.task.map(|task| task.to_string()),
            requester: json!(approval.requester),
            tool: approval.tool,
            arguments: approval.arguments,
            cwd: approval.cwd,
            secrets: approval.secrets.into_keys().collect(),
            summary: approval.summary,
            diff: approval.diff,
            rule: approval.rule,
            risk: json!(approval.risk),
            label: json!(approval.label),
            lineage: json!(approval.lineage),
            digest: approval.digest,
            status: approval.status,
            resolution: json!(approval.resolution),
            votes: approval.votes.iter().map(vote).collect(),
            resolved_by: approval.resolved_by,
            resolved_via: approval.resolved_via,
            note: approval.note,
            created_at: json::date(approval.created_at),
            expires_at: json::date(approval.expires_at),
            time_left_ms: pending.then(|| millis(approval.expires_at.since(now))),
            resolved_at: approval.resolved_at.and_then(json::date),
            execution: json!(approval.execution),
        }
    }
}

#[derive(Deserialize)]
struct Verdict {
    decision: Choice,
    digest: String,
    #[serde(default)]
    uses: Option<Value>,
    #[serde(default)]
    note: Option<String>,
}

impl Body for Verdict {
    const FIELDS: &'static [&'static str] = &["decision", "digest", "uses", "note"];
}

/// The longest note, in characters.
const LONGEST_NOTE: usize = 2_000;

/// Oldest first: what has waited longest is decided first.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &["status", "team", "kind", "limit", "offset"])?;
    let status = choice(&query, "status", &Status::ALL)?;
    let kind = choice(&query, "kind", &Kind::ALL)?;
    let team = query.text("team").map(str::to_owned);
    let page = query.page()?;
    // Ends what has run out, and knows all that waits without reading the rest.
    let waiting = ask(state.spine.approvals.send(List).timeout(PATIENCE).await)?;
    let all = match status {
        Some(Status::Pending) => waiting,
        _ => {
            let store = &state.spine.store;
            // What has just run out is stored by then.
            store
                .commit(Default::default())
                .await
                .map_err(ApiError::internal)?;
            let found = store.read(reads::approvals).await;
            found.map_err(ApiError::internal)?.rows
        }
    };
    let now = state.access.auth.now();
    let rows: Vec<Row> = all
        .into_iter()
        .filter(|row| {
            status.is_none_or(|wanted| row.status == wanted)
                && kind.is_none_or(|wanted| row.kind == wanted)
                && team
                    .as_ref()
                    .is_none_or(|wanted| row.team.name.as_str() == wanted)
        })
        .map(|row| Row::new(row, now))
        .collect();
    Ok(json::page(&rows, page))
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let waiting = ask(state.spine.approvals.send(List).timeout(PATIENCE).await)?;
    let meant = |row: &Approval| row.id.as_str() == *id || row.short_id == *id;
    let found = match waiting.into_iter().find(meant) {
        Some(found) => Some(found),
        None => {
            let store = &state.spine.store;
            store
                .commit(Default::default())
                .await
                .map_err(ApiError::internal)?;
            let which = id.clone();
            let found = store.read(move |storage| reads::approval_called(storage, &which));
            found.await.map_err(ApiError::internal)?
        }
    };
    let found = found.ok_or_else(|| ApiError::not_found("there is no such approval"))?;
    Ok(json::data(
        StatusCode::OK,
        Row::new(found, state.access.auth.now()),
    ))
}

async fn decide(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Approve)?;
    json::no_query(&request)?;
    let verdict: Verdict = json::read(&request, payload).await?;
    if verdict.uses.is_some_and(|uses| uses != json!(1)) {
        let reason = "one call is approved at a time; leave it out";
        return Err(ApiError::invalid_field("uses", reason));
    }
    let long = |note: &String| note.chars().count() > LONGEST_NOTE;
    if verdict.note.as_ref().is_some_and(long) {
        let reason = format!("a note has at most {LONGEST_NOTE} characters");
        return Err(ApiError::invalid_field("note", reason));
    }
    let word = Word {
        which: id.into_inner(),
        choice: verdict.decision,
        digest: Some(verdict.digest),
        note: verdict.note,
        by: Decider::new(principal.id().clone()),
        via: via(&request).to_owned(),
    };
    let decide = Decide {
        word,
        channel: None,
    };
    let decided = state.spine.approvals.send(decide).timeout(PATIENCE).await;
    match ask(decided)? {
        Ok(approval) => Ok(json::data(
            StatusCode::OK,
            Row::new(approval, state.access.auth.now()),
        )),
        Err(refusal) => Err(refused(refusal)),
    }
}

fn refused(refusal: NotDecided) -> ApiError {
    let message = refusal.to_string();
    let conflict = |code, message| ApiError::new(StatusCode::CONFLICT, code, message);
    match refusal {
        NotDecided::NotFound => ApiError::not_found(message),
        NotDecided::AlreadyResolved(approval) => conflict("already_resolved", told(&approval)),
        NotDecided::Expired(_) => conflict("expired", message),
        NotDecided::DigestMismatch => conflict("digest_mismatch", message),
        NotDecided::NotAllowed => ApiError::new(StatusCode::FORBIDDEN, "forbidden", message),
        other => ApiError::internal(other),
    }
}

/// On which way somebody decides.
fn via(request: &HttpRequest) -> &'static str {
    let client = request.headers().get("x-client");
    match client.and_then(|value| value.to_str().ok()) {
        Some("cli") => "cli",
        _ => "api",
    }
}

/// Who was first, and when.
fn told(approval: &Approval) -> String {
    let who = approval.resolved_by.as_deref().unwrap_or("nobody");
    let when = approval
        .resolved_at
        .and_then(json::date)
        .unwrap_or_default();
    format!("it was {} by {who} at {when}", approval.status.as_str())
}

/// One of a few words, or none.
pub(super) fn choice<T: Copy>(
    query: &Query,
    field: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, ApiError> {
    let Some(text) = query.text(field) else {
        return Ok(None);
    };
    match choices.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            let reason = format!("expected one of {}", names.join(", "));
            Err(ApiError::invalid_field(field, reason))
        }
    }
}

/// What an actor answered.
pub(super) fn ask<T>(answer: Result<T, actix::MailboxError>) -> Result<T, ApiError> {
    answer.map_err(ApiError::internal)
}
