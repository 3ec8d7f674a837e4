//! Schedule: which waiting task runs next. Fair between teams and between the people of a team, serial
//! within a lane.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    clock::{Timestamp, doubling, millis},
    ids::{TaskId, TeamName, TopicId},
    task::{Lane, Priority, Task},
};

/// A turn counts as the last one of its person and of its lane for so many starts of its team. Whoever
/// had none of them goes first, and has waited longest once as many others were started.
const REMEMBERED_STARTS: u64 = 1_000;
/// The first and the longest pause of a lane whose turns fail.
const FAILURE_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How much may wait and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Turns at a time, in all.
    pub running: usize,
    pub waiting_in_topic: usize,
    pub waiting_for_team: usize,
    /// Tasks that wait in all.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { running: 256, waiting_in_topic: 1_000, waiting_for_team: 10_000, waiting: 100_000 }
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
    pub fn waiting(self) -> usize {
        let (Self::Topic(waiting) | Self::Queue(waiting)) = self;
        waiting
    }
}

/// A task as the schedule knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub task: TaskId,
    pub priority: Priority,
    pub person: Arc<str>,
}

impl From<&Task> for Ticket {
    fn from(task: &Task) -> Self {
        Self {
            task: task.id.clone(),
            priority: task.priority,
            person: task.caused_by().person().into(),
        }
    }
}

/// The waiting tasks of all teams.
///
/// Among teams with work, the next slot goes to the one with the smallest virtual time. A team is
/// charged for the time its turns ran, and one that was idle starts at the present minimum: it can
/// neither save up nor be starved. Within a team it goes to the person who has waited longest since
/// their last turn, and of their lanes to the one that has: so however many topics one person fills, another
/// waits for the next free slot only.
#[derive(Debug, Default)]
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
    people: HashMap<Arc<str>, Person>,
    /// People with a lane that could start a turn now.
    ready: BTreeSet<(Rank, Arc<str>)>,
    starts: u64,
    last_turns: HashMap<Option<TopicId>, LastTurn>,
    rests_until: Option<Timestamp>,
    /// An operator stopped it.
    paused: bool,
    running: usize,
    waiting: usize,
}

#[derive(Debug, Default)]
struct LastTurn {
    start: u64,
    /// How many have failed, one after another.
    failures: u32,
}

impl TeamWork {
    /// It could start a turn now, as far as it depends on the team.
    fn is_ready(&self) -> bool {
        !self.ready.is_empty() && self.rests_until.is_none() && !self.paused
    }

    /// Changes a lane and keeps its place among those of its person.
    fn change_lane(&mut self, topic: &Option<TopicId>, change: impl FnOnce(&mut LaneWork)) {
        let last_start = self.last_turns.get(topic).map_or(0, |last| last.start);
        let work = self.lanes.entry(topic.clone()).or_default();
        change(work);
        let after = work.startable().map(|first| {
            let since = first.since.max(last_start);
            let rank = (first.place.priority, since, first.place.arrival);
            (first.ticket.person.clone(), rank, first.since)
        });
        let before = std::mem::replace(&mut work.ready_as, after.clone());
        if work.is_empty() {
            self.lanes.remove(topic);
        }
        if before == after {
            return;
        }
        if let Some((person, rank, since)) = before {
            self.change_person(&person, |person| {
                person.ready.remove(&(rank, since, topic.clone()));
            });
        }
        if let Some((person, rank, since)) = after {
            self.change_person(&person, |person| {
                person.ready.insert((rank, since, topic.clone()));
            });
        }
    }

    /// Changes a person and keeps their place among those of the team.
    fn change_person(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Person)) {
        let person = self.people.entry(name.clone()).or_default();
        change(person);
        let after = person.rank();
        let before = std::mem::replace(&mut person.ready_as, after);
        if before != after {
            let key = |rank| (rank, name.clone());
            reindex(&mut self.ready, before.map(key), after.map(key));
        }
    }

    /// A turn of a person starts in a lane.
    fn start(&mut self, name: &Arc<str>, topic: &Option<TopicId>) {
        self.starts += 1;
        let number = self.starts;
        self.last_turns.entry(topic.clone()).or_default().start = number;
        self.change_person(name, |person| person.last_start = number);
        if number.is_multiple_of(REMEMBERED_STARTS) {
            let forgotten = number - REMEMBERED_STARTS;
            let lanes = &self.lanes;
            self.last_turns
                .retain(|topic, last| last.start > forgotten || lanes.contains_key(topic));
            self.people
                .retain(|_, person| person.last_start > forgotten || !person.ready.is_empty());
        }
    }
}

/// Moves something in an index from where it stood to where it stands.
fn reindex<K: Ord>(index: &mut BTreeSet<K>, before: Option<K>, after: Option<K>) {
    if let Some(before) = before {
        index.remove(&before);
    }
    index.extend(after);
}

/// Where a task stands in its lane: by urgency, then by round, then by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Priority,
    /// Each person has one task in a round. A topic has no rounds: what is said in it keeps its order.
    round: u64,
    arrival: u64,
}

