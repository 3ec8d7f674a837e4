//! Queue: durable tasks, their leases, and the ends that no turn gives them.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use actix::{Actor, Addr, Context, Handler, MessageResult, SpawnHandle};
use tokio::sync::oneshot;

use crate::{
    budget::records::forget_costs,
    channel::{Channel, Deliver, Tell},
    clock::{Clock, Timestamp},
    continuations::Continuations,
    frame::{Body, ErrorBody, Frame},
    ids::{Ids, TaskId, TeamName},
    org::view::OrgView,
    store::{StoreHandle, records::Writes},
    task::{
        Kind, Lane, Task, Tasks, WaitReason,
        outcome::{Code, Ending},
        records::LaneKey,
    },
};

pub mod causes;
pub mod completion;
mod deadlines;
mod entries;
mod followers;
mod leases;
mod messages;
pub mod ordered_writes;
pub mod parking;
pub mod placement;
pub mod refusal;
pub mod schedule;
pub mod submit;
mod team_events;
#[cfg(test)]
mod tests;

pub use messages::*;

use causes::{Causes, Counts as CauseCounts};
use entries::{Entries, Entry, Stored, tell_stored};
use schedule::{Limits, Schedule, Ticket};

/// A message that waits longer than this is acknowledged with a fixed sentence.
pub const ACK_AFTER: Duration = Duration::from_millis(1_500);

/// The durable queue: it stores tasks before anyone is told, leases each to one turn at a time, and
/// gives an end to those that never get one from a turn.
pub struct Queue {
    store: StoreHandle,
    channel: Addr<Channel>,
    clock: Arc<dyn Clock>,
    ids: Ids,
    listeners: Listeners,
    schedule: Schedule,
    tasks: Entries,
    continuations: Continuations<Self>,
    /// By the task that they follow, in order of arrival.
    followers: HashMap<TaskId, BTreeSet<(u64, TaskId)>>,
    due: BTreeSet<(Timestamp, Due, u64, TaskId)>,
    alarm: Option<(Timestamp, SpawnHandle)>,
    draining: bool,
    draining_teams: HashSet<TeamName>,
    causes: Causes,
    /// Who waits for the end of a task.
    waiters: HashMap<TaskId, Vec<Waiter>>,
    /// Who waits for the end of all work of a team, and how much that is.
    team_waiters: Vec<(TeamName, usize, oneshot::Sender<usize>)>,
    /// Turns that could go on and have no slot yet: they come before new ones.
    returning: VecDeque<Waiter>,
    teams: OrgView,
    /// What the operator was told of: which team cannot work.
    told: HashSet<(TeamName, WaitReason)>,
    cures: Vec<Cure>,
    /// Counts leases and cures, to tell which came first.
    moment: u64,
    /// Lanes that find something in their inbox.
    inboxes: HashSet<LaneKey>,
    ended: HashMap<(TeamName, Kind, Ending), u64>,
    waited: HashMap<TeamName, Waited>,
    /// Tasks whose records are damaged, until they have their end.
    lost: HashSet<TaskId>,
}

/// What becomes due for a task in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Ack,
    Signal,
    Unpark,
    Deadline,
}

/// When something was last cured. Whoever was leased before may not have seen it.
#[derive(Debug)]
struct Cure {
    reason: WaitReason,
    team: Option<TeamName>,
    moment: u64,
}

/// A turn, or a request from outside, that waits for the end of a task.
#[derive(Debug)]
struct Waiter {
    lane: Option<Lane>,
    tell: oneshot::Sender<()>,
}

/// What a former process left to the queue.
#[derive(Debug, Default)]
pub struct Left {
    /// Tasks without an outcome.
    pub open: Tasks,
    /// Those among them whose records are damaged: they end.
    pub lost: HashSet<TaskId>,
    /// How much each open cause has led to.
    pub causes: Vec<(TaskId, CauseCounts)>,
    pub inboxes: HashSet<LaneKey>,
    /// Teams that start no turn.
    pub paused: Vec<TeamName>,
    /// Teams that kept dying, and until when they start no turn.
    pub resting: Vec<(TeamName, Timestamp)>,
    /// Teams that take no new work.
    pub draining: Vec<TeamName>,
    /// Which teams there are, now and later.
    pub teams: OrgView,
}

