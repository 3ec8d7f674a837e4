//! Leases: who works on a task, and what becomes of it when they don't finish.

use std::{cmp::Reverse, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, Handler, ResponseFuture, WrapFuture};

use super::{
    Due, Leased, Orphaned, Placement, Progressed, Queue, Taken, UncountLeased, entries::Entry,
    schedule::Ticket, team_events::TeamEvent,
};
use crate::{
    channel::Recheck,
    clock::Timestamp,
    ids::{LeaseId, TaskId},
    notice::Notice,
    org::roster::{Availability, Roster},
    storage::{Storage, StorageError},
    store::records::Writes,
    task::{
        Kind, MAX_ATTEMPTS, Task, ending,
        outcome::{Code, Ending},
        records::{self as tasks, LaneKey},
    },
};

/// A lease that its team has not taken for this long is told again.
const LEASE_SIGNAL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long after a store that cannot be read it is asked again what a team left behind.
const READ_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// What the store has of a task whose team died.
pub(super) enum OrphanRow {
    Read { task: Option<Box<Task>>, result: Option<Box<Task>> },
    Damaged,
}

impl OrphanRow {
    fn read(storage: &dyn Storage, id: &TaskId) -> Result<Self, StorageError> {
        let read = || {
            let result = tasks::find(storage, &ending::results::result_of(id))?;
            let task = tasks::find(storage, id)?;
            Ok(Self::Read { task: task.map(Box::new), result: result.map(Box::new) })
        };
        match read() {
            Err(StorageError::Damaged { .. }) => Ok(Self::Damaged),
            read => read,
        }
    }
}

impl Handler<Taken> for Queue {
    type Result = ();

    fn handle(&mut self, Taken { task, lease }: Taken, _: &mut Self::Context) {
        let Some(entry) = self.tasks.get_mut(&task) else { return };
        if entry.task.lease.as_ref() == Some(&lease)
            && let Some(at) = entry.signal.take()
        {
            self.due.remove(&(at, Due::Signal, entry.task.arrival, task));
        }
    }
}

impl Handler<UncountLeased> for Queue {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, UncountLeased: UncountLeased, _: &mut Self::Context) -> Self::Result {
        let leased = self.tasks.all().map(|entry| &entry.task);
        let leased = leased.filter_map(|task| Some((task.id.clone(), task.lease.clone()?)));
        let leased: Vec<(TaskId, LeaseId)> = leased.collect();
        let store = self.store.clone();
        Box::pin(async move {
            // The rows know more than the queue, once what turns have handed in is written.
            let _written = store.commit(Writes::new()).await;
            let rows = store.read(move |storage| {
                let rows = leased.into_iter().map(|(id, lease)| (tasks::find(storage, &id), lease));
                rows.map(|(row, lease)| Ok((row?, lease))).collect::<Result<Vec<_>, _>>()
            });
            let rows = rows.await.unwrap_or_default().into_iter();
            let open = rows.filter_map(|(row, lease)| Some((row?, lease)));
            let commits = open.filter(|(row, _)| row.outcome.is_none()).map(|(mut row, lease)| {
                row.attempts = row.attempts.saturating_sub(1);
                // A turn that ends meanwhile has the last word.
                store.commit(Writes::new().under_lease(&row.id.clone(), &lease).put(&row))
            });
            for committed in commits.collect::<Vec<_>>() {
                if let Err(error) = committed.await {
                    tracing::warn!(%error, "an attempt that the stop cut off counts as one of the task");
                }
            }
        })
    }
}

impl Queue {
    /// Leases all that can start.
    pub(super) fn dispatch(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        self.give_slots_back();
        // Also while nothing starts: a rest that is over is not waited for again.
        self.schedule.release(now);
        while !self.draining
            && let Some((lane, id)) = self.schedule.next(now)
        {
            let Some(entry) = self.tasks.get(&id) else {
                self.schedule.finished(&lane, Duration::ZERO);
                continue;
            };
            let (ending, code, reason) = if entry.task.deadline_at <= now {
                (Ending::Expired, Code::Deadline, None)
            } else if self.has_no_asker(&entry.task) {
                let reason = "the team that asked for it is gone";
                (Ending::Cancelled, Code::Cancelled, Some(reason))
            } else if entry.task.attempts >= MAX_ATTEMPTS {
                (Ending::Dead, Code::Crash, None)
            } else {
                self.lease(&id, false, ctx);
                continue;
            };
            self.schedule.finished(&lane, Duration::ZERO);
            self.end_for(&id, ending, code, reason, ctx);
        }
        self.arm(ctx);
    }

