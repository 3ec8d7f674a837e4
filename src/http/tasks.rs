//! `/api/v1/tasks`: work, open and done.

use std::{collections::HashSet, ops::ControlFlow, time::Duration};

use actix_web::{Either, http::StatusCode, web};
use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::{TaskId, TeamName},
    org::{Bootstrap, record::TeamState, tree::Tree},
    queue::submit::{Submission, Submit},
    store::{
        reads::{Range, scan},
        records::Writes,
    },
    task::{
        Cause, Ending, Kind, Priority, Source, Task, WaitReason,
        records::{self as tasks, EndedTask},
    },
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    State,
    arguments::{Caller, Json, Operate, Read},
    error::ApiError,
    json,
    listing::Gathering,
    operation::{Field, Operation},
    query::Query,
    reply::{Accepted, Clean, Created, Data, Rows},
    routes::{Resource, at},
    teams::{
        acting::{Nothing, refused},
        parts,
    },
};
use crate::{tools::org::office::Parts, vocabulary};

/// What takes longer to end goes on without whoever cancelled it.
const PATIENCE: Duration = Duration::from_secs(25);
/// Tasks that have ended and that another one made, of which so many are shown.
const CHILDREN: usize = 200;
/// One cause leads to no more tasks than this.
const TREE: usize = 1_000;
/// So much of what was asked is shown in a list, in characters.
const BEGINNING: usize = 200;
/// So much of a result is shown in a list, in characters.
const SHOWN: usize = 10_000;

pub(crate) mod giving;
mod stats;

const STATES: [&str; 8] =
    ["accepted", "running", "waiting", "done", "failed", "cancelled", "expired", "dead"];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/tasks")
            .get(
                Operation::new("Lists tasks, open and ended.")
                    .query(
                        const {
                            &[
                                Field::word("state", || STATES.to_vec(), "Only in this state."),
                                Field::text("team", "Only of this team."),
                                Field::text("type", "Only of this type, such as `delegate`."),
                                Field::text("priority", "Only of this priority."),
                                Field::text("topic", "Only of this topic."),
                                Field::text("root", "Only what came of this task."),
                                Field::moment("since", "Not made before."),
                                Field::moment("until", "Not made after."),
                                Field::text("q", "Only with this in id, body or result."),
                            ]
                        },
                    )
                    .pages(&["-created_at"]),
                list,
            )
            .post(
                Operation::new("Gives work to a team.")
                    .description(
                        "The main team works in topics: send it a message instead. \
                         `X-Source-Channel` names a channel that hears of the end.",
                    )
                    .refuses(&[404, 409, 503])
                    .example(r#"{"team": "billing", "task": "Send the invoices."}"#),
                giving::create,
            ),
        at("/api/v1/tasks/stats").get(
            Operation::new("Counts tasks by state, type, priority and team.")
                .description(
                    "Of those that have ended, the last 2,000 are counted; `capped` says that there are \
                     more.",
                ),
            stats::show,
        ),
        at("/api/v1/tasks/{id}/cancel").post(
            Operation::new("Cancels a task that has not ended.")
                .description(
                    "Answers when it has ended, or after 25 seconds, when it goes on ending. \
                     `cascade` cancels all open tasks that came of it too.",
                )
                .refuses(&[409, 503])
                .example(r#"{"reason": "no longer needed", "cascade": false}"#),
            end,
        ),
        at("/api/v1/tasks/{id}/retry").post(
            Operation::new("Does a task that did not end well again, as a new task.")
                .refuses(&[409, 503]),
            try_again,
        ),
        at("/api/v1/tasks/{id}").get(
            Operation::new("Shows a task, whole, with what it made."),
            show,
        ),
    ]
}

/// A task as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Task)]
struct Row {
    #[schema(value_type = String)]
    id: TaskId,
    #[schema(value_type = String)]
    team: TeamName,
    generation: u32,
    #[serde(rename = "type")]
    #[schema(schema_with = vocabulary::of::<Kind>)]
    kind: Kind,
    #[schema(schema_with = vocabulary::of::<Priority>)]
    priority: Priority,
    state: &'static str,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_reason: Option<&'static str>,
    /// What was asked; in lists its beginning.
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
    lineage: Line,
    /// `trusted` or `untrusted`.
    label: &'static str,
    /// How it ended.
    outcome: Option<Outcome>,
}

/// Where a task stands in the work that one cause led to.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskLineage)]
struct Line {
    #[schema(value_type = String)]
    root: TaskId,
    #[schema(value_type = Option<String>)]
    parent: Option<TaskId>,
    hops: usize,
    /// From the first task to the one above.
    #[schema(value_type = Option<Vec<String>>)]
    path: Option<Vec<TaskId>>,
}

