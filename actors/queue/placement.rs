//! Placement: where a task stands that was just accepted, for whoever sent it.

use actix::{Handler, Message, ResponseFuture};
use tokio::sync::oneshot;

use super::{Placement, Queue};
use crate::{
    ids::TaskId,
    task::{Task, WaitReason},
};

/// Asks where an accepted task stands. Answered as soon as that is decided: a team at work may
/// take its time. None is a task that is not there: it ended, or was never accepted.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Option<Placement>")]
pub struct FindPlacement {
    pub task: TaskId,
}

/// Fact: a team at work knows what it does with a task that waits behind its turn.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Placed {
    pub(crate) task: TaskId,
    pub(crate) placement: Placement,
}

impl Queue {
    pub(super) fn placed(&mut self, id: &TaskId, placement: Placement) {
        let Some(entry) = self.tasks.get_mut(id) else { return };
        entry.placement = Some(placement);
        if let Some(asker) = entry.asker.take() {
            // They may have gone.
            let _gone = asker.send(placement);
        }
    }

    /// Where a task stands, as far as the team at work has no say in it.
    pub(super) fn standing(&self, task: &Task) -> Option<Placement> {
        if self.schedule.is_paused(&task.lane.team) {
            return Some(Placement::Waiting(WaitReason::Paused));
        }
        let waiting = self.schedule.waiting_in(&task.lane);
        let first = waiting.first().and_then(|first| self.tasks.get(first));
        if let Some(parked) = first.and_then(|first| first.task.parked.as_ref()) {
            return Some(Placement::Waiting(parked.reason));
        }
        (!self.schedule.is_running(&task.lane)).then_some(Placement::NextTurn)
    }
}

impl Handler<Placed> for Queue {
    type Result = ();

    fn handle(&mut self, Placed { task, placement }: Placed, _: &mut Self::Context) {
        let Some(entry) = self.tasks.get(&task).filter(|known| known.task.lease.is_none()) else {
            return;
        };
        if placement == Placement::Started {
            self.schedule.bring_forward(&entry.task.lane, &task);
        }
        self.placed(&task, placement);
    }
}

impl Handler<FindPlacement> for Queue {
    type Result = ResponseFuture<Option<Placement>>;

    fn handle(
        &mut self,
        FindPlacement { task }: FindPlacement,
        _: &mut Self::Context,
    ) -> Self::Result {
        let Some(entry) = self.tasks.get(&task) else { return Box::pin(std::future::ready(None)) };
        let parked = entry.task.parked.as_ref();
        let known = parked
            .map(|parked| Placement::Waiting(parked.reason))
            .or(entry.placement)
            .or_else(|| self.standing(&entry.task));
        if known.is_some() {
            return Box::pin(std::future::ready(known));
        }
        let (asker, told) = oneshot::channel();
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.asker = Some(asker);
        }
        Box::pin(async move { told.await.ok() })
    }
}