/// Where a lane or a person stands: priority, the start since which they wait, arrival.
type Rank = (Priority, u64, u64);

/// Someone with work for a team.
#[derive(Debug, Default)]
struct Person {
    /// The number of their last turn that was started.
    last_start: u64,
    /// Their lanes that could start a turn now, each with the start since which its first task counts as
    /// waiting.
    ready: BTreeSet<(Rank, u64, Option<TopicId>)>,
    /// Their place in the team.
    ready_as: Option<Rank>,
}

impl Person {
    fn rank(&self) -> Option<Rank> {
        let ((priority, _, arrival), since, _) = self.ready.first()?;
        Some((*priority, self.last_start.max(*since), *arrival))
    }
}

#[derive(Debug)]
struct Waiting {
    place: Place,
    ticket: Ticket,
    /// The start of its team since which it counts as waiting.
    since: u64,
}

/// Rounds in which each person has one task.
#[derive(Debug, Default)]
struct Rounds {
    /// That of the task that was started last.
    present: u64,
    /// The last in which each person has one.
    last: HashMap<Arc<str>, u64>,
}

impl Rounds {
    fn next_of(&mut self, person: &Arc<str>) -> u64 {
        let next = self.last.get(person).map_or(0, |last| last + 1);
        let round = next.max(self.present);
        self.last.insert(person.clone(), round);
        round
    }
}

#[derive(Debug, Default)]
struct LaneWork {
    waiting: VecDeque<Waiting>,
    /// Of each class of urgency.
    rounds: BTreeMap<Priority, Rounds>,
    /// Its person, its place among their lanes, and since when its first task counts as waiting.
    ready_as: Option<(Arc<str>, Rank, u64)>,
    running: bool,
    /// How many calls of the running turn wait for other work: it holds no slot meanwhile.
    lent: usize,
    held_until: Option<Timestamp>,
}

impl LaneWork {
    fn startable(&self) -> Option<&Waiting> {
        if self.running || self.held_until.is_some() {
            return None;
        }
        self.waiting.front()
    }

    fn insert(&mut self, waiting: Waiting) {
        let behind = self.waiting.partition_point(|other| other.place < waiting.place);
        self.waiting.insert(behind, waiting);
    }

    fn rounds(&mut self, priority: Priority) -> &mut Rounds {
        self.rounds.entry(priority).or_default()
    }

    /// Before all of an urgency that ever arrived.
    fn front(&mut self, priority: Priority) -> Place {
        Place { priority, round: self.rounds(priority).present, arrival: 0 }
    }

    fn place_of(&self, task: &TaskId) -> Option<usize> {
        let mut waiting = self.waiting.iter();
        waiting.position(|waiting| waiting.ticket.task == *task)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.running && self.held_until.is_none()
    }
}

