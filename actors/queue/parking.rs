//! Parking: turns that were set aside. They hold no slot and no lane, and go on from their journal.

use actix::{Context, Handler, Message};

use super::{Due, Entry, Progressed, Queue};
use crate::{
    approvals::{Resolved, record::Status},
    clock::Timestamp,
    ids::{TaskId, TeamName},
    policy::class::Kind,
    store::records::Writes,
    task::{Lane, Parked, Task, WaitReason},
};

/// A turn sets its task aside until something outside has happened. No attempt is counted.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Park {
    /// The task, as the turn left it.
    pub task: Task,
    /// What it waits for.
    pub reason: WaitReason,
    /// It goes on then at the latest.
    pub until: Option<Timestamp>,
}

/// What a parked task waited for has happened.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Unpark {
    /// The task.
    pub task: TaskId,
}

/// All tasks that wait for this may go on.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct UnparkAll {
    /// What they wait for.
    pub reason: WaitReason,
}

/// Whether a team works, and takes work.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct SetState {
    /// The team.
    pub team: TeamName,
    /// It starts no turn.
    pub paused: bool,
    /// It takes no new work from other teams.
    pub draining: bool,
}

impl Queue {
    /// A task that a former process had set aside.
    pub(super) fn keep_parked(&mut self, task: Task) {
        self.expect(&task);
        self.tasks.insert(task.id.clone(), Entry::new(task));
    }

    /// The tasks of a lane whose turns were set aside, first come first.
    pub(super) fn parked_in(&self, lane: &Lane) -> Vec<TaskId> {
        let mut parked: Vec<&Task> = self
            .tasks
            .values()
            .map(|entry| &entry.task)
            .filter(|task| task.parked.is_some() && task.lane == *lane)
            .collect();
        parked.sort_by_key(|task| task.arrival);
        parked.into_iter().map(|task| task.id.clone()).collect()
    }

    fn unpark(&mut self, id: &TaskId, ctx: &mut Context<Self>) {
        let Some(entry) = self.tasks.get_mut(id) else {
            return;
        };
        if entry.task.parked.take().is_none() {
            // It is on its way to be set aside: then it goes on at once.
            entry.unparked = true;
            return;
        }
        let task = entry.task.clone();
        self.schedule
            .push(&task.lane, task.id.clone(), task.priority);
        self.expect(&task);
        let committed = self.store.commit(Writes::new().task(&task));
        self.deliver(committed, ctx);
    }
}

impl Handler<Park> for Queue {
    type Result = ();

    fn handle(&mut self, message: Park, ctx: &mut Self::Context) {
        let Park {
            task,
            reason,
            until,
        } = message;
        if !task
            .lease
            .as_ref()
            .is_some_and(|lease| self.holds(&task.id, lease))
        {
            return;
        }
        let Some(entry) = self.tasks.get(&task.id) else {
            return;
        };
        let mut task = Task {
            attempts: task.attempts.saturating_sub(1),
            redelivered: true,
            ..task
        };
        if entry.cancelled || entry.unparked {
            return self.take_back(task, None, ctx);
        }
        if !entry.joined {
            self.schedule
                .finished(&task.lane, std::time::Duration::ZERO);
        }
        task.lease = None;
        task.parked = Some(Parked {
            reason,
            since: self.clock.now(),
            until,
        });
        self.listeners
            .progressed
            .do_send(Progressed::Returned(task.clone()));
        self.expect(&task);
        let committed = self.store.commit(Writes::new().task(&task));
        self.tasks.insert(task.id.clone(), Entry::new(task));
        self.deliver(committed, ctx);
        self.dispatch(ctx);
    }
}

impl Handler<Unpark> for Queue {
    type Result = ();

    fn handle(&mut self, Unpark { task }: Unpark, ctx: &mut Self::Context) {
        self.unpark(&task, ctx);
        self.dispatch(ctx);
    }
}

impl Handler<Resolved> for Queue {
    type Result = ();

    fn handle(&mut self, Resolved(approval): Resolved, ctx: &mut Self::Context) {
        if let Some(task) = &approval.task {
            self.unpark(task, ctx);
        }
        // One of those who wait for money has asked for all.
        if approval.kind == Kind::Budget && approval.status != Status::Denied {
            let reason = WaitReason::Budget;
            self.handle(UnparkAll { reason }, ctx);
        }
        self.dispatch(ctx);
    }
}

impl Handler<UnparkAll> for Queue {
    type Result = ();

    fn handle(&mut self, UnparkAll { reason }: UnparkAll, ctx: &mut Self::Context) {
        let waiting: Vec<TaskId> = self
            .tasks
            .values()
            .filter(|entry| {
                let parked = entry.task.parked.as_ref();
                parked.is_some_and(|parked| parked.reason == reason)
            })
            .map(|entry| entry.task.id.clone())
            .collect();
        for id in waiting {
            self.unpark(&id, ctx);
        }
        self.dispatch(ctx);
    }
}

impl Handler<SetState> for Queue {
    type Result = ();

    fn handle(&mut self, message: SetState, ctx: &mut Self::Context) {
        let SetState {
            team,
            paused,
            draining,
        } = message;
        self.schedule.pause(&team, paused);
        if draining {
            self.draining_teams.insert(team);
        } else {
            self.draining_teams.remove(&team);
        }
        self.dispatch(ctx);
    }
}

/// When a parked task goes on by itself.
pub(super) fn due_of(task: &Task) -> Option<(Timestamp, Due, u64, TaskId)> {
    let until = task.parked.as_ref()?.until?;
    Some((until, Due::Unpark, task.arrival, task.id.clone()))
}

impl Queue {
    /// A parked task has waited for as long as it may.
    pub(super) fn waited_enough(&mut self, id: &TaskId, ctx: &mut Context<Self>) {
        if self
            .tasks
            .get(id)
            .is_some_and(|entry| entry.task.parked.is_some())
        {
            self.unpark(id, ctx);
        }
    }
}
