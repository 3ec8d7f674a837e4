//! `/api/v1/tasks`: work, open and done.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    clock::Timestamp,
    ids::{TaskId, TeamName},
    org::Bootstrap,
    queue::submit::{Submission, Submit},
    store::{reads, records::Writes},
    task::{Cause, Ending, Kind, Priority, Source, Task},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json::{self, Body},
    query::{Page, Query},
    routes::{self, Methods},
    teams::{acting::refused, parts},
};
use crate::tools::org::office::Parts;

/// What takes longer to end goes on without whoever cancelled it.
const PATIENCE: Duration = Duration::from_secs(25);
/// A list looks at this many tasks that have ended.
const MOST: usize = 2_000;
/// Tasks that have ended and that another one made, of which so many are shown.
const CHILDREN: usize = 200;
/// So much of what was asked is shown in a list, in characters.
const BEGINNING: usize = 200;
/// So much of a result is shown in a list, in characters.
const SHOWN: usize = 10_000;

pub(super) mod giving;
mod stats;

pub(super) fn resource() -> Resource {
    routes::resource(
        "/api/v1/tasks",
        Methods::new().get(list).post(giving::create),
    )
}

pub(super) fn counts() -> Resource {
    routes::resource("/api/v1/tasks/stats", Methods::new().get(stats::show))
}

pub(super) fn one() -> Resource {
    routes::resource("/api/v1/tasks/{id}", Methods::new().get(show))
}

pub(super) fn cancel() -> Resource {
    routes::resource("/api/v1/tasks/{id}/cancel", Methods::new().post(end))
}

pub(super) fn retry() -> Resource {
    routes::resource("/api/v1/tasks/{id}/retry", Methods::new().post(try_again))
}

/// A task as answers show it.
#[derive(Serialize)]
struct Row {
    id: TaskId,
    team: TeamName,
    generation: u32,
    #[serde(rename = "type")]
    kind: Kind,
    priority: Priority,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_reason: Option<&'static str>,
    body: String,
    created_by: String,
    created_at: Option<String>,
    not_before: Option<String>,
    deadline_at: Option<String>,
    attempts: u32,
    redelivered: bool,
    reply_to: Option<String>,
    source_channel_id: Option<String>,
    topic_id: Option<String>,
    lineage: Value,
    label: &'static str,
    outcome: Option<Value>,
}

impl Row {
    fn of(task: Task, whole: bool) -> Self {
        let cut = |text: &str, most: usize| match whole {
            true => text.to_owned(),
            false => text.chars().take(most).collect(),
        };
        let state = task.state();
        let line = task.lineage.as_ref();
        let outcome = task.outcome.as_ref().map(|outcome| {
            let error = outcome
                .code
                .map(|code| json!({ "code": code.as_str(), "message": outcome.message }));
            let took = outcome.finished_at.since(task.created_at);
            json!({
                "result": cut(&outcome.text, SHOWN),
                "error": error,
                "finished_at": json::date(outcome.finished_at),
                "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                "usage": outcome.usage,
            })
        });
        let source = task.source.as_ref();
        Self {
            body: cut(&task.body, BEGINNING),
            state,
            wait_reason: task.parked.as_ref().map(|parked| parked.reason.as_str()),
            created_at: json::date(task.created_at),
            not_before: task.not_before.and_then(json::date),
            deadline_at: json::date(task.deadline_at),
            reply_to: task.reply_to.as_ref().map(|lane| lane.team.to_string()),
            source_channel_id: source.map(|source| source.channel.to_string()),
            topic_id: source
                .and_then(|source| source.topic.as_ref())
                .map(|topic| topic.id.to_string()),
            lineage: json!({
                "root": task.root(),
                "parent": line.and_then(|line| line.parent()),
                "hops": line.map_or(0, |line| line.hops()),
                "path": line.map(|line| line.path.iter().map(|above| &above.task).collect::<Vec<_>>()),
            }),
            label: task.label.as_str(),
            outcome,
            id: task.id,
            team: task.lane.team,
            generation: task.generation,
            kind: task.kind,
            priority: task.priority,
            created_by: task.from,
            attempts: task.attempts,
            redelivered: task.redelivered,
        }
    }
}

/// Which tasks are wanted.
struct Wanted {
    state: Option<String>,
    team: Option<String>,
    kind: Option<String>,
    priority: Option<String>,
    topic: Option<String>,
    root: Option<String>,
    since: Timestamp,
    until: Option<Timestamp>,
    words: Option<String>,
}

const FILTERS: [&str; 11] = [
    "state", "team", "type", "priority", "topic", "root", "since", "until", "q", "limit", "offset",
];