impl Queue {
    /// A queue with the open tasks of former processes, oldest first.
    pub fn new(
        store: StoreHandle,
        channel: Addr<Channel>,
        clock: Arc<dyn Clock>,
        ids: Ids,
        limits: Limits,
        listeners: Listeners,
        left: Left,
    ) -> Self {
        let mut open = left.open;
        open.sort_by_key(|task| task.arrival);
        ids.arrived(open.last().map_or(0, |newest| newest.arrival));
        let mut causes = Causes::default();
        let over = causes.recover(left.causes, &open);
        let roots: HashSet<&TaskId> = open.iter().map(|task| task.root()).collect();
        let mut paid_off = listeners.ledger.roots();
        paid_off.retain(|root| !roots.contains(root));
        let mut queue = Self {
            store,
            channel,
            clock,
            ids,
            listeners,
            schedule: Schedule::new(limits),
            tasks: Entries::default(),
            continuations: Continuations::default(),
            followers: HashMap::new(),
            due: BTreeSet::new(),
            alarm: None,
            draining: false,
            draining_teams: left.draining.into_iter().collect(),
            causes,
            waiters: HashMap::new(),
            team_waiters: Vec::new(),
            returning: VecDeque::new(),
            teams: left.teams,
            told: HashSet::new(),
            cures: Vec::new(),
            moment: 0,
            inboxes: left.inboxes,
            ended: HashMap::new(),
            waited: HashMap::new(),
            lost: left.lost,
        };
        for team in &left.paused {
            queue.schedule.pause(team, true);
        }
        for (team, until) in &left.resting {
            queue.schedule.rest(team, *until);
        }
        // Those that follow another come behind it.
        open.sort_by_key(|task| task.joined_to.is_some());
        for mut task in open {
            // A lease in the row is of a process that is gone.
            task.redelivered |= task.lease.take().is_some();
            if queue.follows(&mut task) {
                queue.expect(&task);
                queue.tasks.insert(Entry::new(task));
                continue;
            }
            match task.parked {
                Some(_) => queue.keep_parked(task),
                None => queue.wait(Entry::new(task)),
            }
        }
        let mut forgotten =
            over.iter().fold(Writes::new(), |writes, root| writes.delete::<CauseCounts>(root));
        for root in &paid_off {
            let costs = queue.listeners.ledger.forget_task(root);
            forgotten = forgotten.and(forget_costs(root, &costs));
        }
        if !forgotten.is_empty() {
            drop(queue.store.commit(forgotten));
        }
        queue
    }

    fn wait(&mut self, entry: Entry) {
        let task = &*entry.task;
        self.schedule.push(&task.lane, Ticket::from(task));
        if let Some(until) = task.not_before {
            self.schedule.hold(&task.lane, until);
        }
        self.expect(task);
        self.tasks.insert(entry);
    }

    /// Takes a task in. What could start at once is stored with its lease; the rest as waiting.
    fn accept(
        &mut self,
        Enqueue { mut task, writes }: Enqueue,
        stored: Option<Stored>,
        ctx: &mut Context<Self>,
    ) {
        task.arrival = self.ids.arrival();
        let id = task.id.clone();
        self.causes.opened(&task);
        self.wait(Entry { unwritten: Some(writes), stored, ..Entry::new(task) });
        self.dispatch(ctx);
        if let Some(entry) = self.tasks.get_mut(&id)
            && let Some(writes) = entry.unwritten.take()
        {
            let writes = writes.put(&*entry.task);
            let stored = entry.stored.take();
            let waiting = Waiting { task: Task::clone(&entry.task) };
            self.commit_task(id, writes, stored, ctx, |queue, _| {
                queue.listeners.waiting.do_send(waiting);
            });
        }
    }

    /// Takes in a task that is stored already.
    fn take_in(&mut self, task: Task) {
        self.causes.opened(&task);
        self.wait(Entry::new(task));
    }

    fn note_end(&mut self, task: Task, ending: Ending, was_running: bool) {
        self.unfollow(&task);
        if let Some((root, kept)) = self.causes.ended(&task) {
            let costs = self.listeners.ledger.forget_task(&root);
            let mut writes = forget_costs(&root, &costs);
            if kept {
                writes = writes.delete::<CauseCounts>(&root);
            }
            if !writes.is_empty() {
                drop(self.store.commit(writes));
            }
        }
        self.tell_waiters(&task.id, &task.lane.team);
        for listener in &self.listeners.ended {
            listener.do_send(Ended {
                task: task.id.clone(),
                kind: task.kind,
                team: task.lane.team.clone(),
            });
        }
        *self.ended.entry((task.lane.team.clone(), task.kind, ending)).or_default() += 1;
        self.listeners.progressed.do_send(Progressed::Ended { task, ending, was_running });
    }

    /// Tells of work that came from a channel.
    fn tell_progress(&self, task: &Task, progressed: fn(Origin) -> Progressed) {
        if let Some(origin) = Origin::of(task) {
            self.listeners.progressed.do_send(progressed(origin));
        }
    }

