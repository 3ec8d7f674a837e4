//! Schedule: which waiting task runs next. Fair between teams, serial within a lane.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use crate::{
    clock::{Timestamp, millis},
    ids::{TaskId, TeamName, TopicId},
    task::{Lane, Priority},
};

/// How much may wait and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Turns at a time, in all.
    pub running: usize,
    /// Tasks that wait in one topic.
    pub waiting_in_topic: usize,
    /// Tasks that wait for one team.
    pub waiting_for_team: usize,
    /// Tasks that wait in all.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 256,
            waiting_in_topic: 1_000,
            waiting_for_team: 10_000,
            waiting: 100_000,
        }
    }
}

/// Why a task cannot wait here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Its topic holds this many already.
    Topic(usize),
    /// Its team, or everything, holds this many already.
    Queue(usize),
}

impl Full {
    /// How many wait.
    pub fn waiting(self) -> usize {
        let (Self::Topic(waiting) | Self::Queue(waiting)) = self;
        waiting
    }
}

/// The waiting tasks of all teams.
///
/// Among teams with work, the next slot goes to the one with the smallest virtual time. A team is
/// charged for the time its turns ran, and one that was idle starts at the present minimum: it can
/// neither save up nor be starved.
#[derive(Debug)]
pub struct Schedule {
    limits: Limits,
    teams: HashMap<TeamName, TeamWork>,
    /// Teams that could start a turn now, by virtual time.
    ready: BTreeSet<(u64, TeamName)>,
    /// Lanes that may not start before a moment.
    held: BTreeSet<(Timestamp, Lane)>,
    /// Teams that may not.
    resting: BTreeSet<(Timestamp, TeamName)>,
    /// The virtual time of the team chosen last: where idle teams start.
    floor: u64,
    arrivals: u64,
    running: usize,
    waiting: usize,
}

#[derive(Debug, Default)]
struct TeamWork {
    virtual_time: u64,
    lanes: HashMap<Option<TopicId>, LaneWork>,
    /// Lanes that could start a turn now, by the place of their first task.
    ready: BTreeSet<(Place, Option<TopicId>)>,
    rests_until: Option<Timestamp>,
    /// An operator stopped it.
    paused: bool,
    running: usize,
    waiting: usize,
}

impl TeamWork {
    /// It could start a turn now, as far as it depends on the team.
    fn is_ready(&self) -> bool {
        !self.ready.is_empty() && self.rests_until.is_none() && !self.paused
    }
}

/// Where a task stands among those of its team: priority, then arrival.
type Place = (Priority, u64);

#[derive(Debug, Default)]
struct LaneWork {
    waiting: VecDeque<(Place, TaskId)>,
    running: bool,
    /// How many calls of the running turn wait for other work: it holds no slot meanwhile.
    lent: usize,
    held_until: Option<Timestamp>,
}

impl LaneWork {
    /// The place of the task that could start now.
    fn startable(&self) -> Option<Place> {
        if self.running || self.held_until.is_some() {
            return None;
        }
        self.waiting.front().map(|(place, _)| *place)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.running && self.held_until.is_none()
    }
}

