//! Ack of a session's message: the first frame about it, with the model's first words.

use std::time::Duration;

use actix::{AsyncContext, Context};

use super::{Team, session::Session};
use crate::{
    channel::records::OutboxWrites,
    clock::Timestamp,
    closing,
    event::{Body, Frame},
    ids::{ChannelId, MessageId, TaskId},
    store::records::Writes,
    task::{Source, Task},
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
            || self.turn.has_ended()
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
        let (Some((task, lease)), false) = (joined, self.turn.has_ended()) else {
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

/// With which words a message is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// All that has been said.
    All,
    /// What has been said up to a good place to stop; without any, no ack.
    Settled,
    /// The same; without any, a fixed sentence.
    OrNone,
}

/// Holds text back until its message is acknowledged, and says with which words it can be.
#[derive(Debug, Default)]
pub(super) struct Gate {
    open: bool,
    /// The ack is on its way into the store.
    pub(super) storing: bool,
    held: String,
}

impl Gate {
    /// The gate of a message that may be acknowledged already.
    pub(super) fn new(acked: bool) -> Self {
        Self { open: acked, storing: false, held: String::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Nothing has been done about the ack yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open && !self.storing
    }

    /// Text has begun and waits for the ack.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// A piece of text: what may go on to the client now.
    pub(super) fn pass(&mut self, piece: String) -> Option<String> {
        if self.open {
            return Some(piece);
        }
        self.held.push_str(&piece);
        None
    }

    /// The text so far is void.
    pub(super) fn reset(&mut self) {
        self.held.clear();
    }

    /// The words of an ack that is sent now: all, or up to the last sentence end, else up to the
    /// last word end.
    pub(super) fn words(&self, words: Words) -> &str {
        if words == Words::All {
            return &self.held;
        }
        let sentence = self
            .held
            .char_indices()
            .zip(self.held.chars().skip(1).chain([' ']))
            .filter(|((_, character), next)| {
                matches!(character, '.' | '!' | '?' | '。' | '！' | '？') && next.is_whitespace()
            })
            .map(|((place, character), _)| place + character.len_utf8())
            .last();
        let word = || self.held.rfind(char::is_whitespace);
        match sentence.or_else(word) {
            Some(end) => &self.held[..end],
            None => "",
        }
    }

    /// The ack is on its way: what was held follows it.
    pub(super) fn open(&mut self) -> String {
        self.open = true;
        std::mem::take(&mut self.held)
    }
}

/// The ack of a task's message, unless it has one. The task has it then.
fn ack(task: &mut Task, words: &str, now: Timestamp) -> Option<(ChannelId, Frame)> {
    let (source, message) = awaited(task).filter(|_| !task.acked)?;
    let body = Body::Ack(closing::ack(task, message, words, 0));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-81
    #[test]
    fn an_ack_ends_at_the_last_sentence_else_at_the_last_word() {
        let mut gate = Gate::new(false);
        assert_eq!(gate.pass("I will look".into()), None);
        assert_eq!(gate.words(Words::Settled), "I will");

        gate.pass(" into it. Then we s".into());
        assert_eq!(gate.words(Words::OrNone), "I will look into it.");
        assert_eq!(gate.words(Words::All), "I will look into it. Then we s");
    }

    /// CH-81
    #[test]
    fn text_made_before_the_ack_follows_it() {
        let mut gate = Gate::new(false);
        gate.pass("Hello ".into());

        assert_eq!(gate.open(), "Hello ");
        assert_eq!(gate.pass("there".into()), Some("there".into()));
    }
}