    /// Makes something durable and sends the frames in it.
    fn commit(&self, writes: Writes, ctx: &mut Context<Self>) {
        self.commit_then(writes, ctx, |_, _| {});
    }

    /// The same, and something that is done once it is durable.
    fn commit_then(
        &self,
        writes: Writes,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let committed = self.store.commit(writes);
        self.continuations.after(committed, ctx, |queue, result, ctx| match result {
            Ok(frames) => {
                queue.channel.do_send(Deliver { frames });
                then(queue, ctx);
            }
            Err(error) => tracing::error!(%error, "a change of the queue cannot be stored; after a restart it is as it was before"),
        });
    }

    /// The same for the row of a task, and something that is done once it is durable. A task that the store does not take
    /// ends.
    fn commit_task(
        &self,
        id: TaskId,
        writes: Writes,
        stored: Option<Stored>,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let committed = self.store.commit(writes);
        self.continuations.after(committed, ctx, move |queue, result, ctx| match result {
            Ok(frames) => {
                tell_stored(stored, Ok(()));
                queue.channel.do_send(Deliver { frames });
                then(queue, ctx);
            }
            Err(error) if error.is_of_the_request() => {
                if stored.is_some()
                    && let Some(entry) = queue.tasks.get_mut(&id)
                {
                    // Whoever asked hears it now, and gets no result.
                    entry.task.reply_to = None;
                }
                tell_stored(stored, Err(error.clone()));
                queue.unlease_followers(&id);
                queue.end_unstorable(&id, &error, false, ctx);
            }
            // The process is ending.
            Err(_) => {}
        });
    }
}

impl Actor for Queue {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        for id in std::mem::take(&mut self.lost) {
            self.end_lost(&id, ctx);
        }
        self.dispatch(ctx);
    }
}

impl Handler<Enqueue> for Queue {
    type Result = ();

    fn handle(&mut self, enqueue: Enqueue, ctx: &mut Self::Context) {
        if let Err(full) = self.schedule.admits(&enqueue.task.lane) {
            let task = enqueue.task;
            self.listeners.progressed.do_send(Progressed::Refused { task, full });
            return;
        }
        self.accept(enqueue, None, ctx);
    }
}

impl Handler<Finished> for Queue {
    type Result = ();

    fn handle(&mut self, finished: Finished, ctx: &mut Self::Context) {
        let Finished { task, ending, ran, follow_up, told } = finished;
        self.inboxes.extend(told);
        if ending == Ending::Done
            && let Some(entry) = self.tasks.get(&task)
        {
            // Whatever hindered its team is over.
            self.told.retain(|(team, _)| *team != entry.task.lane.team);
        }
        // Before the end is noted: a cause lives as long as it has an open task.
        if let Some(follow_up) = follow_up {
            self.take_in(*follow_up);
        }
        if let Some(entry) = self.tasks.remove(&task) {
            if !entry.joined {
                self.schedule.finished(&entry.task.lane, ran);
                // Whoever stops a turn does not want the next one later.
                if ending != Ending::Cancelled {
                    let (failed, now) = (ending != Ending::Done, self.clock.now());
                    self.schedule.ended(&entry.task.lane, failed, now);
                }
            }
            self.note_end(*entry.task, ending, true);
        }
        self.dispatch(ctx);
    }
}

impl Handler<Return> for Queue {
    type Result = ();

    fn handle(&mut self, Return { mut task, after, uncounted }: Return, ctx: &mut Self::Context) {
        // Only the present holder gives a task back.
        if !self.is_held(&task) {
            return;
        }
        if uncounted {
            task.attempts = task.attempts.saturating_sub(1);
        }
        task.redelivered = true;
        self.take_back(task, after, ctx);
    }
}

impl Handler<Unstorable> for Queue {
    type Result = ();

    fn handle(&mut self, Unstorable { task, error }: Unstorable, ctx: &mut Self::Context) {
        if self.is_held(&task) {
            self.end_unstorable(&task.id, &error, true, ctx);
        }
    }
}

impl Handler<Join> for Queue {
    type Result = ();

    fn handle(&mut self, Join { lane, behind, alone }: Join, ctx: &mut Self::Context) {
        let may_join = |task: &Task| task.may_steer(&behind) && (!alone || task.options.steers);
        let mut waiting = self.schedule.waiting_in(&lane).into_iter();
        let next = waiting.find_map(|id| {
            let entry = self.tasks.get(&id).filter(|entry| may_join(&entry.task))?;
            Some((id, entry.task.redelivered))
        });
        // One that has begun has a journal of its own to go on from.
        if !self.draining
            && let Some((id, false)) = next
            && self.schedule.take(&lane, &id)
        {
            self.lease(&id, true, ctx);
        }
    }
}

