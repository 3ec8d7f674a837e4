//! Deadlines of tasks in the queue: what is due when, an ack or an end, and how a task ends without a turn.

use std::time::Duration;

use actix::{AsyncContext, Context};

use super::{
    ACK_AFTER, Due, Placement, Progressed, Queue,
    entries::{Entry, tell_stored},
};
use crate::{
    channel::{Deliver, records::OutboxWrites},
    clock::{Timestamp, pause_until},
    frame::{Body, Frame},
    ids::TaskId,
    store::StoreError,
    task::{
        Task, ending,
        outcome::{Code, Ending, Outcome},
    },
};

impl Queue {
    /// Notes what will be due if the task goes on waiting.
    pub(super) fn expect(&mut self, task: &Task) {
        let is_expected = |due: &(_, Due, _, _)| due.1 != Due::Ack || !task.acked;
        self.due.extend(due_of(task).filter(is_expected));
    }

    pub(super) fn expect_no_more(&mut self, task: &Task) {
        for due in due_of(task) {
            self.due.remove(&due);
        }
    }

    /// Gives a task an end that no turn gave it.
    pub(super) fn end(&mut self, id: &TaskId, ending: Ending, code: Code, ctx: &mut Context<Self>) {
        self.end_for(id, ending, code, None, ctx);
    }

    /// Ends a task whose record is damaged: whoever asked for it is told that it is lost.
    pub(super) fn end_lost(&mut self, id: &TaskId, ctx: &mut Context<Self>) {
        self.leave_schedule(id);
        let reason = "its record was damaged in the store and it is lost; please ask for it again";
        self.end_for(id, Ending::Dead, Code::Internal, Some(reason), ctx);
    }

    /// Takes a task out of its lane, whether it waits or runs there.
    fn leave_schedule(&mut self, id: &TaskId) {
        let Some(Entry { task, joined, .. }) = self.tasks.get(id) else { return };
        if task.lease.is_none() {
            self.schedule.remove(&task.lane, id);
        } else if !joined {
            self.schedule.finished(&task.lane, Duration::ZERO);
        }
    }

    /// Ends a task of which the store does not take what its place in the queue or its end would write: its lane goes on.
    pub(super) fn end_unstorable(
        &mut self,
        id: &TaskId,
        error: &StoreError,
        was_running: bool,
        ctx: &mut Context<Self>,
    ) {
        let Some(entry) = self.tasks.get(id) else { return };
        let lane = &entry.task.lane;
        tracing::error!(task = %id, team = %lane.team, %error, "a task cannot be stored, and fails");
        if was_running {
            // What ends here has waited last, for whoever counts what runs.
            self.tell_progress(&entry.task, Progressed::Returned);
        }
        self.leave_schedule(id);
        let reason = format!("it could not be stored: {error}");
        self.end_for(id, Ending::Failed, Code::Internal, Some(&reason), ctx);
    }

    /// The same, for a reason that whoever asked for it is told.
    pub(super) fn end_for(
        &mut self,
        id: &TaskId,
        ending: Ending,
        code: Code,
        reason: Option<&str>,
        ctx: &mut Context<Self>,
    ) {
        let Some(Entry { mut task, unwritten, stored, .. }) = self.tasks.remove(id) else { return };
        self.expect_no_more(&task);
        let message = match ending {
            Ending::Cancelled => reason.map(ToOwned::to_owned),
            Ending::Expired => Some(match &task.parked {
                Some(parked) => {
                    format!("the deadline passed while it waited ({})", parked.reason.as_str())
                }
                None => "the deadline passed before its turn came".to_owned(),
            }),
            _ if reason.is_some() => reason.map(ToOwned::to_owned),
            _ => Some(format!(
                "given up after {} attempts: the process or the team stopped each time",
                task.attempts
            )),
        };
        let outcome =
            Outcome { code: Some(code), message, ..Outcome::new(ending, self.clock.now()) };
        if ending == Ending::Dead {
            tracing::error!(task = %task.id, team = %task.lane.team, code = code.as_str(), "task given up; `hivewright tasks retry` tries it again");
        }
        let was_parked = task.parked.clone();
        let closed = ending::close(&mut task, outcome, &self.ids, &self.teams);
        let mut writes = unwritten.unwrap_or_default().and(closed.writes);
        if self.has_no_asker(&task) {
            let at = self.clock.now();
            writes = writes.put(&ending::results::undeliverable(&task, &self.ids, at));
        }
        let committed = self.store.commit(writes);
        self.inboxes.extend(closed.told);
        let follow_up = closed.follow_up;
        task.parked = was_parked;
        // Whoever waits for the end reads it from the store.
        self.continuations.after(committed, ctx, move |queue, result, ctx| {
            match result {
                Ok(frames) => {
                    tell_stored(stored, Ok(()));
                    queue.channel.do_send(Deliver { frames });
                }
                // The row stays as it was, and the next start tries once more.
                Err(error) => {
                    tracing::error!(task = %task.id, team = %task.lane.team, %error, "the end of a task cannot be stored; the next start tries again");
                }
            }
            if let Some(follow_up) = follow_up {
                queue.take_in(follow_up);
            }
            queue.note_end(*task, ending, false);
            queue.dispatch(ctx);
        });
    }

