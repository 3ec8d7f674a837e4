//! `/api/v1/triggers`: what starts work without a person typing.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    ids::TriggerId,
    scheduler::{
        hand::{ByHand, Fire, Overlap},
        manage::{Disable, Listed, SetCursors, Which},
        run::Cause,
    },
    task,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    State,
    auth::{principal::Principal, scope::Scope},
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};
use crate::triggers::{
    desk::{Author, DeskError, Parts},
    preview, show,
};

/// A key that callers may give so that the same request makes no second task.
const KEY: &str = "idempotency-key";
/// The longest such key.
const LONGEST_KEY: usize = 128;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/triggers", Methods::new().get(list).post(create))
}

pub(super) fn looks() -> Resource {
    routes::resource("/api/v1/triggers/preview", Methods::new().post(look))
}

pub(super) fn one() -> Resource {
    routes::resource(
        "/api/v1/triggers/{id}",
        Methods::new().get(show_one).patch(change).delete(remove),
    )
}

pub(super) fn enabling() -> Resource {
    routes::resource("/api/v1/triggers/{id}/enable", Methods::new().post(enable))
}

pub(super) fn disabling() -> Resource {
    routes::resource(
        "/api/v1/triggers/{id}/disable",
        Methods::new().post(disable),
    )
}

pub(super) fn running() -> Resource {
    routes::resource("/api/v1/triggers/{id}/run", Methods::new().post(run))
}

pub(super) fn runs() -> Resource {
    routes::resource("/api/v1/triggers/{id}/runs", Methods::new().get(history))
}

pub(super) fn cursors() -> Resource {
    routes::resource(
        "/api/v1/triggers/{id}/cursors",
        Methods::new().put(set_cursors),
    )
}

/// A trigger as an operator writes it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Form(Map<String, Value>);

impl Body for Form {
    const FIELDS: &'static [&'static str] = &[
        "allow_untrusted",
        "config",
        "cooldown",
        "deadline",
        "enable",
        "failure_threshold",
        "max_steps",
        "missed",
        "name",
        "notify",
        "notify_channel",
        "notify_topic",
        "overlap_policy",
        "priority",
        "quiet",
        "subagent",
        "task",
        "team",
        "type",
    ];
}

#[derive(Deserialize)]
struct Off {
    reason: Option<String>,
    #[serde(default)]
    cancel_running: bool,
}

impl Body for Off {
    const FIELDS: &'static [&'static str] = &["reason", "cancel_running"];
}

#[derive(Deserialize)]
struct Start {
    max_steps: Option<u32>,
    overlap_policy: Option<String>,
    sample: Option<String>,
}

impl Body for Start {
    const FIELDS: &'static [&'static str] = &["max_steps", "overlap_policy", "sample"];
}

#[derive(Deserialize)]
struct Sketch {
    r#type: String,
    config: Map<String, Value>,
    sample: Option<String>,
}

impl Body for Sketch {
    const FIELDS: &'static [&'static str] = &["type", "config", "sample"];
}

#[derive(Deserialize)]
struct Cursors {
    cursors: BTreeMap<String, String>,
}

impl Body for Cursors {
    const FIELDS: &'static [&'static str] = &["cursors"];
}

impl From<DeskError> for ApiError {
    fn from(error: DeskError) -> Self {
        let DeskError {
            code,
            field,
            message,
            ..
        } = error;
        let status = match code {
            "not_found" => StatusCode::NOT_FOUND,
            "name_taken" | "name_reserved" | "limit_triggers" | "not_approved" => {
                StatusCode::CONFLICT
            }
            "queue_full" => return Self::rate_limited(message),
            "draining" | "busy" => return Self::draining(),
            "internal" => return Self::internal(message),
            _ => StatusCode::BAD_REQUEST,
        };
        let refusal = Self::new(status, code, message);
        match field {
            Some(field) => refusal.about(field),
            None => refusal,
        }
    }
}

/// The principal, and the desk where it stands.
fn stand<'a>(
    state: &'a web::Data<State>,
    request: &HttpRequest,
) -> Result<(Principal, &'a Parts), ApiError> {
    let principal = state.access.require(request, Scope::Operate)?;
    Ok((principal, state.desk.parts()?))
}

fn id(path: &web::Path<String>) -> Which {
    Which::Id(TriggerId::from(path.as_str()))
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (_, desk) = stand(&state, &request)?;
    let known = ["team", "state", "type", "subagent", "q", "limit", "offset"];
    let query = Query::read(&request, &known)?;
    let page = query.page()?;
    let word = query.text("q").map(str::to_lowercase);
    let fits = |listed: &Listed| {
        let shown = show::trigger(&listed.trigger);
        let is = |field: &str| {
            query
                .text(field)
                .is_none_or(|wanted| shown[field].as_str() == Some(wanted))
        };
        let definition = &listed.trigger.definition;
        let holds = |word: &String| {
            definition.name.contains(word.as_str()) || definition.task.to_lowercase().contains(word)
        };
        ["team", "state", "type", "subagent"].into_iter().all(is) && word.as_ref().is_none_or(holds)
    };
    let listed = desk.list(None).await?;
    let rows: Vec<Value> = listed
        .iter()
        .filter(|row| fits(row))
        .map(show::listed)
        .collect();
    Ok(json::page(&rows, page))
}