/// How a task ended.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskOutcome)]
struct Outcome {
    result: String,
    /// The model's output limit cut the result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    error: Option<Fault>,
    /// The person behind it is told of this end in their channel.
    notified: bool,
    finished_at: Option<String>,
    duration_ms: u64,
    #[schema(schema_with = vocabulary::of::<Usage>)]
    usage: Usage,
}

/// Why a task did not end well.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskFault)]
struct Fault {
    code: &'static str,
    message: Option<String>,
}

/// What became of a cancellation.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskCancelled)]
struct Cancelled {
    #[schema(value_type = String)]
    id: TaskId,
    state: &'static str,
    /// All that were cancelled with it.
    #[schema(value_type = Vec<String>)]
    cancelled: Vec<TaskId>,
}

/// A task that is done again.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskRetried)]
struct Retried {
    #[schema(value_type = String)]
    id: TaskId,
    #[schema(value_type = String)]
    retry_of: TaskId,
    state: &'static str,
}

/// What an open task waits for, if it is not simply its turn. It `asks` while a question of its turn to
/// another team is open.
fn waits_for(task: &Task, tree: &Tree, asks: bool) -> Option<WaitReason> {
    match task {
        Task { outcome: Some(_), .. } => None,
        Task { parked: Some(parked), .. } => Some(parked.reason),
        Task { lease: Some(_), .. } => asks.then_some(WaitReason::Query),
        Task { lane, .. } => {
            let team = tree.get(lane.team.as_str())?;
            (team.state == TeamState::Paused).then_some(WaitReason::Paused)
        }
    }
}

impl Row {
    fn of(task: Task, whole: bool, tree: &Tree, asks: bool) -> Self {
        let rest = format!("GET /api/v1/tasks/{}", task.id);
        let cut = |text: &str, most: usize| {
            if whole { text.to_owned() } else { excerpt::excerpt(text, most, &rest) }
        };
        let state = task.state();
        let line = task.lineage.as_ref();
        let outcome = task.outcome.as_ref().map(|outcome| {
            let error = outcome
                .code
                .map(|code| Fault { code: code.as_str(), message: outcome.message.clone() });
            let took = outcome.finished_at.since(task.created_at);
            Outcome {
                result: cut(&outcome.text, SHOWN),
                truncated: outcome.truncated,
                error,
                notified: task.is_notified(outcome)
                    && (task.source.as_ref()).is_some_and(|source| source.message.is_none()),
                finished_at: json::date(outcome.finished_at),
                duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                usage: outcome.usage,
            }
        });
        let source = task.source.as_ref();
        Self {
            body: cut(&task.body, BEGINNING),
            state,
            wait_reason: waits_for(&task, tree, asks).map(WaitReason::as_str),
            created_at: json::date(task.created_at),
            not_before: task.not_before.and_then(json::date),
            deadline_at: json::date(task.deadline_at),
            reply_to: task.reply_to.as_ref().map(|lane| lane.team.to_string()),
            source_channel_id: source.map(|source| source.channel.to_string()),
            topic_id: source
                .and_then(|source| source.topic.as_ref())
                .map(|topic| topic.id.to_string()),
            lineage: Line {
                root: task.root().clone(),
                parent: line.and_then(|line| line.parent()).cloned(),
                hops: line.map_or(0, |line| line.hops()),
                path: line.map(|line| line.path.iter().map(|above| above.task.clone()).collect()),
            },
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
    /// All that may be seen; none is every team.
    teams: Option<Vec<String>>,
    kind: Option<String>,
    priority: Option<String>,
    topic: Option<String>,
    root: Option<String>,
    since: Timestamp,
    until: Option<Timestamp>,
    words: Option<String>,
}

impl Wanted {
    fn read(query: &Query, teams: Option<&[String]>, now: Timestamp) -> Self {
        let text = |name: &str| query.text(name).map(str::to_owned);
        Self {
            state: text("state"),
            team: text("team"),
            teams: teams.map(<[String]>::to_vec),
            kind: text("type"),
            priority: text("priority"),
            topic: text("topic"),
            root: text("root"),
            since: query.moment("since", now).unwrap_or_default(),
            until: query.moment("until", now),
            words: text("q").map(|words| words.to_lowercase()),
        }
    }

    fn is_team(&self, team: &TeamName) -> bool {
        let is = |name: &String| team.as_str() == name;
        self.team.as_ref().is_none_or(is)
            && self.teams.as_ref().is_none_or(|teams| teams.iter().any(is))
    }

    fn may_hold(&self, ended: &EndedTask) -> bool {
        let is_kind = |kind: &String| (kind == Kind::Chat.as_str()) == ended.is_chat;
        self.is_team(&ended.team) && self.kind.as_ref().is_none_or(is_kind)
    }

    fn holds(&self, task: &Task) -> bool {
        let named = |value: Value, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| value == wanted.as_str())
        };
        let topic = task.source.as_ref().and_then(|source| source.topic.as_ref());
        let topic = topic.map(|topic| topic.id.as_str());
        let text = |task: &Task| {
            let said = task.outcome.as_ref().map_or("", |outcome| &outcome.text);
            format!("{}\n{}\n{said}", task.id, task.body).to_lowercase()
        };
        self.is_team(&task.lane.team)
            && self.state.as_ref().is_none_or(|state| task.state() == state)
            && named(json!(task.kind), &self.kind)
            && named(json!(task.priority), &self.priority)
            && self.topic.as_ref().is_none_or(|wanted| topic == Some(wanted))
            && self.root.as_ref().is_none_or(|root| task.root().as_str() == root)
            && task.created_at >= self.since
            && self.until.is_none_or(|until| task.created_at <= until)
            && self.words.as_ref().is_none_or(|words| text(task).contains(words.as_str()))
    }

