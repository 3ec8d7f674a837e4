//! Tasks: work, open and done.

use std::collections::BTreeMap;

use clap::Args;
use hivewright_actors::{
    clock::millis,
    ids::{TaskId, TeamName},
    queue::submit::Overlap,
    task::{
        Kind, Label, Lineage, Priority, STEPS, Task, TaskState, WaitReason,
        outcome::{Code, Outcome},
    },
    text::Span,
    usage::Usage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};

/// The longest text of a task, in characters.
pub const LONGEST_TASK: usize = 100_000;

pub const LIST_TASKS: Endpoint<Rows<TaskRow>, Empty, TaskFilter> =
    get("/api/v1/tasks", Read, "Lists tasks, open and ended.").sorted(&["-created_at"]);

pub const CREATE_TASK: Endpoint<Accepted<GivenTask>, Empty, Empty, NewTask> =
    post("/api/v1/tasks", Operate, "Gives work to a team.")
        .description(
            "The main team works in topics: send it a message instead. `X-Source-Channel` \
             names a channel that hears of the end.",
        )
        .refuses(&[404, 409, 422, 503])
        .example(r#"{"team": "billing", "task": "Send the invoices."}"#);

pub const COUNT_TASKS: Endpoint<Data<TaskStats>> =
    get("/api/v1/tasks/stats", Read, "Counts tasks by state, type, priority and team.");

pub const CANCEL_TASK: Endpoint<Progress<TaskCancelled>, ById, Empty, TaskCancel> =
    post("/api/v1/tasks/{id}/cancel", Operate, "Cancels a task that has not ended.")
        .description(
            "Answers when it has ended, or after 25 seconds, when it goes on ending. \
             `cascade` cancels all open tasks that came of it too.",
        )
        .refuses(&[409, 503])
        .example(r#"{"reason": "no longer needed", "cascade": false}"#);

pub const RETRY_TASK: Endpoint<Created<TaskRetried>, ById> = post(
    "/api/v1/tasks/{id}/retry",
    Operate,
    "Does a task that did not end well again, as a new task.",
)
.refuses(&[409, 503]);

pub const SHOW_TASK: Endpoint<Data<OneTask>, ById> =
    get("/api/v1/tasks/{id}", Read, "Shows a task, whole, with what it made.").scrubbed();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TaskFilter {
    /// Only in this state.
    #[arg(long, value_parser = words::<TaskState>())]
    pub state: Option<TaskState>,
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE", value_parser = words::<Kind>())]
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// Only of this priority.
    #[arg(long, value_parser = words::<Priority>())]
    pub priority: Option<Priority>,
    /// Only of this topic.
    #[arg(long, value_name = "ID")]
    pub topic: Option<String>,
    /// Only what came of this task.
    #[arg(long, value_name = "ID")]
    pub root: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub period: Period,
    /// Only with these words in id, body or result.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

row! {
    /// A task in a list.
    #[schemars(rename = "Task")]
    pub struct TaskRow from task: &Task {
        pub id: TaskId = task.id.clone(),
        pub team: TeamName = task.lane.team.clone(),
        pub generation: u32 = task.generation,
        #[serde(rename = "type")]
        pub kind: Kind = task.kind,
        pub priority: Priority = task.priority,
        pub state: TaskState = task.state(),
        /// What it waits for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub wait_reason: Option<WaitReason> = None,
        /// What was asked; in lists its beginning.
        pub body: String = task.body.clone(),
        pub created_by: String = task.from.clone(),
        pub created_at: Option<Moment> = date(task.created_at),
        pub not_before: Option<Moment> = task.not_before.and_then(date),
        pub deadline_at: Option<Moment> = date(task.deadline_at),
        pub attempts: u32 = task.attempts,
        pub redelivered: bool = task.redelivered,
        pub reply_to: Option<String> = task.reply_to.as_ref().map(|lane| lane.team.to_string()),
        pub source_channel_id: Option<String> =
            task.source.as_ref().map(|source| source.channel.to_string()),
        pub topic_id: Option<String> = task
            .source
            .as_ref()
            .and_then(|source| source.topic.as_ref())
            .map(|topic| topic.id.to_string()),
        pub lineage: TaskLineage = task.into(),
        pub label: Label = task.label,
        /// How it ended.
        pub outcome: Option<TaskOutcome> =
            task.outcome.as_ref().map(|outcome| TaskOutcome::from((task, outcome))),
    }
}

impl TaskRow {
    pub fn standing(&self) -> String {
        standing(self.state, self.wait_reason)
    }
}

/// The state of a task, and what it waits for.
pub fn standing(state: TaskState, wait_reason: Option<WaitReason>) -> String {
    match wait_reason {
        Some(reason) => format!("{state} ({reason})"),
        None => state.to_string(),
    }
}

row! {
    /// Where a task stands in the work that one cause led to.
    pub struct TaskLineage from task: &Task {
        pub root: TaskId = task.root().clone(),
        pub parent: Option<TaskId> = task.lineage.as_ref().and_then(Lineage::parent).cloned(),
        /// The task whose end it tells to whoever asked for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub result_of: Option<TaskId> = task.told_end(),
        pub hops: usize = task.lineage.as_ref().map_or(0, Lineage::hops),
        /// From the first task to the one above.
        pub path: Option<Vec<TaskId>> = task
            .lineage
            .as_ref()
            .map(|line| line.path.iter().map(|above| above.task.clone()).collect()),
    }
}

row! {
    /// How a task ended.
    pub struct TaskOutcome from (task, outcome): (&Task, &Outcome) {
        pub result: String = outcome.text.clone(),
        /// The model's output limit cut the result.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub truncated: bool = outcome.truncated,
        pub error: Option<TaskFault> =
            outcome.code.map(|code| TaskFault { code, message: outcome.message.clone() }),
        /// The person behind it is told of this end in their channel.
        pub notified: bool = task.is_notified(outcome)
            && task.source.as_ref().is_some_and(|source| source.message.is_none()),
        pub finished_at: Option<Moment> = date(outcome.finished_at),
        pub duration_ms: u64 = millis(outcome.finished_at.since(task.created_at)),
        pub usage: Usage = outcome.usage,
    }
}

/// Why a task did not end well.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskFault {
    pub code: Code,
    pub message: Option<String>,
}

/// A task with all that is shown of it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OneTask {
    #[serde(flatten)]
    pub row: TaskRow,
    /// Where its words are.
    pub session_id: String,
    /// The first event of its turn in that session; none while it has begun none.
    #[serde(default)]
    pub first_event: Option<u64>,
    /// What it made, newest first.
    pub children: Vec<TaskChild>,
    /// It made more than these: `root` finds all that came of the same cause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_children: bool,
    /// What all work of the same cause has come to.
    pub tree: TaskTree,
}

/// The work that one cause led to.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskTree {
    /// How many of its tasks have ended.
    pub ended: usize,
    /// What these have cost.
    pub usage: Usage,
}