    /// It is the result of work whose asker is gone.
    pub(super) fn has_no_asker(&self, task: &Task) -> bool {
        task.kind == Kind::Result && self.teams.availability(&task.team()) == Availability::Gone
    }

    pub(super) fn lease(&mut self, id: &TaskId, joins: bool, ctx: &mut Context<Self>) {
        let lease = self.ids.lease();
        let now = self.clock.now();
        let Some(entry) = self.tasks.get_mut(id) else { return };
        self.moment += 1;
        entry.joined = joins;
        entry.leased_at = Some(now);
        entry.leased = self.moment;
        entry.task.lease = Some(lease.clone());
        entry.task.attempts += 1;
        entry.task.not_before = None;
        let mut writes = entry.unwritten.take().unwrap_or_default().put(&*entry.task);
        let stored = entry.stored.take();
        let task = Task::clone(&entry.task);
        if !joins {
            writes = self.lease_followers(id, writes);
        }
        let waited = self.waited.entry(task.lane.team.clone()).or_default();
        waited.add(now.since(task.created_at));
        self.expect_no_more(&task);
        let placement = if joins { Placement::CurrentTurn } else { Placement::Started };
        self.placed(id, placement);
        self.commit_task(id.clone(), writes, stored, ctx, move |queue, ctx| {
            queue.leased(task, lease, joins, ctx);
        });
    }

    /// A lease is stored: the team gets it, unless something came between.
    fn leased(&mut self, task: Task, lease: LeaseId, joins: bool, ctx: &mut Context<Self>) {
        if !self.is_held(&task) {
            return;
        }
        let company = self.company_of(&task.id);
        let started = company.iter().map(|(task, _)| task).chain([&task]);
        for task in started {
            self.tell_progress(task, Progressed::Started);
        }
        let is_cancelled = self.tasks.get(&task.id).is_some_and(|entry| entry.cancelled);
        let is_paused = self.schedule.is_paused(&task.lane.team);
        if is_cancelled || is_paused {
            for (task, _) in company {
                let attempts = task.attempts.saturating_sub(1);
                self.take_back(Task { attempts, ..task }, None, ctx);
            }
            let uncounted = u32::from(!is_cancelled);
            let attempts = task.attempts.saturating_sub(uncounted);
            return self.take_back(Task { attempts, ..task }, None, ctx);
        }
        // Its turn shows what is in there.
        let inbox = !joins && self.inboxes.remove(&task.lane_key());
        self.expect_taken(&task);
        self.listeners.leased.do_send(Leased { task, lease, joins, inbox, company });
        self.arm(ctx);
    }

    /// The team of a lease is signalled again if it does not take it.
    fn expect_taken(&mut self, task: &Task) {
        let at = self.clock.now() + LEASE_SIGNAL_TIMEOUT;
        if let Some(entry) = self.tasks.get_mut(&task.id) {
            entry.signal = Some(at);
            self.due.insert((at, Due::Signal, task.arrival, task.id.clone()));
        }
    }

    /// A lease that nobody has taken for a while is told again.
    pub(super) fn signal_again(&mut self, id: &TaskId, at: Timestamp, ctx: &mut Context<Self>) {
        let Some(entry) = self.tasks.get_mut(id) else { return };
        let (true, Some(lease)) = (entry.signal == Some(at), entry.task.lease.clone()) else {
            return;
        };
        let (task, joins) = (Task::clone(&entry.task), entry.joined);
        let done = format!(
            "A task was not taken up for {} s: its team was signalled again.",
            LEASE_SIGNAL_TIMEOUT.as_secs()
        );
        let (team, now) = (&task.lane.team, self.clock.now());
        let notice = Notice::stall(&self.ids, team, Some(id), done, now);
        self.commit(Writes::new().put(&notice), ctx);
        self.expect_taken(&task);
        let company = self.company_of(id);
        self.listeners.leased.do_send(Leased { task, lease, joins, inbox: true, company });
    }

    /// A task is under the lease that it was given out with.
    pub(super) fn is_held(&self, task: &Task) -> bool {
        let known = self.tasks.get(&task.id);
        task.lease.is_some() && known.is_some_and(|entry| entry.task.lease == task.lease)
    }

