//! Steering: messages that arrive while a turn runs, and those that are taken back.

use super::{
    SessionContext,
    session::Session,
    turn::{Input, Stop},
};
use crate::{
    briefing::QueueMode,
    ids::TaskId,
    queue::{self, ACK_AFTER, Leased, Placement, placement::Placed},
    task::{Kind, Task},
};

impl Session {
    /// Messages of a person are read in it.
    fn reads_messages(&self) -> bool {
        self.leased.task.kind != Kind::Compact
    }

    /// A message may still join it.
    pub(super) fn is_joinable(&self) -> bool {
        !self.turn.ended && self.reads_messages()
    }

    /// A message enters the turn. It is acknowledged as soon as any other would be.
    pub(super) fn join(&mut self, leased: Leased, ctx: &mut SessionContext<'_>) {
        let Leased { task, lease, .. } = leased;
        self.joined.push((task.clone(), lease));
        // Leases that were stored together may arrive in any order.
        self.joined.sort_by_key(|(task, _)| task.arrival);
        self.expect_ack_of_joined(&task, ctx);
        self.hear(Input::Steered(Box::new(task)), ctx);
    }

    /// Messages that joined it before it was set aside are acknowledged too.
    pub(super) fn expect_joined_acks(&self, ctx: &mut SessionContext<'_>) {
        for (task, _) in self.joined.iter().filter(|(task, _)| !task.acked) {
            self.expect_ack_of_joined(task, ctx);
        }
    }

    fn expect_ack_of_joined(&self, task: &Task, ctx: &mut SessionContext<'_>) {
        let (id, pause) = (task.id.clone(), (task.created_at + ACK_AFTER).since(self.cx.now()));
        self.later(pause, ctx, move |session, ctx| session.acknowledge_joined(&id, ctx));
    }

    /// Decides what a message does that waits behind the turn.
    pub(super) fn place(&mut self, task: Task, ctx: &mut SessionContext<'_>) {
        let behind = self.caller.audience();
        let mode = if !task.may_steer(&behind) || !self.reads_messages() {
            QueueMode::Queue
        } else if task.options.steers {
            QueueMode::Steer
        } else {
            self.brief.queue_mode
        };
        let queue = &self.cx.queue;
        match mode {
            QueueMode::Steer if !self.turn.ended => {
                let alone = task.options.steers;
                queue.do_send(queue::Join { lane: task.lane, behind, alone });
            }
            QueueMode::Interrupt => {
                queue.do_send(Placed { task: task.id, placement: Placement::Started });
                self.stop(Stop::Interrupted, ctx);
            }
            QueueMode::Queue | QueueMode::Steer => {
                queue.do_send(Placed { task: task.id, placement: Placement::NextTurn });
            }
        }
    }

    /// Cancels a task, any if none is named: the turn, or a message that joined it.
    pub(super) fn cancel(
        &mut self,
        task: Option<&TaskId>,
        reason: Option<String>,
        ctx: &mut SessionContext<'_>,
    ) {
        let is_meant = |of: &Task| task.is_none_or(|task| of.id == *task);
        if is_meant(&self.leased.task) {
            self.stop_reason = reason;
            self.stop(Stop::Cancelled, ctx);
        } else if !self.turn.ended
            && let Some(at) = self.joined.iter().position(|(of, _)| is_meant(of))
        {
            // The turn goes on without it; the queue knows that it is to end.
            let (withdrawn, _) = self.joined.remove(at);
            self.turn.withdraw(&withdrawn.id);
            self.cx.give_back(withdrawn);
        }
    }
}
