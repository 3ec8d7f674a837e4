//! A trigger: what starts work in a team without a person typing.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{config::Config, window::Occurrence};
use crate::{
    clock::Timestamp,
    ids::{ChannelId, RunId, TaskId, TeamKey, TriggerId},
    task::{Cycle, Label, Priority, TopicRef},
};

/// What a trigger is told to be. The engine changes nothing here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Unique in its team.
    pub name: String,
    /// When it fires.
    pub config: Config,
    /// What the team is asked to do.
    pub task: String,
    /// Who of the team does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// The most model calls; none is the team's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// How soon, among the tasks of its team.
    #[serde(default)]
    pub priority: Priority,
    /// How long a task may take from its firing on.
    #[serde(with = "millis")]
    pub deadline: Duration,
    /// What a firing does while the last task is unfinished.
    pub overlap_policy: OverlapPolicy,
    /// What becomes of times that passed unserved.
    #[serde(default)]
    pub missed: MissedPolicy,
    /// So many failures in a row switch it off.
    pub failure_threshold: u32,
    /// The least time between two firings.
    #[serde(default, with = "millis")]
    pub cooldown: Duration,
    /// Whether people hear of its runs.
    #[serde(default)]
    pub notify: NotifyPolicy,
    /// Where they hear of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_channel: Option<ChannelId>,
    /// In which topic there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_topic: Option<TopicRef>,
    /// When they are left in peace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// An operator allows text from outside to reach a team that has secrets.
    #[serde(default)]
    pub allow_untrusted: bool,
}

impl Definition {
    /// A definition with nothing but defaults beside what every trigger needs.
    pub fn new(name: &str, config: Config, task: &str) -> Self {
        Self {
            name: name.to_owned(),
            overlap_policy: match config {
                Config::Schedule(_) => OverlapPolicy::SkipThenReplace,
                Config::Window(_) => OverlapPolicy::AlwaysSkip,
                // Each of these is somebody's message: none is dropped, the later one waits.
                Config::Keyword(_) | Config::Message(_) | Config::Webhook(_) => {
                    OverlapPolicy::Allow
                }
            },
            config,
            task: task.to_owned(),
            subagent: None,
            max_steps: None,
            priority: Priority::Normal,
            deadline: Duration::from_secs(6 * 60 * 60),
            missed: MissedPolicy::Once,
            failure_threshold: 3,
            cooldown: Duration::ZERO,
            notify: NotifyPolicy::Auto,
            notify_channel: None,
            notify_topic: None,
            quiet: None,
            allow_untrusted: false,
        }
    }
}

/// A trigger as it is stored: what it was told to be, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Its id.
    pub id: TriggerId,
    /// Whose it is.
    pub team: TeamKey,
    /// What it was told to be.
    #[serde(flatten)]
    pub definition: Definition,
    /// Kept by settings: tools may switch it off, and no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemKind>,
    /// Whether it fires.
    pub state: State,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    /// Runs that failed since one that did not.
    #[serde(default)]
    pub consecutive_failures: u32,
    /// The newest of them, at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_runs: Vec<RunId>,
    /// Firings in a row that were skipped since the last task is unfinished.
    #[serde(default)]
    pub overlap_count: u32,
    /// The last task, as long as it is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_task_id: Option<TaskId>,
    /// Times up to here are dealt with. Only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_at: Option<Timestamp>,
    /// Where counting in steps begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor_at: Option<Timestamp>,
    /// The cursor before the team was paused, if times passed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_from: Option<Timestamp>,
    /// When it is to be looked at next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due_at: Option<Timestamp>,
    /// When it last made a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<Timestamp>,
    /// When the operator was last told that it fires too often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_noticed_at: Option<Timestamp>,
    /// The window that is open, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
    /// What one run leaves for the next.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cursors: BTreeMap<String, String>,
    /// How far what it left can be trusted: a run that read what a stranger wrote leaves that.
    #[serde(default, skip_serializing_if = "Label::is_trusted")]
    pub cursors_label: Label,
    /// What is told once the quiet time is over, as former versions kept it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
    /// What is told once the quiet time is over, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quieted: Vec<Quieted>,
    /// How many older ones are told of by their number alone.
    #[serde(default, skip_serializing_if = "is_none")]
    pub quieted_more: u64,
    /// Rises with each change that someone made.
    pub revision: u64,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What a run had to say in a quiet time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quieted {
    /// What, marked where it was cut.
    pub text: String,
    /// Where it is told.
    pub place: Place,
    /// How far it may be believed.
    #[serde(default, skip_serializing_if = "Label::is_trusted")]
    pub label: Label,
}

