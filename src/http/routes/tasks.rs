//! `/api/v1/tasks`: work, open and done.

use std::{cmp::Reverse, collections::HashSet, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::TaskId,
    journal::first_of_turn,
    org::{Bootstrap, record::TeamState, tree::Tree},
    queue::submit::Overlap,
    store::reads::{Range, scan},
    task::{
        Kind, Lineage, OnResult, Source, Task, TaskState, WaitReason, ended,
        outcome::Ending,
        query::{TaskQuery, TaskWindow},
        records::{self as tasks, EndedTask},
    },
    usage::Usage,
};

use crate::{
    api::{endpoint::*, reply::*, tasks::*, when::Period},
    http::{
        kit::{call::*, error::*, listing::Gathering},
        state::State,
    },
};

/// What takes longer to end goes on without whoever cancelled it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(25);
/// Tasks that have ended and that another one made, of which so many are shown.
const CHILDREN: usize = 200;
/// One cause leads to no more tasks than this, beside the first.
const TREE: usize = 1_000;
/// So much of what was asked is shown in a list, in characters.
const BEGINNING: usize = 200;
/// So much of a result is shown in a list, in characters.
const SHOWN: usize = 10_000;

pub(crate) mod giving;
pub(super) mod stats;

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

fn row(task: &Task, tree: &Tree, asks: bool) -> TaskRow {
    TaskRow { wait_reason: waits_for(task, tree, asks), ..TaskRow::from(task) }
}

/// A row as lists show it: the beginning of what was asked and answered.
fn shortened(mut row: TaskRow) -> TaskRow {
    let rest = format!("GET /api/v1/tasks/{}", row.id);
    row.body = excerpt::excerpt(&row.body, BEGINNING, &rest);
    if let Some(outcome) = &mut row.outcome {
        outcome.result = excerpt::excerpt(&outcome.result, SHOWN, &rest);
    }
    row
}

/// The tasks that a caller wants and may see.
fn wanted(filter: TaskFilter, caller: &Caller, now: Timestamp) -> TaskQuery {
    // Taken apart, so that a new field which nothing compares is an error.
    let TaskFilter { state, team, kind, priority, topic, root, period, words } = filter;
    let Period { since, until } = period;
    TaskQuery {
        state,
        teams: caller.teams(team),
        kind,
        priority,
        topic: topic.map(Into::into),
        root: root.map(Into::into),
        since: since.map(|since| since.from(now)).unwrap_or_default(),
        until: until.map(|until| until.from(now)),
        words: words.map(|words| words.to_lowercase()),
        ..TaskQuery::default()
    }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, TaskFilter>,
) -> ApiResult<Rows<TaskRow>> {
    let wanted = wanted(query, &caller, state.now());
    let tree = state.org().view.now();
    let rows = state.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        let mut asking = HashSet::new();
        gathering.see_tasks(storage, &wanted, |open| asking.extend(open.awaited_by().cloned()))?;
        gathering.rows(&page, |id| {
            let task = ended::find_readable(storage, &TaskId::from(id))?;
            Ok(task.map(|task| shortened(row(&task, &tree, asking.contains(&task.id)))))
        })
    });
    rows.await
}

/// A task by its id, of a team that the caller reaches.
async fn find(state: &State, caller: &Caller, id: &str) -> ApiResult<Task> {
    let task = TaskId::from(id);
    let row = state.read(move |storage| tasks::find(storage, &task)).await?;
    row.filter(|task| caller.reaches(task.lane.team.as_str()))
        .ok_or_else(|| ApiError::not_found(format!("there is no task `{id}`")))
}

