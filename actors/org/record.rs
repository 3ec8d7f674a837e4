//! Team record: a team as the organisation knows it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    clock::Timestamp,
    ids::{MAIN, TaskId, TeamKey, TeamName},
    live::event::{Event, Kind},
    store::{
        keys::{Key, KeyReader, KeyWriter, Parts},
        records::{Keyed, Record},
    },
    words,
};

/// One life of a team. What the operator writes about it is in its file, not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamRecord {
    pub name: TeamName,
    /// How often the name was given, from 1.
    pub generation: u32,
    /// Who is above it; nobody is above the main team.
    pub parent: Option<TeamName>,
    pub state: TeamState,
    /// When a team that kept dying works again. Without it a degraded team waits for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rested_at: Option<Timestamp>,
    /// The team that lets it rest; none if an operator does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<TeamName>,
    pub phase: Phase,
    /// Words for what it takes on.
    pub scope: BTreeSet<String>,
    /// What it may do beyond its tools. Only operators change this.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<Capability>,
    pub created_at: Timestamp,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_task: Option<TaskId>,
    /// It is being shut down, and how far that has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<Closing>,
}

impl TeamRecord {
    /// The main team, which is always there.
    pub fn main(now: Timestamp) -> Self {
        Self {
            name: MAIN.into(),
            generation: 1,
            parent: None,
            state: TeamState::Active,
            rested_at: None,
            paused_by: None,
            phase: Phase::Ready,
            scope: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            created_at: now,
            created_by: "system".to_owned(),
            bootstrap_task: None,
            closing: None,
        }
    }

    /// Under which its rows are kept.
    pub fn key(&self) -> TeamKey {
        TeamKey { name: self.name.clone(), generation: self.generation }
    }
}

impl Record for TeamRecord {
    const KIND: &'static str = "team";
    type Key = (TeamName, Generation);

    fn told(&self, _: &Self::Key) -> Option<Event> {
        let data = json!({
            "name": self.name,
            "generation": self.generation,
            "parent": self.parent,
            "state": self.state,
            "phase": self.phase,
        });
        Some(Event::new(Kind::TeamChanged, data).of_team(&self.name))
    }
}

impl Keyed for TeamRecord {
    fn key(&self) -> Self::Key {
        (self.name.clone(), Generation(self.generation))
    }
}

/// How often a name was given, as keys have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u32);

impl Parts for Generation {
    fn write(&self, key: &mut KeyWriter) {
        key.text(&format!("{:08x}", self.0));
    }
}

impl Key for Generation {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        u32::from_str_radix(key.text()?, 16).ok().map(Self)
    }
}

words! {
    /// Whether a team works.
    pub enum TeamState {
        /// It works.
        Active = "active",
        /// Tasks are accepted, none is started.
        Paused = "paused",
        /// It kept dying and rests, or its file or its folder is wrong.
        Degraded = "degraded",
        /// It is being shut down: nothing is accepted.
        Draining = "draining",
        /// It is gone; the record is kept.
        Removed = "removed",
    }
}

words! {
    /// Whether a team has set itself up. None of them keeps tasks from being done.
    #[schemars(rename = "TeamPhase")]
    pub enum Phase {
        /// Its first work is not done yet.
        Initializing = "initializing",
        /// It has.
        Ready = "ready",
        /// It tried, and has nothing to show.
        Failed = "failed",
    }
}

words! {
    /// What a team may do beyond its tools.
    pub enum Capability {
        /// Start and stop other teams.
        Lifecycle = "lifecycle",
        /// Ask for new teams.
        Spawn = "spawn",
        /// Ask for other settings.
        Configure = "configure",
        /// Have more triggers than others.
        Triggers = "triggers",
    }
}

/// A shutdown under way. The whole tree below goes with the team at its top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// The team whose shutdown was asked for.
    pub top: TeamName,
    /// The tool call that asked for it, which gets its answer also after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Who is gone already, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<TeamName>,
    /// How many of their tasks were cancelled.
    #[serde(default)]
    pub cancelled: u64,
}
