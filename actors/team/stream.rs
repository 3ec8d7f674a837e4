//! Streams of a running step: to the person, behind the ack of their message; and to whoever watches.
//!
//! Both are merged to a few pieces a second and are ahead of the commit that holds the same for good.

use std::time::Duration;

use actix::{AsyncContext, Context};

use super::{Team, gate::Words, session::Session, turn::Want};
use crate::{
    channel::{Tell, records::OutboxWrites},
    clock::Timestamp,
    engine::EngineEvent,
    frame::{Body, Frame, Progress, ProgressKind},
    history::{Fact, Meta},
    ids::{ChannelId, MessageId, TaskId},
    live::event::{Event, Moment, Stream},
    store::records::Writes,
    task::{Source, Task, ending},
};

/// Pieces of text are merged to at most one frame, and one event, in this time.
const MERGE_WINDOW: Duration = Duration::from_millis(50);

/// An ack is made of what has arrived this long after the text began.
const TEXT_SETTLES: Duration = Duration::from_millis(400);

/// A complete block of text makes the ack after this: a turn that ends with it needs no commit for
/// the ack alone.
const BLOCK_SETTLES: Duration = Duration::from_millis(10);

impl Session {
    /// The engine says something about the running step.
    pub(super) fn spoke(&mut self, event: EngineEvent, ctx: &mut Context<Team>) {
        self.watchdog.sign();
        match event {
            EngineEvent::Spent(lost) => {
                self.spending.heard = 0;
                self.lose(lost);
                self.perform(ctx);
            }
            EngineEvent::Text(piece) => {
                self.show(false, &piece, ctx);
                self.say(piece, ctx);
            }
            EngineEvent::TextEnd => {
                if self.gate.is_holding() {
                    self.settle_ack(BLOCK_SETTLES, Words::All, ctx);
                }
            }
            EngineEvent::Thinking(piece) => self.show(true, &piece, ctx),
            EngineEvent::Reset => self.withdraw_text(ctx),
            EngineEvent::Retry(text) => {
                let note = Progress::new(ProgressKind::Note, text.clone());
                self.note(Meta::Retry(text), note, ctx);
            }
            EngineEvent::Fallback(text) => {
                let note = Progress::new(ProgressKind::Note, text.clone());
                self.note(Meta::Fallback(text), note, ctx);
            }
        }
    }

    fn note(&mut self, meta: Meta, note: Progress, ctx: &mut Context<Team>) {
        // Whoever was told that it waits is not told of each try.
        let quiet = self.turn.has_waited() && !note.reset;
        let notes = if quiet { Vec::new() } else { vec![note] };
        self.wants.push_back(Want::Record(vec![Fact::Meta(meta)], notes));
        self.perform(ctx);
    }

    /// What was said in this step is void.
    fn withdraw_text(&mut self, ctx: &mut Context<Team>) {
        let said = !std::mem::take(&mut self.text.said).is_empty();
        self.text.unsent.clear();
        self.gate.reset();
        self.live.unsent.clear();
        self.publish(Stream::Reset);
        if said {
            self.text.voiding += 1;
            let mut note =
                Progress::new(ProgressKind::Note, "The answer broke off and begins again.");
            note.reset = true;
            self.note(Meta::Reset, note, ctx);
        }
    }

    /// Sends a piece of text to the person, once the message is acknowledged.
    fn say(&mut self, piece: String, ctx: &mut Context<Team>) {
        self.text.said.push_str(&piece);
        let first = !self.gate.is_holding();
        match self.gate.pass(piece) {
            Some(piece) => {
                self.text.unsent.push_str(&piece);
                self.merge(ctx);
            }
            None if first => self.settle_ack(TEXT_SETTLES, Words::Settled, ctx),
            None => {}
        }
    }

    /// Sends the pieces so far together with those that come soon.
    pub(super) fn merge(&mut self, ctx: &mut Context<Team>) {
        if self.timers.text.is_some() || self.text.unsent.is_empty() {
            return;
        }
        self.timers.text = Some(self.later(MERGE_WINDOW, ctx, |session, _| {
            session.timers.text = None;
            session.flush();
        }));
    }

    /// The person knows what is void: what was said since follows.
    pub(super) fn voided(&mut self) {
        self.text.voiding = self.text.voiding.saturating_sub(1);
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        let task = &self.leased.task;
        let Some((source, message)) = awaited(task) else {
            self.text.unsent.clear();
            return;
        };
        // What comes after a note that voids what was said must not arrive before it.
        if self.text.unsent.is_empty() || !self.gate.is_open() || self.text.voiding > 0 {
            return;
        }
        let text = std::mem::take(&mut self.text.unsent);
        let body = Body::Progress(Progress {
            message_id: Some(message.clone()),
            task_id: Some(task.id.clone()),
            ..Progress::new(ProgressKind::TextDelta, text)
        });
        self.cx.recipe.channel.do_send(Tell {
            channel: source.channel.clone(),
            frame: Frame { topic: source.topic.clone(), ts: self.cx.now(), body },
        });
    }

    /// Shows whoever watches what the model writes, together with what comes soon.
    fn show(&mut self, thinking: bool, piece: &str, ctx: &mut Context<Team>) {
        self.spending.heard += piece.len();
        if self.live.thinking != thinking {
            self.flush_live();
        }
        self.live.thinking = thinking;
        self.live.unsent.push_str(piece);
        if self.timers.live.is_none() {
            self.timers.live = Some(self.later(MERGE_WINDOW, ctx, |session, _| {
                session.timers.live = None;
                session.flush_live();
            }));
        }
    }

    /// Shows what was written so far.
    pub(super) fn flush_live(&mut self) {
        if let Some(written) = self.live.take() {
            self.publish(written);
        }
    }

    pub(super) fn publish(&self, value: Stream) {
        let task = &self.leased.task;
        let (topic, moment) = (task.lane.topic.as_ref(), Moment::Stream { value });
        let event = Event::turn(&self.cx.name, topic, Some(&task.id), &self.leased.turn, moment);
        self.cx.recipe.live.publish(event);
    }

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