pub(super) async fn show(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Data<OneTask>> {
    let task = find(&state, &caller, &path.id).await?;
    let Below { mut children, more_children, asks, tree } = below(&state, &task, &caller).await?;
    let begun = task.clone();
    let first_event = state.read(move |storage| first_of_turn(storage, &begun)).await?;
    children.retain(|child| caller.reaches(child.team.as_str()));
    Ok(Data(OneTask {
        session_id: task.lane.session_id(task.generation),
        first_event,
        children,
        more_children,
        tree,
        row: row(&task, &state.org().view.now(), asks),
    }))
}

/// What a task led to.
struct Below {
    /// The tasks that it made, newest first; of those that ended the last.
    children: Vec<TaskChild>,
    more_children: bool,
    /// Its turn waits for the answer of one.
    asks: bool,
    tree: TaskTree,
}

async fn below(state: &State, task: &Task, caller: &Caller) -> ApiResult<Below> {
    let (id, root) = (task.id.clone(), task.root().clone());
    let found = state.read(move |storage| {
        let wanted = TaskQuery { root: Some(root), ..TaskQuery::default() };
        let mut open = Vec::new();
        Range::<Task>::all().for_each(storage, &mut |task| {
            if wanted.holds(&task) {
                open.push(task);
            }
        })?;
        let mut ended = ended::ended_tasks(storage, &wanted, &TaskWindow::newest(TREE + 1))?;
        ended.retain(|task| open.iter().all(|open| open.id != task.id));
        ended.sort_by_cached_key(|task| Reverse(EndedTask::key_of(task)));
        Ok((open, ended))
    });
    let (open, mut ended) = found.await?;
    ended.retain(|task| caller.reaches(task.lane.team.as_str()));
    let mut usage = Usage::default();
    for outcome in ended.iter().filter_map(|task| task.outcome.as_ref()) {
        usage += outcome.usage;
    }
    let tree = TaskTree { ended: ended.len(), usage };
    let asks = open.iter().any(|task| task.awaited_by() == Some(&id));
    let made = open.into_iter().chain(ended).filter(|task| {
        let line = task.lineage.as_ref();
        line.and_then(|line| line.parent()) == Some(&id)
    });
    let mut children: Vec<TaskChild> = made.map(|task| TaskChild::from(&task)).collect();
    let more_children = children.len() > CHILDREN;
    children.truncate(CHILDREN);
    Ok(Below { children, more_children, asks, tree })
}

fn is_final(task: &Task, what: &str) -> ApiError {
    let reason = format!("task `{}` is {} and cannot be {what}", task.id, task.state());
    ApiError::conflict_as("final", reason)
}

pub(super) async fn cancel(
    Call { state, caller, path, body, .. }: Call<ById, Empty, TaskCancel>,
) -> ApiResult<Progress<TaskCancelled>> {
    let TaskCancel { reason, cascade } = body;
    let task = find(&state, &caller, &path.id).await?;
    let reason = reason.unwrap_or_else(|| format!("cancelled by {}", caller.principal.id));
    let mut going = vec![task.id.clone()];
    if cascade {
        let (root, reaches) = (task.id.clone(), caller.reach());
        let below = state.read(move |storage| {
            let below = scan::<Task>(storage, Range::all())?.into_iter().filter(|task| {
                let is_below = |line: &Lineage| line.path.iter().any(|above| above.task == root);
                reaches(task.lane.team.as_str()) && task.lineage.as_ref().is_some_and(is_below)
            });
            Ok(below.map(|task| task.id).collect::<Vec<_>>())
        });
        going.extend(below.await?);
    }
    match task.outcome.as_ref().map(|outcome| outcome.ending) {
        // What was cancelled before is as it should be.
        None | Some(Ending::Cancelled) => {}
        Some(_) if going.len() > 1 => {}
        Some(_) => return Err(is_final(&task, "cancelled")),
    }
    let work = &state.org().work;
    for id in &going {
        work.cancel(id.clone(), reason.clone()).await;
    }
    let ended = async {
        for id in &going {
            work.wait(id.clone(), None).await;
        }
    };
    let is_done = tokio::time::timeout(CANCEL_TIMEOUT, ended).await.is_ok();
    let task = find(&state, &caller, task.id.as_str()).await?;
    let data = TaskCancelled { state: task.state(), id: task.id, cancelled: going };
    Ok(Progress { data, is_done })
}

pub(super) async fn retry(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Created<TaskRetried>> {
    let task = find(&state, &caller, &path.id).await?;
    match task.outcome.as_ref().map(|outcome| outcome.ending) {
        Some(Ending::Failed | Ending::Dead | Ending::Expired | Ending::Cancelled) => {}
        Some(Ending::Done) | None => return Err(is_final(&task, "tried again")),
    }
    if matches!(task.kind, Kind::Query | Kind::Agent) {
        return Err(ApiError::conflict(
            "nobody waits for the answer any more: whoever asked has gone on without it",
        ));
    }
    let org = state.org();
    let tree = org.view.now();
    let team = tree.get(task.lane.team.as_str()).filter(|team| team.generation == task.generation);
    if team.is_none() {
        let gone = format!("the team of this task, `{}`, is gone", task.team());
        return Err(ApiError::conflict(gone));
    }
    let (new_id, lineage) = (org.ids.task(), Some(task.lineage_below()));
    let is_bootstrap = task.kind == Kind::Bootstrap;
    // A run of a trigger has been accounted for: what comes now is work that somebody wants to hear of.
    let (kind, on_result) = match task.kind {
        Kind::Trigger => (Kind::Delegate, OnResult::Notify),
        kind => (kind, task.on_result),
    };
    let now = org.clock.now();
    // The same work as a new task, linked to the one it follows.
    let new = Task {
        generation: task.generation,
        kind,
        priority: task.priority,
        // That message has had its answer: what comes now is a notification.
        source: task.source.map(|source| Source { message: None, ..source }),
        reply_to: task.reply_to,
        asker: task.asker,
        on_result,
        options: task.options,
        lineage,
        label: task.label,
        // Whoever is behind it may do no more because somebody else tries it again.
        cause: task.cause,
        files: task.files,
        deadline_at: now + task.deadline_at.since(task.created_at),
        ..Task::new(new_id.clone(), task.lane, task.body, task.from, now)
    };
    if is_bootstrap {
        let given = org.org.send(Bootstrap { task: new }).await??;
        given.ok_or_else(|| ApiError::conflict("the team is ready: there is nothing to set up"))?;
    } else {
        giving::submit(&state, new, Overlap::Allow).await?;
    }
    caller.names(format!("{new_id} in place of {}", task.id));
    Ok(Created(TaskRetried { id: new_id, retry_of: task.id, state: TaskState::Accepted }))
}
