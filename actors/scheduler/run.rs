//! Runs: one row for each firing, whatever came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{ChannelId, RunId, TaskId, TeamKey, TriggerId},
};

/// What made a trigger fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its time.
    Schedule,
    /// A message with its text.
    Keyword,
    /// A message that fits.
    Message,
    /// A tick of its window.
    Window,
    /// A call from outside.
    Webhook,
    /// A time that passed unserved.
    Missed,
    /// A team that tries it.
    Test,
    /// An operator.
    Manual,
}

impl Cause {
    /// As rows and answers name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Keyword => "keyword",
            Self::Message => "message",
            Self::Window => "window",
            Self::Webhook => "webhook",
            Self::Missed => "missed",
            Self::Test => "test",
            Self::Manual => "manual",
        }
    }

    /// Someone asked for it: limits and accounts of the trigger are left alone.
    pub fn is_by_hand(self) -> bool {
        matches!(self, Self::Test | Self::Manual)
    }
}

/// What a firing led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A task.
    Enqueued,
    /// A task in place of the last one.
    Replaced,
    /// Nothing: the last task is unfinished.
    SkippedOverlap,
    /// Nothing: it fired for the same reason before.
    Duplicate,
    /// Nothing: too many in too short a time.
    RateLimited,
    /// Nothing: too soon after the last.
    Cooldown,
    /// Nothing: too much waits already.
    QueueFull,
    /// Nothing: the disk has no room for new work.
    DiskFull,
    /// Nothing: the trigger is off.
    NotActive,
    /// Nothing: the team rests.
    TeamPaused,
    /// Nothing: it is too late.
    MissedSkipped,
    /// Nothing: it does not concern this trigger, or there is nothing to do.
    Filtered,
}

impl Decision {
    /// There is a task.
    pub fn made_a_task(self) -> bool {
        matches!(self, Self::Enqueued | Self::Replaced)
    }

    /// As rows and answers name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Replaced => "replaced",
            Self::SkippedOverlap => "skipped_overlap",
            Self::Duplicate => "duplicate",
            Self::RateLimited => "rate_limited",
            Self::Cooldown => "cooldown",
            Self::QueueFull => "queue_full",
            Self::DiskFull => "disk_full",
            Self::NotActive => "not_active",
            Self::TeamPaused => "team_paused",
            Self::MissedSkipped => "missed_skipped",
            Self::Filtered => "filtered",
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Well.
    Ok,
    /// Well, and there was nothing to do.
    Noop,
    /// Badly.
    Failed,
    /// It was stopped, which says nothing about the trigger.
    Cancelled,
    /// It never was.
    Missed,
}

impl RunOutcome {
    /// As rows and answers name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Noop => "noop",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Missed => "missed",
        }
    }
}

/// A row of the history of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// The trigger.
    pub trigger: TriggerId,
    /// Its team.
    pub team: TeamKey,
    /// What made it fire.
    pub cause: Cause,
    /// The reason for this firing. The same reason never makes a second task.
    pub key: String,
    /// When it was due.
    pub due_at: Timestamp,
    /// When it fired.
    pub fired_at: Timestamp,
    /// What it led to.
    pub decision: Decision,
    /// How many times of the schedule this row stands for, beyond one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The work that had to make way for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<TaskId>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// From firing to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Tokens, read and written.
    #[serde(default)]
    pub tokens: u64,
    /// The price, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether anyone was told.
    #[serde(default)]
    pub notified: Notified,
    /// What it left for the next run.
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
    /// No one.
    #[default]
    Nobody,
    /// A channel.
    Channel {
        /// Which.
        channel: ChannelId,
    },
    /// The operator's inbox.
    Inbox,
    /// A channel, once it is time.
    Later,
}

/// What a run says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// People should hear of it.
    pub notify: bool,
    /// How it went.
    pub outcome: ReportedOutcome,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// What it leaves for the next run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursors: Option<BTreeMap<String, String>>,
}

/// How a run says it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedOutcome {
    /// Well, and something was done or found.
    Ok,
    /// Well, and there was nothing to do.
    Noop,
    /// Badly.
    Failed,
}