impl Wanted {
    fn read(query: &Query, now: Timestamp) -> Result<Self, ApiError> {
        let text = |name: &str| query.text(name).map(str::to_owned);
        let state = text("state");
        let states = [
            "accepted",
            "running",
            "waiting",
            "done",
            "failed",
            "cancelled",
            "expired",
            "dead",
        ];
        if state
            .as_ref()
            .is_some_and(|state| !states.contains(&state.as_str()))
        {
            let known = states.join("`, `");
            return Err(ApiError::invalid_field(
                "state",
                format!("expected one of `{known}`"),
            ));
        }
        Ok(Self {
            state,
            team: text("team"),
            kind: text("type"),
            priority: text("priority"),
            topic: text("topic"),
            root: text("root"),
            since: query.moment("since", now)?.unwrap_or_default(),
            until: query.moment("until", now)?,
            words: text("q").map(|words| words.to_lowercase()),
        })
    }

    fn is_team(&self, team: &TeamName) -> bool {
        self.team.as_ref().is_none_or(|name| team.as_str() == name)
    }

    fn holds(&self, task: &Task) -> bool {
        let named = |value: Value, wanted: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| value == wanted.as_str())
        };
        let topic = task
            .source
            .as_ref()
            .and_then(|source| source.topic.as_ref());
        let topic = topic.map(|topic| topic.id.as_str());
        let text = |task: &Task| {
            let said = task.outcome.as_ref().map_or("", |outcome| &outcome.text);
            format!("{}\n{}\n{said}", task.id, task.body).to_lowercase()
        };
        self.is_team(&task.lane.team)
            && self
                .state
                .as_ref()
                .is_none_or(|state| task.state() == state)
            && named(json!(task.kind), &self.kind)
            && named(json!(task.priority), &self.priority)
            && self
                .topic
                .as_ref()
                .is_none_or(|wanted| topic == Some(wanted))
            && self
                .root
                .as_ref()
                .is_none_or(|root| task.root().as_str() == root)
            && task.created_at >= self.since
            && self.until.is_none_or(|until| task.created_at <= until)
            && self
                .words
                .as_ref()
                .is_none_or(|words| text(task).contains(words.as_str()))
    }

    fn wants_ended(&self) -> bool {
        let open = ["accepted", "running", "waiting"];
        self.state
            .as_ref()
            .is_none_or(|state| !open.contains(&state.as_str()))
    }
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &FILTERS)?;
    let parts = parts(&state)?;
    let wanted = Wanted::read(&query, parts.clock.now())?;
    let Page { limit, offset } = query.page()?;
    let tasks = parts.store.read(move |storage| {
        let mut tasks: Vec<Task> = reads::open_tasks(storage)?.rows;
        tasks.retain(|task| wanted.holds(task));
        // The newest first, and what is open before what has ended.
        tasks.sort_by_key(|task| std::cmp::Reverse((task.created_at, task.arrival)));
        if wanted.wants_ended() {
            let of = |team: &TeamName| wanted.is_team(team);
            let ended =
                reads::ended_tasks(storage, wanted.since, MOST, of, |task| wanted.holds(task))?;
            tasks.extend(ended);
        }
        Ok(tasks)
    });
    let tasks = tasks.await.map_err(ApiError::internal)?;
    let total = tasks.len();
    let rows: Vec<Row> = tasks
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(|task| Row::of(task, false))
        .collect();
    Ok(HttpResponse::Ok().json(json::counted(&rows, total)))
}

/// A task by its id.
async fn find(parts: &Parts, id: &str) -> Result<Task, ApiError> {
    let task = TaskId::from(id);
    let row = parts.store.read(move |storage| reads::task(storage, &task));
    row.await
        .map_err(ApiError::internal)?
        .ok_or_else(|| ApiError::not_found(format!("there is no task `{id}`")))
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let task = find(parts(&state)?, &id).await?;
    let children = below(&state, &task).await?;
    let session_id = task.lane.session_id(task.generation);
    let mut shown = serde_json::to_value(Row::of(task, true)).map_err(ApiError::internal)?;
    shown["session_id"] = json!(session_id);
    shown["children"] = json!(children);
    Ok(json::clean(&state.secrets, &json!({ "data": shown })))
}

/// A task that another one made.
#[derive(Serialize)]
struct Child {
    id: TaskId,
    team: TeamName,
    #[serde(rename = "type")]
    kind: Kind,
    state: &'static str,
}

/// The tasks that a task made, newest first; of those that ended the last.
async fn below(state: &State, task: &Task) -> Result<Vec<Child>, ApiError> {
    let (id, since) = (task.id.clone(), task.created_at);
    let found = state.spine.store.read(move |storage| {
        let is_child = |task: &Task| {
            let line = task.lineage.as_ref();
            line.and_then(|line| line.parent()) == Some(&id)
        };
        let mut tasks = reads::open_tasks(storage)?.rows;
        tasks.retain(|task| is_child(task));
        tasks.extend(reads::ended_tasks(
            storage,
            since,
            CHILDREN,
            |_| true,
            is_child,
        )?);
        Ok(tasks)
    });
    let tasks = found.await.map_err(ApiError::internal)?;
    let child = |task: Task| Child {
        state: task.state(),
        team: task.lane.team,
        kind: task.kind,
        id: task.id,
    };
    Ok(tasks.into_iter().map(child).collect())
}

