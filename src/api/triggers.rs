//! Triggers: what starts work without a person typing, and what became of it.

use std::collections::BTreeMap;

use clap::Args;
use hivewright_actors::{
    ids::{ChannelId, RunId, TaskId, TeamName, TriggerId},
    queue::submit::Overlap,
    scheduler::{
        run::{Cause, Decision, Notified, Run, RunOutcome},
        trigger::{State, Trigger, config::TriggerType, definition::Definition},
        views::Listed,
        window::{Closed, Occurrence, Phase},
    },
    task::STEPS,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, trigger_form::Fields, when::*};

pub const LIST_TRIGGERS: Endpoint<Rows<TriggerRow>, Empty, TriggerFilter> =
    get("/api/v1/triggers", Operate, "Lists triggers: what starts work without a person typing.")
        .sorted(&["name", "team", "next_due_at", "last_fired_at", "created_at"])
        .refuses(&[503])
        .scrubbed();

pub const CREATE_TRIGGER: Endpoint<Created<TriggerRow>, Empty, Empty, NewTrigger> =
    post("/api/v1/triggers", Operate, "Makes a trigger.")
        .refuses(&[404, 409, 503])
        .example(
            r#"{"team": "main", "name": "morning", "type": "schedule", "config": {"cron": "0 8 * * *"}, "task": "Sum up the night.", "enable": true}"#,
        ).scrubbed();