    /// What a task waits for that is not simply behind others of its lane, for whoever sent it.
    fn waits_for(&self, task: &Task) -> Option<&'static str> {
        let leader = task.joined_to.as_ref().and_then(|leader| self.tasks.get(leader));
        let task = leader.map_or(task, |leader| &leader.task);
        if let Some(parked) = &task.parked {
            return Some(parked.reason.words());
        }
        if task.not_before.is_some() {
            return Some("the last attempt failed, the next one follows");
        }
        if let Some(Placement::Waiting(reason)) = self.standing(task) {
            return Some(reason.words());
        }
        if self.schedule.is_held(&task.lane) {
            return Some("the last turn failed, the next one follows");
        }
        if self.draining {
            return Some("the service stops, and goes on with it at its next start");
        }
        let is_first = self.schedule.ahead_of(&task.lane, &task.id) == 0;
        is_first.then_some("as many turns as may run at once are running")
    }

    /// A waiting task is told that it waits.
    pub(super) fn acknowledge(&mut self, id: &TaskId, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let waits_for = self.tasks.get(id).and_then(|entry| self.waits_for(&entry.task));
        let Some(entry) = self.tasks.get_mut(id) else { return };
        let task = &mut entry.task;
        let Some(source) = task.source.clone() else { return };
        let (Some(message), false, None) = (&source.message, task.acked, &task.lease) else {
            return;
        };
        // 0 is a message whose turn runs.
        let ahead = (self.schedule.ahead_of(&task.lane, id) as u64).max(1);
        let mut ack = ending::ack(task, message, "", ahead);
        let team = task.lane.team.as_str();
        let topic = source.topic.as_ref().map_or(team, |topic| &topic.name);
        ack.content = match waits_for {
            Some(reason) => format!("Waiting: {reason}."),
            None if ahead == 1 => format!("Queued behind 1 message in \"{topic}\"."),
            None => format!("Queued behind {ahead} messages in \"{topic}\"."),
        };
        task.acked = true;
        let frame = Frame { topic: source.topic.clone(), ts: now, body: Body::Ack(ack) };
        let writes = entry.unwritten.take().unwrap_or_default().put(&*entry.task);
        self.commit(writes.frame(&source.channel, frame), ctx);
    }

    /// Sets the alarm for what is due next.
    pub(super) fn arm(&mut self, ctx: &mut Context<Self>) {
        let due = self.due.first().map(|(at, ..)| *at);
        let Some(next) = due.into_iter().chain(self.schedule.wakes_at()).min() else { return };
        if let Some((at, _)) = self.alarm
            && at <= next
        {
            return;
        }
        if let Some((_, handle)) = self.alarm.take() {
            ctx.cancel_future(handle);
        }
        let handle = ctx.run_later(pause_until(next, self.clock.now()), |queue, ctx| {
            queue.alarm = None;
            queue.ring(ctx);
        });
        self.alarm = Some((next, handle));
    }

    pub(super) fn ring(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        while let Some((at, ..)) = self.due.first()
            && *at <= now
        {
            let Some((at, due, _, id)) = self.due.pop_first() else { break };
            match due {
                Due::Ack => self.acknowledge(&id, ctx),
                Due::Signal => self.signal_again(&id, at, ctx),
                Due::Unpark => {
                    if self.tasks.get(&id).is_some_and(|entry| entry.task.parked.is_some()) {
                        self.unpark(&id, ctx);
                    }
                }
                Due::Deadline => {
                    let Some(Entry { task, .. }) = self.tasks.get(&id) else { continue };
                    let follows = task.joined_to.is_some() && task.lease.is_none();
                    let is_aside = task.parked.is_some() || follows;
                    if self.schedule.remove(&task.lane, &id) || is_aside {
                        self.end(&id, Ending::Expired, Code::Deadline, ctx);
                    }
                }
            }
        }
        self.dispatch(ctx);
    }
}

/// What may become due for a task, and when; of one moment, first come first.
fn due_of(task: &Task) -> impl Iterator<Item = (Timestamp, Due, u64, TaskId)> {
    let until = task.parked.as_ref().and_then(|parked| parked.until);
    let moments =
        [(task.deadline_at, Due::Deadline), (task.created_at + ACK_AFTER, Due::Ack)].into_iter();
    let moments = moments.chain(until.map(|until| (until, Due::Unpark)));
    moments.map(|(at, due)| (at, due, task.arrival, task.id.clone()))
}