impl Schedule {
    /// An empty schedule.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            teams: HashMap::new(),
            ready: BTreeSet::new(),
            held: BTreeSet::new(),
            resting: BTreeSet::new(),
            floor: 0,
            arrivals: 0,
            running: 0,
            waiting: 0,
        }
    }

    /// Whether one more task may wait in a lane.
    pub fn admits(&self, lane: &Lane) -> Result<(), Full> {
        if self.waiting >= self.limits.waiting {
            return Err(Full::Queue(self.waiting));
        }
        let Some(team) = self.teams.get(&lane.team) else {
            return Ok(());
        };
        if team.waiting >= self.limits.waiting_for_team {
            return Err(Full::Queue(team.waiting));
        }
        match team.lanes.get(&lane.topic) {
            Some(work)
                if lane.topic.is_some() && work.waiting.len() >= self.limits.waiting_in_topic =>
            {
                Err(Full::Topic(work.waiting.len()))
            }
            _ => Ok(()),
        }
    }

    /// A task arrives behind those of its lane that are as urgent.
    pub fn push(&mut self, lane: &Lane, task: TaskId, priority: Priority) {
        self.arrivals += 1;
        let place = (priority, self.arrivals);
        self.change(lane, |work| {
            let behind = work.waiting.partition_point(|(other, _)| *other < place);
            work.waiting.insert(behind, (place, task));
        });
        self.count_waiting(&lane.team, 1);
    }

    /// The next task to start, which now runs.
    pub fn next(&mut self, now: Timestamp) -> Option<(Lane, TaskId)> {
        self.release(now);
        if self.running >= self.limits.running {
            return None;
        }
        let per_team = (self.limits.running * 3 / 4).max(1);
        let (virtual_time, name) = self
            .ready
            .iter()
            .find(|(_, name)| {
                self.teams
                    .get(name)
                    .is_some_and(|team| team.running < per_team)
            })?
            .clone();
        let team = self.teams.get_mut(&name)?;
        let topic = team.ready.first()?.1.clone();
        let lane = Lane { team: name, topic };
        self.floor = self.floor.max(virtual_time);
        let mut started = None;
        self.change(&lane, |work| {
            started = work.waiting.pop_front();
            work.running = true;
        });
        self.count_waiting(&lane.team, -1);
        self.count_running(&lane.team, 1);
        // Something is charged at once, so that equals take turns while both only start.
        self.charge(&lane.team, 1);
        started.map(|(_, task)| (lane, task))
    }

    /// The running turn of a lane is over.
    pub fn finished(&mut self, lane: &Lane, ran: Duration) {
        if !self.is_running(lane) {
            return;
        }
        if self.lane(lane).is_some_and(|work| work.lent == 0) {
            self.count_running(&lane.team, -1);
        }
        self.charge(&lane.team, millis(ran));
        self.change(lane, |work| {
            work.running = false;
            work.lent = 0;
        });
    }

    /// The running turn of a lane waits for other work: its slot is free meanwhile.
    pub fn lend(&mut self, lane: &Lane) {
        if !self.is_running(lane) {
            return;
        }
        let mut first = false;
        self.change(lane, |work| {
            first = work.lent == 0;
            work.lent += 1;
        });
        if first {
            self.count_running(&lane.team, -1);
        }
    }

    /// A turn that lent its slot goes on, if there is one. Returns whether it may.
    pub fn reclaim(&mut self, lane: &Lane) -> bool {
        let lent = self.lane(lane).map_or(0, |work| work.lent);
        if lent == 0 {
            return true;
        }
        if lent == 1 {
            if self.running >= self.limits.running {
                return false;
            }
            self.count_running(&lane.team, 1);
        }
        self.change(lane, |work| work.lent -= 1);
        true
    }

    /// No turn of the team starts until it is resumed.
    pub fn pause(&mut self, name: &TeamName, paused: bool) {
        self.change_team(name, |team| team.paused = paused);
    }

    /// Whether an operator stopped the team.
    pub fn is_paused(&self, name: &TeamName) -> bool {
        self.teams.get(name).is_some_and(|team| team.paused)
    }

    /// The limit of turns at a time has changed.
    pub fn allow(&mut self, running: usize) {
        self.limits.running = running;
    }

    /// A task that was taken waits again, first in its lane of those that are as urgent. The lane rests
    /// until then.
    pub fn put_back(
        &mut self,
        lane: &Lane,
        task: TaskId,
        priority: Priority,
        not_before: Option<Timestamp>,
    ) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.change(lane, |work| {
            let more_urgent = |((other, _), _): &(Place, TaskId)| *other < priority;
            let behind = work.waiting.partition_point(more_urgent);
            let next = work.waiting.get(behind).map(|(place, _)| *place);
            let first = match next {
                Some((other, first)) if other == priority => first.saturating_sub(1),
                _ => arrival,
            };
            work.waiting.insert(behind, ((priority, first), task));
        });
        self.count_waiting(&lane.team, 1);
        if let Some(until) = not_before {
            self.hold(lane, until);
        }
    }

    /// No turn of the lane starts before a moment.
    pub fn hold(&mut self, lane: &Lane, until: Timestamp) {
        let mut former = None;
        self.change(lane, |work| former = work.held_until.replace(until));
        if let Some(former) = former {
            self.held.remove(&(former, lane.clone()));
        }
        self.held.insert((until, lane.clone()));
    }

    /// A lane that was held may go on.
    pub fn unhold(&mut self, lane: &Lane) {
        let mut former = None;
        self.change(lane, |work| former = work.held_until.take());
        if let Some(former) = former {
            self.held.remove(&(former, lane.clone()));
        }
    }

    /// No turn of the team starts before a moment.
    pub fn rest(&mut self, name: &TeamName, until: Timestamp) {
        let former = self.change_team(name, |team| team.rests_until.replace(until));
        if let Some(former) = former {
            self.resting.remove(&(former, name.clone()));
        }
        self.resting.insert((until, name.clone()));
    }

    /// Takes a waiting task of a lane whose turn is running, to join that turn. Returns whether it
    /// could.
    pub fn take(&mut self, lane: &Lane, task: &TaskId) -> bool {
        let mut taken = None;
        self.change(lane, |work| {
            let place = work.waiting.iter().position(|(_, id)| id == task);
            if let (true, Some(place)) = (work.running, place) {
                taken = work.waiting.remove(place);
            }
        });
        if taken.is_some() {
            self.count_waiting(&lane.team, -1);
        }
        taken.is_some()
    }

    /// A waiting task is not to run any more. Returns whether it was waiting.
    ///
    /// If its lane rested for it, the next may start at once.
    pub fn remove(&mut self, lane: &Lane, task: &TaskId) -> bool {
        let mut removed = false;
        let mut held = None;
        self.change(lane, |work| {
            if let Some(place) = work.waiting.iter().position(|(_, id)| id == task) {
                work.waiting.remove(place);
                removed = true;
                if place == 0 {
                    held = work.held_until.take();
                }
            }
        });
        if let Some(until) = held {
            self.held.remove(&(until, lane.clone()));
        }
        if removed {
            self.count_waiting(&lane.team, -1);
        }
        removed
    }

    /// The waiting tasks of a lane, first come first.
    pub fn waiting_in(&self, lane: &Lane) -> Vec<TaskId> {
        self.lane(lane)
            .map(|work| work.waiting.iter().map(|(_, id)| id.clone()).collect())
            .unwrap_or_default()
    }

    /// How many of its lane go before a waiting task, the running one included.
    pub fn ahead_of(&self, lane: &Lane, task: &TaskId) -> usize {
        let Some(work) = self.lane(lane) else {
            return 0;
        };
        let waiting = work.waiting.iter().take_while(|(_, id)| id != task).count();
        waiting + usize::from(work.running)
    }

    /// Whether a turn runs in a lane.
    pub fn is_running(&self, lane: &Lane) -> bool {
        self.lane(lane).is_some_and(|work| work.running)
    }

    /// When a resting lane or team may go on.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let lane = self.held.first().map(|(until, _)| *until);
        let team = self.resting.first().map(|(until, _)| *until);
        lane.into_iter().chain(team).min()
    }

    /// Turns that run now.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Waiting tasks and running turns of each team that has had any.
    pub fn teams(&self) -> impl Iterator<Item = (&TeamName, usize, usize)> {
        self.teams
            .iter()
            .map(|(name, team)| (name, team.waiting, team.running))
    }

    fn lane(&self, lane: &Lane) -> Option<&LaneWork> {
        self.teams.get(&lane.team)?.lanes.get(&lane.topic)
    }

    fn release(&mut self, now: Timestamp) {
        while let Some((until, lane)) = self.held.first()
            && *until <= now
        {
            let lane = lane.clone();
            self.held.pop_first();
            self.change(&lane, |work| work.held_until = None);
        }
        while let Some((until, name)) = self.resting.first()
            && *until <= now
        {
            let name = name.clone();
            self.resting.pop_first();
            self.change_team(&name, |team| team.rests_until = None);
        }
    }

    fn count_waiting(&mut self, team: &TeamName, by: isize) {
        self.waiting = self.waiting.saturating_add_signed(by);
        if let Some(team) = self.teams.get_mut(team) {
            team.waiting = team.waiting.saturating_add_signed(by);
        }
    }

    fn count_running(&mut self, team: &TeamName, by: isize) {
        self.running = self.running.saturating_add_signed(by);
        if let Some(team) = self.teams.get_mut(team) {
            team.running = team.running.saturating_add_signed(by);
        }
    }

    fn charge(&mut self, name: &TeamName, time: u64) {
        self.change_team(name, |team| team.virtual_time += time);
    }

    /// Changes a lane and keeps all that is derived from it.
    fn change(&mut self, lane: &Lane, change: impl FnOnce(&mut LaneWork)) {
        let floor = self.floor;
        self.change_team(&lane.team, |team| {
            if team.lanes.is_empty() {
                team.virtual_time = team.virtual_time.max(floor);
            }
            let work = team.lanes.entry(lane.topic.clone()).or_default();
            let before = work.startable();
            change(work);
            let after = work.startable();
            let empty = work.is_empty();
            if before != after {
                if let Some(place) = before {
                    team.ready.remove(&(place, lane.topic.clone()));
                }
                if let Some(place) = after {
                    team.ready.insert((place, lane.topic.clone()));
                }
            }
            if empty {
                team.lanes.remove(&lane.topic);
            }
        });
    }

    /// Changes a team and keeps its place among those that could start a turn.
    fn change_team<T>(&mut self, name: &TeamName, change: impl FnOnce(&mut TeamWork) -> T) -> T {
        let team = self.teams.entry(name.clone()).or_default();
        let before = team.is_ready().then_some(team.virtual_time);
        let changed = change(team);
        let after = team.is_ready().then_some(team.virtual_time);
        if before != after {
            if let Some(virtual_time) = before {
                self.ready.remove(&(virtual_time, name.clone()));
            }
            if let Some(virtual_time) = after {
                self.ready.insert((virtual_time, name.clone()));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests;
