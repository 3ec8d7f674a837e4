//! Outgoing task: the one that a turn makes for another team. It carries on what its own task is part of.

use hivewright_actors::{
    channel::records::OutboxWrites,
    clock::Timestamp,
    file::FileRef,
    frame::{Body, Frame, Notification},
    ids::{MAIN, TaskId},
    org::{record::TeamRecord, tree::By},
    queue::{
        causes::Giver,
        submit::{OpenTask, Overlap, Submission, Submit},
    },
    store::records::Writes,
    task::{Kind, Lane, OnResult, Priority, Source, Task, records as tasks},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::team_service::refused;
use crate::{
    teams::service::Parts,
    tools::{answer, contract::ToolContext, error::ToolError},
};

/// The calling team, as the one that wants something.
pub(super) fn by(cx: &ToolContext) -> By {
    By::Team(cx.caller.team.name.clone())
}

/// Where a team does work that comes of a turn: the main team in the topic it is about.
pub(super) fn lane_of(team: &TeamRecord, cx: &ToolContext) -> Lane {
    let topic = cx.caller.source.as_ref().and_then(|source| {
        let topic = source.topic.as_ref()?;
        (team.name.as_str() == MAIN).then(|| topic.id.clone())
    });
    Lane { team: team.name.clone(), topic }
}

/// A task for a team, on behalf of a turn. Nothing in its lineage comes from the model.
pub(super) fn outgoing_task(
    parts: &Parts,
    cx: &ToolContext,
    team: &TeamRecord,
    kind: Kind,
    body: String,
) -> Task {
    let now = parts.clock.now();
    let caller = &cx.caller;
    let source = caller.source.as_ref().map(|source| Source { message: None, ..source.clone() });
    let task =
        Task::new(parts.ids.task(), lane_of(team, cx), body, caller.team.name.to_string(), now);
    Task {
        generation: team.generation,
        kind,
        priority: Priority::Normal,
        on_result: match source {
            Some(_) => OnResult::Notify,
            None => OnResult::Silent,
        },
        source,
        reply_to: Some(caller.lane.clone()),
        asker: caller.team.generation,
        lineage: Some(caller.lineage.clone()),
        label: cx.label,
        cause: Some(caller.cause.clone()),
        deadline_at: task.deadline_at.min(caller.deadline_at),
        ..task
    }
}

/// The files that the caller's own task came with: they go along with work that it gives away.
pub(super) async fn handed_on(parts: &Parts, cx: &ToolContext) -> Result<Vec<FileRef>, ToolError> {
    let id = cx.caller.task.clone();
    let own = parts.store.read(move |storage| tasks::find(storage, &id)).await?;
    Ok(own.map(|task| task.files).unwrap_or_default())
}

/// Whose turn makes a task, and in which words.
pub(super) fn giver(cx: &ToolContext, words: &str) -> Giver {
    Giver { task: cx.caller.task.clone(), step: cx.step, words: words.to_owned() }
}

/// Hands a task to the queue. Durable once answered.
pub(super) async fn submit(
    parts: &Parts,
    cx: &ToolContext,
    words: &str,
    task: Task,
    writes: Writes,
    overlap: Option<Overlap>,
) -> Result<Submission, ToolError> {
    let team = task.lane.team.clone();
    let submit = Submit { task, writes, overlap, giver: Some(giver(cx, words)) };
    parts.work.submit(submit).await.map_err(|refusal| refused(&team, &refusal))
}

/// The same for a task that stands beside all others.
pub(super) async fn enqueue(
    parts: &Parts,
    cx: &ToolContext,
    words: &str,
    task: Task,
    writes: Writes,
) -> Result<(), ToolError> {
    let team = task.lane.team.clone();
    match submit(parts, cx, words, task, writes, None).await? {
        Submission::Enqueued { .. } => Ok(()),
        _ => Err(answer::refuse("busy", format!("`{team}` is busy"))),
    }
}

/// Tells whoever is behind a turn.
pub(super) fn notify(
    writes: Writes,
    source: &Source,
    ts: Timestamp,
    notification: Notification,
) -> Writes {
    let body = Body::Notification(notification);
    writes.frame(&source.channel, Frame { topic: source.topic.clone(), ts, body })
}

/// An open task as answers show it.
pub(super) fn shown(open: &OpenTask) -> Value {
    json!({
        "task_id": open.task_id,
        "type": open.kind.as_str(),
        "state": open.state.as_str(),
        "age_ms": open.age_ms,
        "stale": open.stale,
    })
}

/// What is stored of an outgoing task for when its call is made again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) task_id: TaskId,
    pub(super) at: Timestamp,
}
