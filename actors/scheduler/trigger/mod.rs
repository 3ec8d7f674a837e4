//! A trigger: what starts work in a team without a person typing, and what became of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::window::{Closed, Occurrence};
use crate::{
    clock::Timestamp,
    ids::{ChannelId, Ids, RunId, TaskId, TeamKey, TriggerId},
    notice::{Notice, NoticeKind},
    task::{Cycle, Label, TopicRef},
    words,
};

pub mod config;
pub mod definition;
pub mod limits;
mod stored;
pub mod validation;
pub mod webhook;

use definition::Definition;

/// A trigger as it is stored: what it was told to be, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    pub id: TriggerId,
    pub team: TeamKey,
    #[serde(flatten, with = "stored")]
    pub definition: Definition,
    /// Kept by settings: tools may switch it off, and no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemKind>,
    pub state: State,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<Timestamp>,
    /// When the operator was last told that it fires too often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_noticed_at: Option<Timestamp>,
    /// The window that is open, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
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
    pub created_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A trigger by its id or by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    Id(TriggerId),
    Named { team: TeamKey, name: String },
}

/// What a run had to say in a quiet time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quieted {
    /// What, marked where it was cut.
    pub text: String,
    pub place: Place,
    #[serde(default, skip_serializing_if = "Label::is_trusted")]
    pub label: Label,
}

/// Where people are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub channel: ChannelId,
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

    pub fn disable(&mut self, reason: impl Into<String>) {
        self.state = State::Disabled;
        self.disabled_reason = Some(reason.into());
        self.next_due_at = None;
        if let Some(occurrence) = &mut self.occurrence {
            occurrence.close(Closed::Disabled, self.active_task_id.is_some());
        }
    }

    /// What it is found by: its team and its name there.
    pub fn name(&self) -> (TeamKey, String) {
        (self.team.clone(), self.definition.name.clone())
    }

    /// Times up to here are dealt with.
    pub fn cursor(&self) -> Timestamp {
        self.cursor_at.unwrap_or(self.created_at)
    }

    /// Someone changed it.
    pub fn revise(&mut self, now: Timestamp) {
        self.revision += 1;
        self.updated_at = now;
    }

    /// Something that the operator should know about it, and about runs of it.
    pub fn notice<'a>(
        &self,
        ids: &Ids,
        kind: NoticeKind,
        text: String,
        runs: impl IntoIterator<Item = &'a RunId>,
        now: Timestamp,
    ) -> Notice {
        let runs = runs.into_iter().map(ToString::to_string);
        let refs = [self.id.to_string()].into_iter().chain(runs).collect();
        Notice::of_team(ids, kind, &self.team.name, text, refs, now)
    }

    /// Moves the cursor, never back.
    pub fn move_cursor(&mut self, to: Timestamp) {
        self.cursor_at = self.cursor_at.max(Some(to));
    }
}

words! {
    /// Whether a trigger fires.
    #[schemars(rename = "TriggerState")]
    pub enum State {
        /// Not yet.
        Pending = "pending",
        /// It does.
        Active = "active",
        /// Not any more.
        Disabled = "disabled",
        /// It has, and there is no second time.
        Finished = "finished",
    }
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