/// Where people are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The channel.
    pub channel: ChannelId,
    /// Its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicRef>,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

impl Trigger {
    /// A trigger that has just been made and does not fire yet.
    pub fn new(
        id: TriggerId,
        team: TeamKey,
        definition: Definition,
        created_by: &str,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            team,
            definition,
            system: None,
            state: State::Pending,
            disabled_reason: None,
            consecutive_failures: 0,
            failed_runs: Vec::new(),
            overlap_count: 0,
            active_task_id: None,
            cursor_at: None,
            anchor_at: None,
            held_from: None,
            next_due_at: None,
            last_fired_at: None,
            rate_noticed_at: None,
            occurrence: None,
            cursors: BTreeMap::new(),
            cursors_label: Label::Trusted,
            held: Vec::new(),
            quieted: Vec::new(),
            quieted_more: 0,
            revision: 1,
            created_by: created_by.to_owned(),
            created_at: now,
            updated_at: now,
        }
    }

    /// It fires.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Begins anew from a moment: what passed while it was off is not made up.
    pub fn enable(&mut self, now: Timestamp) {
        self.state = State::Active;
        self.disabled_reason = None;
        self.consecutive_failures = 0;
        self.failed_runs.clear();
        self.overlap_count = 0;
        self.active_task_id = None;
        self.cursor_at = self.cursor_at.max(Some(now));
        self.anchor_at = Some(now);
        self.held_from = None;
        self.occurrence = None;
    }

    /// Fires no more.
    pub fn disable(&mut self, reason: impl Into<String>) {
        self.state = State::Disabled;
        self.disabled_reason = Some(reason.into());
        self.next_due_at = None;
        if let Some(occurrence) = &mut self.occurrence {
            occurrence.close(super::window::Closed::Disabled, self.active_task_id.is_some());
        }
    }

    /// Moves the cursor, never back.
    pub fn move_cursor(&mut self, to: Timestamp) {
        self.cursor_at = self.cursor_at.max(Some(to));
    }
}

/// Whether a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not yet.
    Pending,
    /// It does.
    Active,
    /// Not any more.
    Disabled,
    /// It has, and there is no second time.
    Finished,
}

/// What keeps a trigger that no one made by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemKind {
    /// `heartbeat` of the team file.
    Heartbeat,
    /// `learning` of the team file.
    Learning,
    /// The same; it looks at the team itself.
    Reflection,
}

impl SystemKind {
    /// How its runs look back at the work of the team, if they do.
    pub fn cycle(self) -> Option<Cycle> {
        match self {
            Self::Heartbeat => None,
            Self::Learning => Some(Cycle::Learning),
            Self::Reflection => Some(Cycle::Reflection),
        }
    }
}

/// What a firing does while the last task is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapPolicy {
    /// The first is skipped, the next one replaces the task.
    SkipThenReplace,
    /// It is skipped.
    AlwaysSkip,
    /// It replaces the task.
    AlwaysReplace,
    /// It waits behind the task.
    Allow,
}

/// What becomes of times that passed unserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// Nothing.
    Skip,
    /// One run for all of them.
    #[default]
    Once,
    /// A run for each.
    All,
}

/// Whether people hear of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyPolicy {
    /// As the run itself reports.
    #[default]
    Auto,
    /// Of each.
    Always,
    /// Of those that failed.
    OnFailure,
    /// Of none.
    Never,
}

/// When people are left in peace. May pass midnight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// Minutes since midnight.
    pub from: u32,
    /// Minutes since midnight.
    pub to: u32,
    /// The zone; none is that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// What is wrong with a trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Problem {
    /// Where.
    pub field: String,
    /// What.
    pub reason: String,
}

impl Problem {
    /// Something is wrong with a field.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// Durations in rows: whole milliseconds.
pub(super) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        crate::clock::millis(*duration).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
