//! Notices: what the operator should know, kept until it was read.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{NoticeId, TeamName},
};

/// Something for the operator's inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Its name.
    pub id: NoticeId,
    /// What kind of thing happened.
    pub kind: NoticeKind,
    /// The team it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamName>,
    /// What happened and what can be done, for a person.
    pub text: String,
    /// Ids of tasks, runs, triggers and approvals that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// When.
    pub at: Timestamp,
    /// An operator has seen it.
    #[serde(default)]
    pub read: bool,
}

/// Kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A task was given up.
    DeadTask,
    /// A trigger was switched off after failures.
    Breaker,
    /// A trigger is no longer valid.
    InvalidTrigger,
    /// A run was missed.
    MissedRun,
    /// A trigger fired too often.
    RateLimited,
    /// What a trigger or a task has to say, and no channel to say it in.
    Report,
    /// A budget is spent.
    Budget,
    /// The main team handed something up.
    Escalation,
    /// A frame could not be delivered.
    Undelivered,
    /// Teams went round in circles.
    LoopStopped,
    /// Work stood still.
    Stall,
    /// A settings file is wrong.
    ConfigInvalid,
    /// The vault has no usable key.
    VaultLocked,
    /// A team keeps dying.
    TeamDegraded,
    /// A team could not set itself up.
    BootstrapFailed,
    /// A plugin does not run.
    PluginFailed,
    /// The result of work whose asker is gone.
    Orphan,
    /// A call whose approval was given has an unknown outcome.
    UnknownOutcome,
}