row! {
    /// A task that another one made.
    pub struct TaskChild from task: &Task {
        pub id: TaskId = task.id.clone(),
        pub team: TeamName = task.lane.team.clone(),
        #[serde(rename = "type")]
        pub kind: Kind = task.kind,
        pub state: TaskState = task.state(),
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(description = "Work for a team.")]
pub struct NewTask {
    /// The team.
    pub team: String,
    /// What is to be done; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    #[schemars(length(min = 1, max = LONGEST_TASK), description = "What is to be done.")]
    pub task: String,
    /// How soon.
    #[arg(long, default_value_t, value_parser = words::<Priority>())]
    #[serde(default)]
    pub priority: Priority,
    /// How long it may take, such as 30m.
    #[arg(long, value_name = "DURATION")]
    pub deadline: Option<Span>,
    /// The most model calls, 1 to 500.
    #[arg(long, value_name = "COUNT")]
    #[schemars(range(min = *STEPS.start(), max = *STEPS.end()))]
    pub max_steps: Option<u32>,
    /// Who of that team does it.
    #[arg(long, value_name = "NAME")]
    pub subagent: Option<String>,
    /// What to do if the team has other work.
    #[arg(long, value_name = "POLICY", default_value_t = Overlap::Allow, value_parser = words::<Overlap>())]
    #[serde(default = "allowed")]
    pub overlap_policy: Overlap,
}

fn allowed() -> Overlap {
    Overlap::Allow
}

/// Work that was given.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GivenTask {
    pub id: TaskId,
    pub team: String,
    pub state: TaskState,
    /// What the team had to do already.
    #[serde(default)]
    pub in_flight: Vec<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct TaskCancel {
    /// Why, for whoever asked for it.
    #[arg(long)]
    pub reason: Option<String>,
    /// Also all open tasks that came of it.
    #[arg(long)]
    #[serde(default)]
    pub cascade: bool,
}

/// What became of a cancellation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskCancelled {
    pub id: TaskId,
    pub state: TaskState,
    /// All that were cancelled with it.
    pub cancelled: Vec<TaskId>,
}

/// A task that is done again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskRetried {
    pub id: TaskId,
    pub retry_of: TaskId,
    pub state: TaskState,
}

/// How many tasks there are, by word.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TaskStats {
    pub by_state: BTreeMap<String, usize>,
    pub by_type: BTreeMap<String, usize>,
    pub by_priority: BTreeMap<String, usize>,
    pub by_team: BTreeMap<String, usize>,
    pub open: usize,
    /// With those that have ended.
    pub all: usize,
}