impl Schedule {
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether one more task may wait in a lane.
    pub fn admits(&self, lane: &Lane) -> Result<(), Full> {
        if self.waiting >= self.limits.waiting {
            return Err(Full::Queue(self.waiting));
        }
        let Some(team) = self.teams.get(&lane.team) else { return Ok(()) };
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
    pub fn push(&mut self, lane: &Lane, ticket: Ticket) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let since = self.waits_since(&lane.team);
        let has_rounds = lane.topic.is_none();
        self.change(lane, |work| {
            let priority = ticket.priority;
            let round = if has_rounds { work.rounds(priority).next_of(&ticket.person) } else { 0 };
            let place = Place { priority, round, arrival };
            work.insert(Waiting { place, ticket, since });
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
            .find(|(_, name)| self.teams.get(name).is_some_and(|team| team.running < per_team))?
            .clone();
        let team = self.teams.get_mut(&name)?;
        let person = team.people.get(&team.ready.first()?.1)?;
        let topic = person.ready.first()?.2.clone();
        let lane = Lane { team: name, topic };
        self.floor = self.floor.max(virtual_time);
        let mut started = None;
        self.change(&lane, |work| {
            started = work.waiting.pop_front();
            if let Some(Waiting { place, .. }) = &started {
                work.rounds(place.priority).present = place.round;
            }
            work.running = true;
        });
        let Ticket { task, person, .. } = started?.ticket;
        self.change_team(&lane.team, |team| team.start(&person, &lane.topic));
        self.count_waiting(&lane.team, -1);
        self.count_running(&lane.team, 1);
        // Something is charged at once, so that equals take turns while both only start.
        self.charge(&lane.team, 1);
        Some((lane, task))
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
    pub fn put_back(&mut self, lane: &Lane, ticket: Ticket, not_before: Option<Timestamp>) {
        let since = self.waits_since(&lane.team);
        self.change(lane, |work| {
            let place = work.front(ticket.priority);
            work.insert(Waiting { place, ticket, since });
        });
        self.count_waiting(&lane.team, 1);
        if let Some(until) = not_before {
            self.hold(lane, until);
        }
    }

    /// A waiting task becomes the first of its lane of those that are as urgent.
    pub fn bring_forward(&mut self, lane: &Lane, task: &TaskId) {
        self.change(lane, |work| {
            let found = work.place_of(task).and_then(|place| work.waiting.remove(place));
            if let Some(waiting) = found {
                let place = work.front(waiting.ticket.priority);
                work.insert(Waiting { place, ..waiting });
            }
        });
    }

    /// A turn of a lane has ended, well or not. After each of several failures in a row the lane rests for
    /// longer.
    pub fn ended(&mut self, lane: &Lane, failed: bool, now: Timestamp) {
        let failures = self.change_team(&lane.team, |team| {
            let last = team.last_turns.entry(lane.topic.clone()).or_default();
            last.failures = if failed { last.failures.saturating_add(1) } else { 0 };
            last.failures
        });
        if let Some(others) = failures.checked_sub(1) {
            let (first, longest) = FAILURE_PAUSES;
            self.hold(lane, now + doubling(first, longest, others));
        }
    }

    /// Whether a lane rests.
    pub fn is_held(&self, lane: &Lane) -> bool {
        self.lane(lane).is_some_and(|work| work.held_until.is_some())
    }

    /// No turn of the lane starts before a moment.
    pub fn hold(&mut self, lane: &Lane, until: Timestamp) {
        let mut former = None;
        self.change(lane, |work| former = work.held_until.replace(until));
        let key = |until| (until, lane.clone());
        reindex(&mut self.held, former.map(key), Some(key(until)));
    }

    /// A lane that was held may go on.
    pub fn unhold(&mut self, lane: &Lane) {
        let mut former = None;
        self.change(lane, |work| former = work.held_until.take());
        reindex(&mut self.held, former.map(|until| (until, lane.clone())), None);
    }

    /// No turn of the team starts before a moment.
    pub fn rest(&mut self, name: &TeamName, until: Timestamp) {
        let former = self.change_team(name, |team| team.rests_until.replace(until));
        let key = |until| (until, name.clone());
        reindex(&mut self.resting, former.map(key), Some(key(until)));
    }

    /// Takes a waiting task of a lane whose turn is running, to join that turn. Returns whether it
    /// could.
    pub fn take(&mut self, lane: &Lane, task: &TaskId) -> bool {
        let mut taken = None;
        self.change(lane, |work| {
            let place = work.place_of(task);
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
            if let Some(place) = work.place_of(task) {
                work.waiting.remove(place);
                removed = true;
                if place == 0 {
                    held = work.held_until.take();
                }
            }
        });
        reindex(&mut self.held, held.map(|until| (until, lane.clone())), None);
        if removed {
            self.count_waiting(&lane.team, -1);
        }
        removed
    }

    /// The waiting tasks of a lane, first come first.
    pub fn waiting_in(&self, lane: &Lane) -> Vec<TaskId> {
        self.lane(lane)
            .map(|work| {
                let waiting = work.waiting.iter();
                waiting.map(|waiting| waiting.ticket.task.clone()).collect()
            })
            .unwrap_or_default()
    }

    /// How many of its lane go before a waiting task, the running one included.
    pub fn ahead_of(&self, lane: &Lane, task: &TaskId) -> usize {
        let Some(work) = self.lane(lane) else { return 0 };
        let waiting = work.place_of(task).unwrap_or(work.waiting.len());
        waiting + usize::from(work.running)
    }

    pub fn is_running(&self, lane: &Lane) -> bool {
        self.lane(lane).is_some_and(|work| work.running)
    }

    /// When a resting lane or team may go on.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let lane = self.held.first().map(|(until, _)| *until);
        let team = self.resting.first().map(|(until, _)| *until);
        lane.into_iter().chain(team).min()
    }

    /// Waiting tasks and running turns of each team that has had any.
    pub fn teams(&self) -> impl Iterator<Item = (&TeamName, usize, usize)> {
        self.teams.iter().map(|(name, team)| (name, team.waiting, team.running))
    }

    fn lane(&self, lane: &Lane) -> Option<&LaneWork> {
        self.teams.get(&lane.team)?.lanes.get(&lane.topic)
    }

    /// Ends the rests of lanes and teams that are over.
    pub fn release(&mut self, now: Timestamp) {
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

    /// The start of a team since which a task counts as waiting that comes now.
    fn waits_since(&self, team: &TeamName) -> u64 {
        let starts = self.teams.get(team).map_or(0, |team| team.starts);
        starts.saturating_sub(REMEMBERED_STARTS)
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
            team.change_lane(&lane.topic, change);
        });
    }

    /// Changes a team and keeps its place among those that could start a turn.
    fn change_team<T>(&mut self, name: &TeamName, change: impl FnOnce(&mut TeamWork) -> T) -> T {
        let team = self.teams.entry(name.clone()).or_default();
        let before = team.is_ready().then_some(team.virtual_time);
        let changed = change(team);
        let after = team.is_ready().then_some(team.virtual_time);
        if before != after {
            let key = |virtual_time| (virtual_time, name.clone());
            reindex(&mut self.ready, before.map(key), after.map(key));
        }
        changed
    }
}

#[cfg(test)]
mod tests;