    /// Sees to tasks whose team died. The team may have stored something and died before it could say so: what it
    /// handed in before that is written once the barrier is. Until all is read nothing waits again, since what has
    /// ended would be done twice.
    pub(super) fn take_in_orphans(
        &mut self,
        orphans: Vec<Task>,
        pause: Duration,
        uncounted: bool,
        ctx: &mut Context<Self>,
    ) {
        let ids: Vec<TaskId> = orphans.iter().map(|task| task.id.clone()).collect();
        let barrier = self.store.commit(Writes::new());
        let rows = self.store.read(move |storage| {
            ids.iter().map(|id| OrphanRow::read(storage, id)).collect::<Result<Vec<_>, _>>()
        });
        let read = async move {
            barrier.await.ok()?;
            rows.await.ok()
        };
        ctx.spawn(read.into_actor(self).map(move |rows, queue, ctx| {
            let Some(rows) = rows else {
                ctx.run_later(READ_RETRY_PAUSE, move |queue, ctx| {
                    queue.take_in_orphans(orphans, pause, uncounted, ctx);
                });
                return;
            };
            for (orphan, row) in orphans.into_iter().zip(rows) {
                queue.adopt(orphan, row, pause, uncounted, ctx);
            }
            queue.dispatch(ctx);
        }));
    }

    /// Sees to a task whose team died: it has its outcome already, or it waits again.
    pub(super) fn adopt(
        &mut self,
        mut orphan: Task,
        row: OrphanRow,
        pause: Duration,
        uncounted: bool,
        ctx: &mut Context<Self>,
    ) {
        if !self.is_held(&orphan) {
            return;
        }
        let OrphanRow::Read { mut task, result } = row else {
            self.end_lost(&orphan.id, ctx);
            return;
        };
        if uncounted {
            let tasks = task.as_deref_mut().into_iter().chain([&mut orphan]);
            tasks.for_each(|task| task.attempts = task.attempts.saturating_sub(1));
        }
        // Whoever said that it is finished has said what follows.
        if let Some(result) = result
            && result.outcome.is_none()
            && !self.tasks.contains(&result.id)
        {
            self.take_in(*result);
        }
        // Frames that were stored but not sent.
        if let Some(source) = &orphan.source {
            self.channel.do_send(Recheck { channel: source.channel.clone() });
        }
        let task = task.map_or(orphan, |task| *task);
        match &task.outcome {
            Some(outcome) => {
                let ending = outcome.ending;
                let asker = task.reply_to.as_ref();
                self.inboxes.extend(asker.map(|lane| LaneKey::new(lane, task.asker)));
                if self.tasks.remove(&task.id).is_some_and(|entry| !entry.joined) {
                    self.schedule.finished(&task.lane, Duration::ZERO);
                }
                self.note_end(task, ending, true);
            }
            None => {
                let task = Task { redelivered: true, ..task };
                self.take_back(task, Some(pause), ctx);
            }
        }
    }

    /// A task waits again, in front of its lane.
    pub(super) fn take_back(
        &mut self,
        task: Task,
        after: Option<Duration>,
        ctx: &mut Context<Self>,
    ) {
        let until = after.map(|pause| self.clock.now() + pause);
        let mut task = Task { not_before: until, lease: None, ..task };
        if !self.tasks.get(&task.id).is_some_and(|entry| entry.joined) {
            self.schedule.finished(&task.lane, Duration::ZERO);
        }
        // Its turn may not have come to show what was in the inbox.
        self.inboxes.insert(task.lane_key());
        self.tell_progress(&task, Progressed::Returned);
        if let Some(entry) = self.tasks.get_mut(&task.id)
            && entry.cancelled
        {
            let id = task.id.clone();
            let reason = entry.reason.take();
            *entry.task = task;
            self.end_for(&id, Ending::Cancelled, Code::Cancelled, reason.as_deref(), ctx);
            return self.dispatch(ctx);
        }
        if self.follows(&mut task) {
            task.not_before = None;
        } else {
            self.schedule.put_back(&task.lane, Ticket::from(&task), until);
        }
        self.expect(&task);
        self.commit(Writes::new().put(&task), ctx);
        self.tasks.insert(Entry::new(task));
        self.dispatch(ctx);
    }
}

impl Handler<Orphaned> for Queue {
    type Result = ();

    fn handle(&mut self, Orphaned { team, pause, uncounted }: Orphaned, ctx: &mut Self::Context) {
        self.schedule.rest(&team, self.clock.now() + pause);
        if !uncounted {
            self.tell_askers(&team, TeamEvent::Crashed, ctx);
        }
        let mut orphans: Vec<Task> = self
            .tasks
            .of_team(&team)
            .filter(|entry| entry.task.lease.is_some())
            .map(|entry| Task::clone(&entry.task))
            .collect();
        // Each goes to the front of its lane: the first of them last.
        orphans.sort_by_key(|task| Reverse(task.arrival));
        self.take_in_orphans(orphans, pause, uncounted, ctx);
    }
}