pub const PREVIEW_TRIGGER: Endpoint<Data<TriggerPreview>, Empty, Empty, TriggerSketch> = post(
    "/api/v1/triggers/preview",
    Operate,
    "Says what a trigger would do: its next times, or whether a sample fits.",
)
.refuses(&[503])
.only_looks()
.example(r#"{"type": "schedule", "config": {"cron": "0 8 * * *"}}"#);

pub const LIST_DUE: Endpoint<Rows<DueRow>, Empty, TriggerFilter> = get(
    "/api/v1/triggers/agenda",
    Operate,
    "Lists when triggers are due in the next 24 hours, the soonest first.",
)
.description(
    "Times of a trigger within the same quarter of an hour are one row, with their `count`. A \
     window is due when it opens. Those that nothing comes of as they stand are listed too: \
     `state` and `held` tell them apart.",
)
.sorted(&["at"])
.refuses(&[503]);

pub const SHOW_TRIGGER: Endpoint<Data<TriggerRow>, ById> =
    get("/api/v1/triggers/{id}", Operate, "Shows a trigger.").refuses(&[503]).scrubbed();

pub const CHANGE_TRIGGER: Endpoint<Data<TriggerRow>, ById, Empty, TriggerChange> =
    patch("/api/v1/triggers/{id}", Operate, "Changes a trigger.")
        .description(
            "`config` is merged field by field, and null clears. `team` and `enable` \
             cannot be changed here.",
        )
        .refuses(&[409, 503])
        .example(r#"{"config": {"cron": "0 9 * * *"}}"#)
        .scrubbed();

pub const DELETE_TRIGGER: Endpoint<Done, ById> =
    delete("/api/v1/triggers/{id}", Operate, "Deletes a trigger.").refuses(&[409, 503]);

pub const ENABLE_TRIGGER: Endpoint<Data<TriggerRow>, ById> =
    post("/api/v1/triggers/{id}/enable", Operate, "Lets a trigger fire.")
        .refuses(&[409, 503])
        .scrubbed();

pub const DISABLE_TRIGGER: Endpoint<Data<TriggerRow>, ById, Empty, TriggerOff> =
    post("/api/v1/triggers/{id}/disable", Operate, "Lets a trigger fire no more.")
        .refuses(&[409, 503])
        .example(r#"{"reason": "holidays"}"#)
        .scrubbed();

pub const RUN_TRIGGER: Endpoint<Accepted<RunRow>, ById, Empty, TriggerStart> =
    post("/api/v1/triggers/{id}/run", Operate, "Fires a trigger now, whatever its state.")
        .refuses(&[409, 503])
        .example(r#"{"overlap_policy": "skip"}"#)
        .scrubbed();

pub const LIST_RUNS: Endpoint<Rows<RunRow>, ById, RunFilter> = get(
    "/api/v1/triggers/{id}/runs",
    Operate,
    "Lists what became of the times at which a trigger fired.",
)
.sorted(&["-fired_at"])
.refuses(&[503])
.scrubbed();

pub const SET_CURSORS: Endpoint<Data<TriggerRow>, ById, Empty, TriggerCursors> =
    put("/api/v1/triggers/{id}/cursors", Operate, "Sets what the next run goes on from.")
        .refuses(&[409, 503])
        .example(r#"{"cursors": {"last_id": "42"}}"#)
        .scrubbed();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TriggerFilter {
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only in this state.
    #[arg(long, value_parser = words::<State>())]
    pub state: Option<State>,
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE", value_parser = words::<TriggerType>())]
    #[serde(rename = "type")]
    pub kind: Option<TriggerType>,
    /// Only those that this subagent works for.
    #[arg(long, value_name = "NAME")]
    pub subagent: Option<String>,
    /// Only those with these words in name or task.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunFilter {
    /// Only those fired before.
    pub before: Option<When>,
}

row! {
    /// A trigger as people and models see it.
    #[derive(Clone)]
    #[schemars(rename = "Trigger")]
    pub struct TriggerRow from trigger: &Trigger {
        pub id: TriggerId = trigger.id.clone(),
        pub team: TeamName = trigger.team.name.clone(),
        #[serde(flatten)]
        pub definition: Definition = trigger.definition.clone(),
        /// Whether it fires.
        pub state: State = trigger.state,
        pub disabled_reason: Option<String> = trigger.disabled_reason.clone(),
        pub consecutive_failures: u32 = trigger.consecutive_failures,
        pub overlap_count: u32 = trigger.overlap_count,
        pub active_task_id: Option<TaskId> = trigger.active_task_id.clone(),
        pub cursor_at: Option<Moment> = trigger.cursor_at.and_then(date),
        /// When it fires next.
        pub next_due_at: Option<Moment> = trigger.next_due_at.and_then(date),
        pub last_fired_at: Option<Moment> = trigger.last_fired_at.and_then(date),
        pub cursors: BTreeMap<String, String> = trigger.cursors.clone(),
        pub revision: u64 = trigger.revision,
        pub created_by: String = trigger.created_by.clone(),
        pub created_at: Option<Moment> = date(trigger.created_at),
        pub updated_at: Option<Moment> = date(trigger.updated_at),
        /// Of a window: the present one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub window: Option<Option<WindowRow>> = (trigger.definition.kind() == TriggerType::Window)
            .then(|| trigger.occurrence.as_ref().map(WindowRow::from)),
        /// Of a webhook: where it is called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub path: Option<String> = (trigger.definition.kind() == TriggerType::Webhook)
            .then(|| format!("/hooks/{}/{}", trigger.team.name, trigger.definition.name)),
        /// Its newest run, in lists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub last_run: Option<Option<RunRow>> = None,
        /// The next times in its own zone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub next_due: Option<Vec<String>> = None,
    }
}

/// With its newest run.
impl From<&Listed> for TriggerRow {
    fn from(listed: &Listed) -> Self {
        let last_run = Some(listed.last_run.as_ref().map(RunRow::from));
        Self { last_run, ..Self::from(&listed.trigger) }
    }
}

row! {
    /// A window that is open, or was last.
    #[derive(Clone)]
    #[schemars(rename = "TriggerWindow")]
    pub struct WindowRow from window: &Occurrence {
        pub state: Phase = window.phase,
        pub opened_at: Option<Moment> = date(window.opened_at),
        pub closes_at: Option<Moment> = date(window.closes_at),
        pub ticks: u32 = window.ticks,
        pub noops: u32 = window.noops,
        pub tokens: u64 = window.tokens,
        pub cost_usd: f64 = window.usd,
        pub reason: Option<Closed> = window.reason,
    }
}

row! {
    /// A row of the history of a trigger.
    #[derive(Clone)]
    #[schemars(rename = "TriggerRun")]
    pub struct RunRow from run: &Run {
        pub id: RunId = run.id.clone(),
        pub trigger: TriggerId = run.trigger.clone(),
        /// What made it fire.
        pub cause: Cause = run.cause,
        pub due_at: Option<Moment> = date(run.due_at),
        pub fired_at: Option<Moment> = date(run.fired_at),
        /// What it led to.
        pub decision: Decision = run.decision,
        pub task_id: Option<TaskId> = run.task_id.clone(),
        pub outcome: Option<RunOutcome> = run.outcome,
        pub reason: Option<String> = run.reason.clone(),
        pub duration_ms: Option<u64> = run.duration_ms,
        pub tokens: u64 = run.tokens,
        pub cost_usd: Option<f64> = run.cost_usd,
        pub notify: RunNotice = (&run.notified).into(),
        /// How many times of the schedule the row stands for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub count: Option<u64> = run.count,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub cursors: BTreeMap<String, Option<String>> = run.cursors.clone(),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub payload_bytes: Option<u64> = run.payload_bytes,
        /// The run of the same request before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub duplicate_of: Option<RunId> = None,
    }
}

/// Whether anyone was told of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriggerNotice")]
pub struct RunNotice {
    pub notified: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Option<ChannelId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
}

impl From<&Notified> for RunNotice {
    fn from(notified: &Notified) -> Self {
        let nobody = Self::default();
        match notified {
            Notified::Nobody => nobody,
            Notified::Channel { channel } => {
                Self { notified: true, channel: Some(Some(channel.clone())), ..nobody }
            }
            Notified::Inbox => {
                Self { notified: true, channel: Some(None), inbox: Some(true), ..nobody }
            }
            Notified::Later => Self { held: Some(true), ..nobody },
        }
    }
}

/// What a trigger would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TriggerPreview {
    #[serde(rename = "type")]
    pub kind: TriggerType,
    /// It could be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<bool>,
    /// Its next times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Vec<TriggerDue>>,
    /// Whether the sample fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<bool>,
    /// What the sample's named groups hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captures: Option<BTreeMap<String, String>>,
}

/// A time at which a trigger is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TriggerDue {
    pub at: Option<Moment>,
    /// In the trigger's own zone.
    pub local: String,
}

/// When a trigger is due, within a quarter of an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriggerDueTimes")]
pub struct DueRow {
    pub trigger_id: TriggerId,
    pub name: String,
    pub team: TeamName,
    #[serde(rename = "type")]
    pub kind: TriggerType,
    /// Whether it fires: only one that is active does.
    pub state: State,
    /// Its team is paused: it waits until the team goes on.
    #[serde(rename = "held")]
    pub is_held: bool,
    /// The first of these times.
    #[serde(flatten)]
    pub due: TriggerDue,
    /// How many times there are.
    pub count: usize,
}

/// A new trigger: its definition, and whose it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NewTrigger {
    /// Whose it is.
    pub team: String,
    /// It fires from the start.
    pub enable: Option<bool>,
    #[serde(flatten)]
    #[schemars(with = "Fields<true, false>")]
    pub fields: Map<String, Value>,
}

/// What becomes different about a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TriggerChange {
    #[serde(flatten)]
    #[schemars(with = "Fields<false, false>")]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct TriggerOff {
    /// Why.
    #[arg(long)]
    pub reason: Option<String>,
    /// Also stop what it started last.
    #[arg(long)]
    #[serde(default)]
    pub cancel_running: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct TriggerStart {
    #[arg(skip)]
    #[schemars(range(min = *STEPS.start(), max = *STEPS.end()))]
    pub max_steps: Option<u32>,
    /// What to do if its last task is unfinished; `allow` is usual.
    #[arg(skip)]
    pub overlap_policy: Option<Overlap>,
    /// A message or a body, as it would have come.
    #[arg(long)]
    pub sample: Option<String>,
}

/// A trigger that is not made.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TriggerSketch {
    #[serde(rename = "type")]
    pub kind: TriggerType,
    pub config: Map<String, Value>,
    /// A message that might fire it.
    pub sample: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TriggerCursors {
    pub cursors: BTreeMap<String, String>,
}
