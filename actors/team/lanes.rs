//! Lanes: what a team is working on. At most one session in each, by construction.

use std::collections::HashMap;

use super::{
    lease::{Cancellation, LeasedTask, SessionKey},
    session::Session,
};
use crate::{
    ids::{LeaseId, TaskId, TopicId},
    journal::LaneHistory,
    task::Task,
};

/// More lanes than this are not kept while they are idle. A tenth of them goes at once, those used longest ago: it is
/// not looked for at each rest.
const MAX_IDLE_LANES: usize = 1_000;
/// Idle lanes keep conversations of about so many characters in all. Those used longest ago are read again.
const MAX_KEPT_CHARACTERS: usize = 8 << 20;
/// That is looked after once in so many turns.
const FORGET_INTERVAL: u64 = 32;

/// The lanes of one team, by topic.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<Option<TopicId>, LaneState>,
    /// How often a lane came to rest.
    rests: u64,
}

/// What is known of a lane.
#[derive(Default)]
pub(super) struct LaneState {
    /// Set once it has been read, and while no session has it.
    pub(super) history: Option<LaneHistory>,
    pub(super) work: Work,
    /// When it last came to rest, among all.
    rested: u64,
}

/// What a lane is doing.
#[derive(Default)]
pub(super) enum Work {
    #[default]
    Idle,
    Preparing(Box<Preparing>),
    Running(Box<Session>),
}

/// A leased task whose turn is being prepared.
pub(super) struct Preparing {
    pub(super) leased: LeasedTask,
    /// Tasks that joined the turn before it was set aside.
    pub(super) company: Vec<(Task, LeaseId)>,
    /// It was cancelled meanwhile, which its turn is told when it begins.
    pub(super) cancelled: Option<Cancellation>,
    /// Messages that came meanwhile: its turn decides what they do.
    pub(super) waiting: Vec<Task>,
}

impl Lanes {
    pub(super) fn get(&mut self, topic: &Option<TopicId>) -> &mut LaneState {
        self.lanes.entry(topic.clone()).or_default()
    }

    pub(super) fn session(&mut self, topic: &Option<TopicId>) -> Option<&mut Session> {
        match &mut self.lanes.get_mut(topic)?.work {
            Work::Running(session) => Some(session),
            _ => None,
        }
    }

    /// Takes a turn out of its lane that is still being prepared.
    pub(super) fn take_preparing(&mut self, key: &SessionKey) -> Option<Preparing> {
        let work = &mut self.lanes.get_mut(&key.topic)?.work;
        match std::mem::take(work) {
            Work::Preparing(preparing) if preparing.leased.lease == key.lease => Some(*preparing),
            other => {
                *work = other;
                None
            }
        }
    }

    /// What is remembered of a lane, wherever it is.
    pub(super) fn history(&mut self, topic: &Option<TopicId>) -> Option<&mut LaneHistory> {
        let lane = self.lanes.get_mut(topic)?;
        match &mut lane.work {
            Work::Running(session) => Some(&mut session.history),
            _ => lane.history.as_mut(),
        }
    }

    /// A lane works on what was leased so.
    pub(super) fn holds(&self, topic: &Option<TopicId>, lease: &LeaseId) -> bool {
        match self.lanes.get(topic).map(|lane| &lane.work) {
            Some(Work::Preparing(preparing)) => preparing.leased.lease == *lease,
            Some(Work::Running(session)) => session.holds(lease),
            _ => false,
        }
    }

    pub(super) fn tasks(&self) -> Vec<TaskId> {
        let tasks = self.lanes.values().filter_map(|lane| match &lane.work {
            Work::Preparing(preparing) => Some(preparing.leased.task.id.clone()),
            Work::Running(session) => Some(session.leased.task.id.clone()),
            Work::Idle => None,
        });
        tasks.collect()
    }

    pub(super) fn are_idle(&self) -> bool {
        self.lanes.values().all(|lane| matches!(lane.work, Work::Idle))
    }

    pub(super) fn topics(&self) -> Vec<Option<TopicId>> {
        self.lanes.keys().cloned().collect()
    }

    /// A lane has nothing to do now. What its session remembers is its own again.
    pub(super) fn rest(&mut self, topic: &Option<TopicId>) {
        self.rests += 1;
        let rested = self.rests;
        let lane = self.get(topic);
        lane.rested = rested;
        if let Work::Running(session) = std::mem::take(&mut lane.work) {
            lane.history = session.into_history();
        }
        if self.lanes.len() > MAX_IDLE_LANES {
            self.drop_idle(MAX_IDLE_LANES / 10);
        }
        if self.rests.is_multiple_of(FORGET_INTERVAL) {
            self.forget();
        }
    }

    /// Drops so many idle lanes, those that were used longest ago.
    fn drop_idle(&mut self, most: usize) {
        let is_idle = |lane: &LaneState| matches!(lane.work, Work::Idle);
        let idle = self.lanes.values().filter(|lane| is_idle(lane));
        let mut rested: Vec<u64> = idle.map(|lane| lane.rested).collect();
        rested.sort_unstable();
        let Some(last) = rested.iter().take(most).next_back().copied() else { return };
        self.lanes.retain(|_, lane| !is_idle(lane) || lane.rested > last);
    }

    /// Drops what lanes remember that were used longest ago, if it is too much.
    fn forget(&mut self) {
        let size = |lane: &LaneState| lane.history.as_ref().map_or(0, LaneHistory::characters);
        let mut all: usize = self.lanes.values().map(size).sum();
        while all > MAX_KEPT_CHARACTERS {
            let known = self.lanes.values_mut().filter(|lane| lane.history.is_some());
            let Some(oldest) = known.min_by_key(|lane| lane.rested) else { return };
            all -= size(oldest);
            oldest.history = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-41: with more topics than are kept, those used last are still known.
    #[test]
    fn the_lanes_used_longest_ago_are_dropped() {
        let mut lanes = Lanes::default();
        for number in 0..=MAX_IDLE_LANES {
            lanes.rest(&Some(format!("t-{number}").as_str().into()));
        }

        let kept = lanes.topics();
        assert_eq!(kept.len(), MAX_IDLE_LANES + 1 - MAX_IDLE_LANES / 10);
        assert!(!kept.contains(&Some("t-0".into())));
        assert!(kept.contains(&Some(format!("t-{MAX_IDLE_LANES}").as_str().into())));
    }
}
