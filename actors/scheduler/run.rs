//! Runs: one row for each firing, whatever came of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{ChannelId, RunId, TaskId, TeamKey, TriggerId},
    words,
};

words! {
    /// What made a trigger fire.
    #[schemars(rename = "TriggerCause")]
    pub enum Cause {
        /// Its time.
        Schedule = "schedule",
        /// A message with its text.
        Keyword = "keyword",
        /// A message that fits.
        Message = "message",
        /// A tick of its window.
        Window = "window",
        /// A call from outside.
        Webhook = "webhook",
        /// A time that passed unserved.
        Missed = "missed",
        /// A team that tries it.
        Test = "test",
        /// An operator.
        Manual = "manual",
    }
}

impl Cause {
    /// Someone asked for it: limits and accounts of the trigger are left alone.
    pub fn is_by_hand(self) -> bool {
        matches!(self, Self::Test | Self::Manual)
    }

    /// It is among those that may not be too many in a minute. Ticks are bounded by their window.
    pub fn counts_for_the_rate(self) -> bool {
        !self.is_by_hand() && self != Self::Window
    }
}

words! {
    /// What a firing led to.
    #[schemars(rename = "TriggerDecision")]
    pub enum Decision {
        /// A task.
        Enqueued = "enqueued",
        /// A task in place of the last one.
        Replaced = "replaced",
        /// Nothing: the last task is unfinished.
        SkippedOverlap = "skipped_overlap",
        /// Nothing: it fired for the same reason before.
        Duplicate = "duplicate",
        /// Nothing: too many in too short a time.
        RateLimited = "rate_limited",
        /// Nothing: too soon after the last.
        Cooldown = "cooldown",
        /// Nothing: too much waits already.
        QueueFull = "queue_full",
        /// Nothing: the disk has no room for new work.
        DiskFull = "disk_full",
        /// Nothing: the trigger is off.
        NotActive = "not_active",
        /// Nothing: the team rests.
        TeamPaused = "team_paused",
        /// Nothing: it is too late.
        MissedSkipped = "missed_skipped",
        /// Nothing: it does not concern this trigger, or there is nothing to do.
        Filtered = "filtered",
    }
}

impl Decision {
    pub fn made_a_task(self) -> bool {
        matches!(self, Self::Enqueued | Self::Replaced)
    }
}

words! {
    /// How a run ended.
    #[schemars(rename = "TriggerOutcome")]
    pub enum RunOutcome {
        /// Well.
        Ok = "ok",
        /// Well, and there was nothing to do.
        Noop = "noop",
        /// Badly.
        Failed = "failed",
        /// It was stopped, which says nothing about the trigger.
        Cancelled = "cancelled",
        /// It never was.
        Missed = "missed",
    }
}

/// A reason that a trigger has fired for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub trigger: TriggerId,
    pub key: String,
    pub run: RunId,
    /// The task of that run. Unknown in rows of old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub at: Timestamp,
}

/// A row of the history of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub trigger: TriggerId,
    pub team: TeamKey,
    pub cause: Cause,
    /// The reason for this firing. The same reason never makes a second task.
    pub key: String,
    pub due_at: Timestamp,
    pub fired_at: Timestamp,
    pub decision: Decision,
    /// How many times of the schedule this row stands for, beyond one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The work that had to make way for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// From firing to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Tokens, read and written.
    #[serde(default)]
    pub tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default)]
    pub notified: Notified,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cursors: BTreeMap<String, Option<String>>,
    /// The bytes that came from outside, which are kept beside this row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
}

/// Whether anyone was told of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Notified {
    #[default]
    Nobody,
    Channel {
        channel: ChannelId,
    },
    Inbox,
    /// A channel, once it is time.
    Later,
}

/// What a run says of itself, once it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Report {
    /// A person should hear of this run.
    pub notify: bool,
    /// How it went.
    pub outcome: ReportedOutcome,
    /// Why, in one sentence, at most 500 characters.
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub reason: String,
    /// What the next run should know, by name: all of it, since it replaces what was there. At most 16
    /// texts of 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursors: Option<BTreeMap<String, String>>,
}

words! {
    /// How a run says it went.
    pub enum ReportedOutcome {
        /// Well, and something was done or found.
        Ok = "ok",
        /// Well, and there was nothing to do.
        Noop = "noop",
        /// Badly.
        Failed = "failed",
    }
}
