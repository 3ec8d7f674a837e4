//! Leased tasks: what the queue has put into the hands of a turn.

use tokio::time::Instant;

use crate::{
    ids::{LeaseId, TopicId, TurnId},
    store::records::Writes,
    task::Task,
};

/// Why a task is cancelled, for whoever asked for the work.
pub(super) struct Cancellation {
    pub(super) reason: Option<String>,
}

/// A leased task in the hands of a turn.
#[derive(Clone)]
pub(super) struct LeasedTask {
    pub(super) task: Task,
    pub(super) lease: LeaseId,
    pub(super) turn: TurnId,
    pub(super) began: Instant,
}

impl LeasedTask {
    pub(super) fn key(&self) -> SessionKey {
        SessionKey { topic: self.task.lane.topic.clone(), lease: self.lease.clone() }
    }

    /// Its turn begins with this lease. One that goes on has the name of an earlier one.
    pub(super) fn begins(&self) -> bool {
        self.turn == TurnId::of(&self.lease)
    }

    /// A commit that is made only while the lease is good.
    pub(super) fn guard(&self) -> Writes {
        Writes::new().under_lease(&self.task.id, &self.lease)
    }
}

/// Names one session of a team. By its lease: a turn that goes on later keeps its id.
#[derive(Clone, Debug)]
pub(super) struct SessionKey {
    pub(super) topic: Option<TopicId>,
    pub(super) lease: LeaseId,
}