async fn create(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (principal, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let Form(mut form) = json::read(&request, payload).await?;
    let team = match form.remove("team") {
        Some(Value::String(team)) => team,
        Some(_) => return Err(ApiError::invalid_field("team", "expected text")),
        None => return Err(ApiError::invalid_field("team", "is missing")),
    };
    let enable = match form.remove("enable") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(enable)) => enable,
        Some(_) => return Err(ApiError::invalid_field("enable", "expected true or false")),
    };
    let author = Author::Operator(principal.id().as_str());
    let team = desk.team(&author, &team)?;
    let made = desk.create(&author, team, &form, enable, false).await?;
    Ok(json::data(StatusCode::CREATED, with_times(desk, &made)))
}

/// A trigger with its next times in its own zone.
fn with_times(desk: &Parts, trigger: &hivewright_actors::scheduler::trigger::Trigger) -> Value {
    let mut shown = show::trigger(trigger);
    shown["next_due"] = json!(desk.next_times(trigger, 3));
    shown
}

async fn show_one(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let (_, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let listed = desk.known(id(&path)).await?;
    let mut shown = show::listed(&listed);
    shown["next_due"] = json!(desk.next_times(&listed.trigger, 3));
    Ok(json::data(StatusCode::OK, shown))
}

async fn change(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (principal, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let Form(form) = json::read(&request, payload).await?;
    if let Some(fixed) = ["team", "enable"]
        .into_iter()
        .find(|name| form.contains_key(*name))
    {
        let reason = match fixed {
            "team" => "cannot change; create another trigger",
            _ => "use `/enable` and `/disable`",
        };
        return Err(ApiError::invalid_field(fixed, reason));
    }
    let author = Author::Operator(principal.id().as_str());
    let changed = desk.update(&author, id(&path), form).await?;
    Ok(json::data(StatusCode::OK, with_times(desk, &changed)))
}

async fn remove(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let (_, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    desk.delete(id(&path)).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn enable(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let (_, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let enabled = desk.enable(id(&path)).await?;
    Ok(json::data(StatusCode::OK, with_times(desk, &enabled)))
}

async fn disable(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (principal, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let off: Off = json::read(&request, payload).await?;
    let by = format!("disabled by operator {}", principal.id());
    let disabled = desk.disable(Disable {
        which: id(&path),
        reason: off.reason.unwrap_or(by),
        cancel_running: off.cancel_running,
    });
    Ok(json::data(StatusCode::OK, show::trigger(&disabled.await?)))
}

async fn run(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (principal, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let key = match request.headers().get(KEY).map(|value| value.to_str()) {
        Some(Ok(key)) if (1..=LONGEST_KEY).contains(&key.len()) => key.to_owned(),
        Some(_) => {
            return Err(ApiError::invalid(
                "`Idempotency-Key` has 1 to 128 characters",
            ));
        }
        None => format!("{:016x}", getrandom::u64().map_err(ApiError::internal)?),
    };
    let start: Start = json::read(&request, payload).await?;
    if start
        .max_steps
        .is_some_and(|steps| !(1..=500).contains(&steps))
    {
        return Err(ApiError::invalid_field("max_steps", "is not 1-500"));
    }
    let overlap = match start.overlap_policy.as_deref() {
        None | Some("allow") => Overlap::Allow,
        Some("confirm") => Overlap::Confirm,
        Some("skip") => Overlap::Skip,
        Some("replace") => Overlap::Replace,
        Some(_) => {
            let reason = "expected one of `allow`, `confirm`, `skip`, `replace`";
            return Err(ApiError::invalid_field("overlap_policy", reason));
        }
    };
    let fired = desk.fire(Fire {
        which: id(&path),
        cause: Cause::Manual,
        key,
        max_steps: start.max_steps,
        overlap,
        sample: start.sample,
        principal: task::Cause::Operator {
            name: principal.id().to_string(),
        },
        source: None,
        turn: None,
    });
    match fired.await? {
        ByHand::Fired(answer) => {
            let mut shown = show::run(&answer.run);
            if let Some(first) = answer.first {
                shown["duplicate_of"] = json!(first);
            }
            Ok(json::data(StatusCode::ACCEPTED, shown))
        }
        ByHand::NeedsConfirmation(task) => Err(ApiError::conflict(format!(
            "its task {task} is unfinished; give `overlap_policy`"
        ))),
    }
}

/// Newest first.
async fn history(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let (_, desk) = stand(&state, &request)?;
    let query = Query::read(&request, &["before", "limit", "offset"])?;
    let page = query.page()?;
    let before = query.moment("before", state.access.auth.now())?;
    let trigger = desk.known(id(&path)).await?.trigger;
    let most = page.offset + page.limit;
    let runs = desk.runs(trigger.team, trigger.id, before, most).await?;
    let rows: Vec<Value> = runs.iter().skip(page.offset).map(show::run).collect();
    Ok(json::list(&rows))
}

async fn set_cursors(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (_, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let Cursors { cursors } = json::read(&request, payload).await?;
    let set = desk.set_cursors(SetCursors {
        which: id(&path),
        cursors,
    });
    Ok(json::data(StatusCode::OK, show::trigger(&set.await?)))
}

async fn look(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (principal, desk) = stand(&state, &request)?;
    json::no_query(&request)?;
    let sketch: Sketch = json::read(&request, payload).await?;
    let author = Author::Operator(principal.id().as_str());
    let sample = sketch.sample.as_deref();
    let shown = preview::preview(desk, &author, &sketch.r#type, &sketch.config, sample)?;
    Ok(json::data(StatusCode::OK, shown))
}
