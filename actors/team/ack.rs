//! Ack of a session's message: the first frame about it, with the model's first words.

use std::time::Duration;

use actix::{AsyncContext, Context};

use super::{Team, gate::Words, session::Session};
use crate::{
    channel::records::OutboxWrites,
    clock::Timestamp,
    frame::{Body, Frame},
    ids::{ChannelId, MessageId, TaskId},
    store::records::Writes,
    task::{Source, Task, ending},
};

/// An ack is made of what has arrived this long after the text began.
pub(super) const TEXT_SETTLES: Duration = Duration::from_millis(400);

/// A complete block of text makes the ack after this: a turn that ends with it needs no commit for
/// the ack alone.
pub(super) const BLOCK_SETTLES: Duration = Duration::from_millis(10);

impl Session {
    /// The text makes the ack once it has stood for a while.
    pub(super) fn settle_ack(&mut self, pause: Duration, words: Words, ctx: &mut Context<Team>) {
        if let Some(former) = self.timers.ack.take() {
            ctx.cancel_future(former);
        }
        let timer = self.later(pause, ctx, move |session, ctx| session.acknowledge(words, ctx));
        self.timers.ack = Some(timer);
    }

    /// Acknowledges the message of the turn.
    pub(super) fn acknowledge(&mut self, words: Words, ctx: &mut Context<Team>) {
        // A turn that has decided its end sends its ack with it.
        if !self.gate.is_waiting()
            || self.turn.ended
            || (words != Words::OrNone && self.gate.words(words).is_empty())
        {
            return;
        }
        let guard = self.leased.guard();
        let writes = self.add_ack(words, guard);
        let delivered = self.cx.clone().deliver_once(self.cx.recipe.store.commit(writes));
        self.after(delivered, ctx, |session, delivered, ctx| {
            if delivered {
                session.open_gate(ctx);
            }
        });
    }

    /// Adds the ack to a commit, if it has not been made yet.
    pub(super) fn add_ack(&mut self, words: Words, writes: Writes) -> Writes {
        let (task, now) = (&mut self.leased.task, self.cx.now());
        let Some((channel, frame)) = ack(task, self.gate.words(words), now) else {
            return writes;
        };
        self.gate.storing = true;
        writes.put(task).frame(&channel, frame)
    }

    /// Acknowledges a message that joined the turn.
    pub(super) fn acknowledge_joined(&mut self, id: &TaskId, ctx: &mut Context<Team>) {
        let now = self.cx.now();
        let joined = self.joined.iter_mut().find(|(task, _)| task.id == *id);
        let (Some((task, lease)), false) = (joined, self.turn.ended) else {
            return;
        };
        let Some((channel, frame)) = ack(task, "", now) else {
            return;
        };
        let writes = Writes::new().under_lease(&task.id, lease).put(task).frame(&channel, frame);
        let delivered = self.cx.clone().deliver_once(self.cx.recipe.store.commit(writes));
        self.after(delivered, ctx, |_, _, _| {});
    }

    /// The ack has gone out: what was held follows it.
    pub(super) fn open_gate(&mut self, ctx: &mut Context<Team>) {
        if std::mem::take(&mut self.gate.storing) {
            let held = self.gate.open();
            self.text.unsent.insert_str(0, &held);
            self.flush();
            self.merge(ctx);
        }
    }
}

/// The ack of a task's message, unless it has one. The task has it then.
fn ack(task: &mut Task, words: &str, now: Timestamp) -> Option<(ChannelId, Frame)> {
    let (source, message) = awaited(task).filter(|_| !task.acked)?;
    let body = Body::Ack(ending::ack(task, message, words, 0));
    let frame = Frame { topic: source.topic.clone(), ts: now, body };
    let channel = source.channel.clone();
    task.acked = true;
    Some((channel, frame))
}

/// Where the message comes from that a task answers.
pub(super) fn awaited(task: &Task) -> Option<(&Source, &MessageId)> {
    let source = task.source.as_ref()?;
    Some((source, source.message.as_ref()?))
}