    fn wants_ended(&self) -> bool {
        let open = ["accepted", "running", "waiting"];
        self.state.as_ref().is_none_or(|state| !open.contains(&state.as_str()))
    }
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let parts = parts(&state)?;
    let teams = caller.principal.teams();
    let wanted = Wanted::read(&caller.query, teams, parts.clock.now());
    let page = caller.query.page()?;
    let tree = parts.view.now();
    let rows = parts.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        let mut asking = HashSet::new();
        Range::<Task>::all().for_each(storage, &mut |task| {
            asking.extend(task.awaited_by().cloned());
            if wanted.holds(&task) {
                gathering.see(task.created_at, task.id.as_str());
            }
        })?;
        if wanted.wants_ended() {
            let of = |ended: &EndedTask| wanted.may_hold(ended);
            tasks::each_ended(storage, wanted.since, of, &mut |ended_at, task| {
                if wanted.holds(&task) {
                    gathering.see(task.created_at, task.id.as_str());
                }
                // None of those that ended before was made after.
                if page.sort.falling && gathering.is_settled(ended_at) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        }
        gathering.rows(&page, |id| {
            let task = tasks::find(storage, &TaskId::from(id))?;
            Ok(task.map(|task| {
                let asks = asking.contains(&task.id);
                Row::of(task, false, &tree, asks)
            }))
        })
    });
    rows.await.map_err(ApiError::internal)
}