fn is_final(task: &Task, what: &str) -> ApiError {
    let state = task.state();
    ApiError::new(
        StatusCode::CONFLICT,
        "final",
        format!("task `{}` is {state} and cannot be {what}", task.id),
    )
}

#[derive(Deserialize)]
struct Cancel {
    reason: Option<String>,
    #[serde(default)]
    cascade: bool,
}

impl Body for Cancel {
    const FIELDS: &'static [&'static str] = &["reason", "cascade"];
}

async fn end(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let Cancel { reason, cascade } = json::read(&request, payload).await?;
    let parts = parts(&state)?;
    let task = find(parts, &id).await?;
    let reason = reason.unwrap_or_else(|| format!("cancelled by {}", principal.id()));
    let mut going = vec![task.id.clone()];
    if cascade {
        let root = task.id.clone();
        let below = parts.store.read(move |storage| {
            let open = reads::open_tasks(storage)?.rows;
            let below = open.into_iter().filter(|task| {
                let line = task.lineage.as_ref();
                line.is_some_and(|line| line.path.iter().any(|above| above.task == root))
            });
            Ok(below.map(|task| task.id).collect::<Vec<_>>())
        });
        going.extend(below.await.map_err(ApiError::internal)?);
    }
    match task.outcome.as_ref().map(|outcome| outcome.ending) {
        // What was cancelled before is as it should be.
        None | Some(Ending::Cancelled) => {}
        Some(_) if going.len() > 1 => {}
        Some(_) => return Err(is_final(&task, "cancelled")),
    }
    for id in &going {
        parts.work.cancel(id.clone(), reason.clone()).await;
    }
    let ended = async {
        for id in &going {
            parts.work.wait(id.clone(), None).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, ended).await.is_ok();
    let task = find(parts, task.id.as_str()).await?;
    let status = if in_time {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok(json::data(
        status,
        json!({ "id": task.id, "state": task.state(), "cancelled": going }),
    ))
}

#[derive(Deserialize)]
struct Nothing {}

impl Body for Nothing {
    const FIELDS: &'static [&'static str] = &[];
}

/// The same work as a new task, linked to the one it follows.
fn again(task: &Task, id: TaskId, generation: u32, operator: &str, now: Timestamp) -> Task {
    let source = task.source.as_ref().map(|source| Source {
        // That message has had its answer: what comes now is a notification.
        message: None,
        ..source.clone()
    });
    Task {
        generation,
        kind: task.kind,
        priority: task.priority,
        source,
        reply_to: task.reply_to.clone(),
        asker: task.asker,
        on_result: task.on_result,
        options: task.options.clone(),
        lineage: Some(task.lineage_below()),
        label: task.label,
        cause: Some(Cause::Operator {
            name: operator.to_owned(),
        }),
        ..Task::new(
            id,
            task.lane.clone(),
            task.body.clone(),
            task.from.clone(),
            now,
        )
    }
}

async fn try_again(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let Nothing {} = json::read(&request, payload).await?;
    let parts = parts(&state)?;
    let task = find(parts, &id).await?;
    match task.outcome.as_ref().map(|outcome| outcome.ending) {
        Some(Ending::Failed | Ending::Dead | Ending::Expired | Ending::Cancelled) => {}
        Some(Ending::Done) | None => return Err(is_final(&task, "tried again")),
    }
    if matches!(task.kind, Kind::Query | Kind::Agent) {
        return Err(ApiError::conflict(
            "nobody waits for the answer any more: the turn that asked has gone on",
        ));
    }
    let tree = parts.view.now();
    let team = tree.get(task.lane.team.as_str());
    let team = team.filter(|team| team.generation == task.generation);
    let team = team.ok_or_else(|| {
        ApiError::conflict(format!("the team of this task, `{}`, is gone", task.team()))
    })?;
    let new = again(
        &task,
        parts.ids.task(),
        team.generation,
        principal.id().as_str(),
        parts.clock.now(),
    );
    let new_id = new.id.clone();
    if task.kind == Kind::Bootstrap {
        let given = parts.org.send(Bootstrap { task: new }).await;
        given
            .map_err(ApiError::internal)?
            .map_err(|error| refused(&error))?
            .ok_or_else(|| ApiError::conflict("the team is ready: there is nothing to set up"))?;
    } else {
        let submitted = parts.work.submit(Submit {
            task: new,
            writes: Writes::new(),
            overlap: None,
            giver: None,
        });
        match submitted.await {
            Ok(Submission::Enqueued { .. }) => {}
            Ok(_) => return Err(ApiError::conflict("the team is busy")),
            Err(refusal) => return Err(refused(&refusal.into())),
        }
    }
    Ok(json::data(
        StatusCode::CREATED,
        json!({ "id": new_id, "retry_of": task.id, "state": "accepted" }),
    ))
}