impl Handler<Cancel> for Queue {
    type Result = MessageResult<Cancel>;

    fn handle(&mut self, message: Cancel, ctx: &mut Self::Context) -> Self::Result {
        let Cancel { lane, queued, channel, .. } = &message;
        let (lane, queued) = (lane.clone(), *queued);
        let in_lane = |entry: &&Entry| entry.task.lease.is_some() && message.means(&entry.task);
        let others_run = message.behind.is_some()
            && !self.tasks.of_team(&lane.team).any(|entry| in_lane(&entry));
        let running = self.schedule.is_running(&lane) && !others_run;
        let mut waiting = self.schedule.waiting_in(&lane);
        waiting.retain(|id| self.tasks.get(id).is_some_and(|entry| message.means(&entry.task)));
        // A task between two attempts counts as running: it is what the person sees at work.
        let resting = !running
            && waiting
                .first()
                .and_then(|id| self.tasks.get(id))
                .is_some_and(|entry| entry.task.attempts > 0);
        let mut joined = 0;
        if running {
            self.listeners.stop.do_send(Stop { lane: lane.clone(), task: None, reason: None });
            for id in self.tasks.ids_of_team(&lane.team) {
                let entry = self.tasks.get_mut(&id);
                let Some(entry) = entry.filter(|entry| in_lane(&&**entry) && !entry.cancelled)
                else {
                    continue;
                };
                // A message that joined the turn waits for its own again, unless what waits ends too.
                entry.cancelled = queued || !entry.joined;
                joined += usize::from(!entry.cancelled);
            }
        }
        let ends = match (queued, resting) {
            (true, _) => waiting.len(),
            (false, true) => 1,
            (false, false) => 0,
        };
        // What was set aside is not in the way of others, but it is what the person sees at work.
        let parked = if running && !queued {
            Vec::new()
        } else {
            self.parked(|task, _| message.means(task))
        };
        let mut ending: Vec<TaskId> = waiting.into_iter().take(ends).collect();
        ending.extend(parked.into_iter().filter(|id| !ending.contains(id)).collect::<Vec<_>>());
        let with_them: Vec<_> = ending.iter().flat_map(|id| self.followers_of(id)).collect();
        if queued {
            ending.extend(with_them);
        } else {
            joined += with_them.len();
        }
        for id in &ending {
            self.schedule.remove(&lane, id);
            self.end(id, Ending::Cancelled, Code::Cancelled, ctx);
        }
        let stopped = running || !ending.is_empty();
        if let (Some(channel), false) = (channel, stopped) {
            let error = "nothing is running or queued in this topic";
            let body = Body::Error(ErrorBody::refusal("nothing_to_cancel", error));
            let frame = Frame { topic: None, ts: self.clock.now(), body };
            self.channel.do_send(Tell { channel: channel.clone(), frame });
        }
        let waiting = self.schedule.waiting_in(&lane).len() + joined;
        self.dispatch(ctx);
        MessageResult(Cancelled { stopped, waiting })
    }
}

impl Handler<Dismiss> for Queue {
    type Result = ();

    fn handle(&mut self, dismiss: Dismiss, _: &mut Self::Context) {
        self.listeners.dismiss.do_send(dismiss);
    }
}

impl Handler<Told> for Queue {
    type Result = ();

    fn handle(&mut self, Told(lane): Told, _: &mut Self::Context) {
        self.inboxes.insert(lane);
    }
}

impl Handler<Allow> for Queue {
    type Result = ();

    fn handle(&mut self, Allow { running }: Allow, ctx: &mut Self::Context) {
        self.schedule.allow(running);
        self.dispatch(ctx);
    }
}

impl Handler<Drain> for Queue {
    type Result = ();

    fn handle(&mut self, Drain: Drain, _: &mut Self::Context) {
        self.draining = true;
    }
}

impl Handler<Count> for Queue {
    type Result = MessageResult<Count>;

    fn handle(&mut self, Count: Count, _: &mut Self::Context) -> Self::Result {
        MessageResult(Counts {
            teams: self
                .schedule
                .teams()
                .map(|(name, waiting, running)| (name.clone(), waiting, running))
                .collect(),
            ended: self
                .ended
                .iter()
                .map(|((team, kind, ending), count)| (team.clone(), *kind, *ending, *count))
                .collect(),
            waited: self.waited.iter().map(|(team, waited)| (team.clone(), *waited)).collect(),
        })
    }
}