/// A task by its id, of a team that the caller reaches.
async fn find<R>(caller: &Caller<R>, parts: &Parts, id: &str) -> Result<Task, ApiError> {
    let task = TaskId::from(id);
    let row = parts.store.read(move |storage| tasks::find(storage, &task));
    row.await
        .map_err(ApiError::internal)?
        .filter(|task| caller.reaches(task.lane.team.as_str()))
        .ok_or_else(|| ApiError::not_found(format!("there is no task `{id}`")))
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Clean<Data<Whole>>, ApiError> {
    let parts = parts(&state)?;
    let task = find(&caller, parts, &id).await?;
    let Below { mut children, more_children, asks, tree } = below(&state, &task, &caller).await?;
    children.retain(|child| caller.reaches(child.team.as_str()));
    let shown = Whole {
        session_id: task.lane.session_id(task.generation),
        children,
        more_children,
        tree,
        row: Row::of(task, true, &parts.view.now(), asks),
    };
    Ok(Clean::new(&state.secrets, Data(shown)))
}

/// A task with all that is shown of it.
#[derive(Serialize, ToSchema)]
#[schema(as = OneTask)]
struct Whole {
    #[serde(flatten)]
    row: Row,
    /// Where its words are.
    session_id: String,
    /// What it made, newest first.
    children: Vec<Child>,
    /// It made more than these: `root` finds all that came of the same cause.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more_children: bool,
    /// What all work of the same cause has come to.
    tree: TaskTree,
}

/// The work that one cause led to.
#[derive(Serialize, ToSchema)]
struct TaskTree {
    /// How many of its tasks have ended.
    ended: usize,
    /// What these have cost.
    #[schema(schema_with = vocabulary::of::<Usage>)]
    usage: Usage,
}

/// A task that another one made.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskChild)]
struct Child {
    #[schema(value_type = String)]
    id: TaskId,
    #[schema(value_type = String)]
    team: TeamName,
    #[serde(rename = "type")]
    #[schema(schema_with = vocabulary::of::<Kind>)]
    kind: Kind,
    state: &'static str,
}

/// What a task led to.
struct Below {
    /// The tasks that it made, newest first; of those that ended the last.
    children: Vec<Child>,
    more_children: bool,
    /// Its turn waits for the answer of one.
    asks: bool,
    tree: TaskTree,
}

async fn below(state: &State, task: &Task, caller: &Caller<Read>) -> Result<Below, ApiError> {
    let (id, root, created) = (task.id.clone(), task.root().clone(), task.created_at);
    let found = state.spine.store.read(move |storage| {
        let first = tasks::find(storage, &root)?;
        let since = first.as_ref().map_or(created, |first| first.created_at);
        let of_root = |task: &Task| *task.root() == root;
        let mut open = Vec::new();
        Range::<Task>::all().for_each(storage, &mut |task| {
            if of_root(&task) {
                open.push(task);
            }
        })?;
        // A message of a person comes of no task: it can only be the first.
        let no_chat = |ended: &EndedTask| !ended.is_chat;
        let mut ended = tasks::ended(storage, since, TREE, no_chat, of_root)?;
        let first = first.filter(|first| first.outcome.is_some() && first.kind == Kind::Chat);
        ended.extend(first);
        Ok((open, ended))
    });
    let (open, mut ended) = found.await.map_err(ApiError::internal)?;
    ended.retain(|task| caller.reaches(task.lane.team.as_str()));
    let mut usage = Usage::default();
    for outcome in ended.iter().filter_map(|task| task.outcome.as_ref()) {
        usage += outcome.usage;
    }
    let tree = TaskTree { ended: ended.len(), usage };
    let asks = open.iter().any(|task| task.awaited_by() == Some(&id));
    let is_child = |task: &Task| {
        let line = task.lineage.as_ref();
        line.and_then(|line| line.parent()) == Some(&id)
    };
    let child = |task: Task| Child {
        state: task.state(),
        team: task.lane.team,
        kind: task.kind,
        id: task.id,
    };
    let made = open.into_iter().chain(ended).filter(is_child);
    let mut children: Vec<Child> = made.map(child).collect();
    let more_children = children.len() > CHILDREN;
    children.truncate(CHILDREN);
    Ok(Below { children, more_children, asks, tree })
}

fn is_final(task: &Task, what: &str) -> ApiError {
    let state = task.state();
    ApiError::new(
        StatusCode::CONFLICT,
        "final",
        format!("task `{}` is {state} and cannot be {what}", task.id),
    )
}

#[derive(Deserialize, ToSchema)]
#[schema(as = TaskCancel)]
struct Cancel {
    reason: Option<String>,
    /// With all open tasks that came of it.
    #[serde(default)]
    cascade: bool,
}

async fn end(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Cancel { reason, cascade }): Json<Cancel>,
) -> Result<Either<Data<Cancelled>, Accepted<Cancelled>>, ApiError> {
    let parts = parts(&state)?;
    let task = find(&caller, parts, &id).await?;
    let by = || format!("cancelled by {}", caller.principal.id());
    let reason = reason.unwrap_or_else(by);
    let mut going = vec![task.id.clone()];
    if cascade {
        let root = task.id.clone();
        let teams = caller.principal.teams().map(<[String]>::to_vec);
        let below = parts.store.read(move |storage| {
            let open = scan::<Task>(storage, Range::all())?;
            let below = open.into_iter().filter(|task| {
                let line = task.lineage.as_ref();
                let is = |name: &String| task.lane.team.as_str() == name;
                let reached = teams.as_ref().is_none_or(|teams| teams.iter().any(is));
                reached && line.is_some_and(|line| line.path.iter().any(|above| above.task == root))
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
    let task = find(&caller, parts, task.id.as_str()).await?;
    let cancelled = Cancelled { state: task.state(), id: task.id, cancelled: going };
    Ok(if in_time { Either::Left(Data(cancelled)) } else { Either::Right(Accepted(cancelled)) })
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
        cause: Some(Cause::Operator { name: operator.to_owned() }),
        ..Task::new(id, task.lane.clone(), task.body.clone(), task.from.clone(), now)
    }
}

async fn try_again(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<Created<Retried>, ApiError> {
    let parts = parts(&state)?;
    let task = find(&caller, parts, &id).await?;
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
        caller.principal.id().as_str(),
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
    Ok(Created(Retried { id: new_id, retry_of: task.id, state: "accepted" }))
}
