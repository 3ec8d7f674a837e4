//! Streams of a running step: to the person, behind the ack of their message; and to whoever watches.
//!
//! Both begin at once and are then merged to a few pieces a second. They are ahead of the commit that
//! holds the same for good.

use std::time::Duration;

use tokio::{sync::oneshot, time::Instant};

use super::{SessionContext, output_buffer::LiveStream, session::Session, turn::Want};
use crate::{
    channel::{Tell, records::OutboxWrites},
    clock::Timestamp,
    continuations::Timer,
    engine::EngineEvent,
    excerpt,
    frame::{Body, Frame, Progress, ProgressKind},
    history::{Fact, Meta},
    ids::{ChannelId, MessageId, TaskId},
    live::event::{Event, Moment, SAID, Stream},
    store::records::Writes,
    task::{Source, Task, ending},
};

/// An ack is made of what has arrived this long after the text began: an answer that is complete by
/// then needs no commit for the ack alone.
const ACK_DELAY: Duration = Duration::from_millis(30);

/// Who a piece of text goes to.
#[derive(Clone, Copy)]
enum Reader {
    /// Who wrote the message: the model's words.
    Person,
    /// Whoever watches: also its thoughts.
    Watcher,
}

impl Session {
    /// The engine says something about the running step. It had that at `at`, which may be a while ago.
    pub(super) fn spoke(&mut self, event: EngineEvent, at: Instant, ctx: &mut SessionContext<'_>) {
        if !matches!(event, EngineEvent::Note(_)) {
            self.watchdog.sign();
            self.turn.remark = None;
        }
        match event {
            EngineEvent::Spent(lost) => {
                self.spending.heard = 0;
                self.lose(lost);
                self.perform(ctx);
            }
            // What plugins reword is shown to nobody before they have. It is a sign of life, and costs, all the same.
            EngineEvent::Text(piece) if self.brief.tools.rewords_answers() => {
                self.spending.heard += piece.len();
            }
            EngineEvent::Text(piece) => {
                let piece = self.text.apart(piece);
                self.show(false, &piece, ctx);
                self.say(piece, at, ctx);
            }
            // Nobody waits for whole blocks.
            EngineEvent::TextEnd => self.text.block_ended = true,
            EngineEvent::InLine => {}
            EngineEvent::Thinking(piece) => self.show(true, &piece, ctx),
            EngineEvent::Reset => self.withdraw_text(ctx),
            EngineEvent::Retry(text) => {
                self.turn.remark = Some(text.clone());
                let note = Progress::new(ProgressKind::Note, text.clone());
                self.note(Meta::Retry(text), note, ctx);
            }
            EngineEvent::Fallback(text) => {
                let note = Progress::new(ProgressKind::Note, text.clone());
                self.note(Meta::Fallback(text), note, ctx);
            }
            EngineEvent::Note(text) => self.remark(text),
        }
    }

    /// Shows whoever watches what the engine says beside its answer.
    fn remark(&mut self, text: String) {
        // What was said before it is shown before it.
        self.flush_live();
        self.publish_moment(Moment::Note { text: excerpt::line(&text, SAID), level: "info" });
        self.turn.remark = Some(text);
    }

    fn note(&mut self, meta: Meta, note: Progress, ctx: &mut SessionContext<'_>) {
        // Whoever was told that it waits is not told of each try.
        let quiet = self.turn.has_waited() && !note.reset;
        let notes = if quiet { Vec::new() } else { vec![note] };
        self.wants.push_back(Want::Record(vec![Fact::Meta(meta)], notes));
        self.perform(ctx);
    }

    /// What was said in this step is void. The person is told, unless nothing of it can have reached
    /// them: before the ack there is nothing to forget.
    fn withdraw_text(&mut self, ctx: &mut SessionContext<'_>) {
        let said = !std::mem::take(&mut self.text.said).is_empty();
        self.text.unsent.clear();
        self.buffer.reset();
        self.live.unsent.clear();
        self.publish(Stream::Reset);
        if !said {
            return;
        }
        if self.buffer.awaits_ack() {
            self.wants.push_back(Want::Record(vec![Fact::Meta(Meta::Reset)], Vec::new()));
            return self.perform(ctx);
        }
        self.text.voiding += 1;
        let mut note = Progress::new(ProgressKind::Note, "The answer broke off and begins again.");
        note.reset = true;
        self.note(Meta::Reset, note, ctx);
    }

    /// Sends a piece of text to the person, once the message is acknowledged.
    fn say(&mut self, piece: String, at: Instant, ctx: &mut SessionContext<'_>) {
        self.text.said.push_str(&piece);
        let had_words = self.buffer.has_words();
        if let Some(piece) = self.buffer.pass(piece) {
            self.text.unsent.push_str(&piece);
            self.merge(Reader::Person, ctx);
        } else if !had_words && self.buffer.has_words() {
            self.settle_ack(at, ctx);
        }
    }

    /// Sends the text so far: at once, unless some was sent just before; then with what comes soon.
    fn merge(&mut self, to: Reader, ctx: &mut SessionContext<'_>) {
        let (pace, unsent, timer) = match to {
            Reader::Person => (&self.text.pace, &self.text.unsent, &self.timers.text),
            Reader::Watcher => (&self.live.pace, &self.live.unsent, &self.timers.live),
        };
        let pause = pace.pause();
        if pause.is_zero() {
            match to {
                Reader::Person => self.flush(),
                Reader::Watcher => self.flush_live(),
            }
        } else if timer.is_none() && !unsent.is_empty() {
            let again = self.later(pause, ctx, move |session, ctx| {
                *session.merge_timer(to) = None;
                session.merge(to, ctx);
            });
            *self.merge_timer(to) = Some(again);
        }
    }

    fn merge_timer(&mut self, to: Reader) -> &mut Option<Timer> {
        match to {
            Reader::Person => &mut self.timers.text,
            Reader::Watcher => &mut self.timers.live,
        }
    }

    /// The person knows what is void: what was said since follows.
    pub(super) fn voided(&mut self, ctx: &mut SessionContext<'_>) {
        self.text.voiding = self.text.voiding.saturating_sub(1);
        self.merge(Reader::Person, ctx);
    }

    /// Sends the text so far, also if some was sent just before: something is to come behind it.
    pub(super) fn flush(&mut self) {
        let task = &self.leased.task;
        let Some((source, message)) = awaited(task) else {
            self.text.unsent.clear();
            return;
        };
        // What comes after a note that voids what was said must not arrive before it.
        if self.text.unsent.is_empty() || !self.buffer.is_released() || self.text.voiding > 0 {
            return;
        }
        let text = std::mem::take(&mut self.text.unsent);
        self.text.pace.sent();
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

    /// Shows whoever watches what the model writes. Words do not wait because of thoughts before them.
    fn show(&mut self, thinking: bool, piece: &str, ctx: &mut SessionContext<'_>) {
        self.spending.heard += piece.len();
        if self.live.thinking != thinking {
            self.flush_live();
            self.live = LiveStream { thinking, ..LiveStream::default() };
        }
        self.live.unsent.push_str(piece);
        self.merge(Reader::Watcher, ctx);
    }

    /// Shows what was written so far.
    pub(super) fn flush_live(&mut self) {
        if let Some(written) = self.live.take() {
            self.publish(written);
        }
    }

    pub(super) fn publish(&self, value: Stream) {
        self.publish_moment(Moment::Stream { value });
    }

    fn publish_moment(&self, moment: Moment) {
        let task = &self.leased.task;
        let topic = task.lane.topic.as_ref();
        let event = Event::turn(&self.cx.name, topic, Some(&task.id), &self.leased.turn, moment);
        self.cx.recipe.live.publish(event);
    }

    /// The text that began at `since` makes the ack soon. Time that it spent in the mailbox counts.
    fn settle_ack(&mut self, since: Instant, ctx: &mut SessionContext<'_>) {
        if let Some(former) = self.timers.ack.take() {
            former.cancel();
        }
        let pause = (since + ACK_DELAY).saturating_duration_since(Instant::now());
        self.timers.ack = Some(self.later(pause, ctx, |session, ctx| {
            session.timers.ack = None;
            // It may be void by now.
            if session.buffer.has_words() {
                session.acknowledge(ctx);
            }
        }));
    }

    /// Acknowledges the message of the turn with what has been said so far, or a fixed sentence.
    pub(super) fn acknowledge(&mut self, ctx: &mut SessionContext<'_>) {
        // A turn that has decided its end sends its ack with it.
        if !self.buffer.awaits_ack() || self.turn.ended {
            return;
        }
        let guard = self.leased.guard();
        let writes = self.add_ack(guard);
        let delivered = self.cx.clone().deliver_once(self.cx.recipe.store.commit(writes));
        let (sent, sending) = oneshot::channel::<()>();
        self.buffer.sending = Some(sending);
        self.after(delivered, ctx, move |session, delivered, _| {
            if delivered {
                session.release_output();
            }
            drop(sent);
        });
    }

    /// Adds the ack to a commit, if it has not been made yet.
    pub(super) fn add_ack(&mut self, writes: Writes) -> Writes {
        let (task, now) = (&mut self.leased.task, self.cx.now());
        let Some((channel, frame)) = ack(task, self.buffer.held(), now) else { return writes };
        self.buffer.storing = true;
        writes.put(task).frame(&channel, frame)
    }

    /// Acknowledges a message that joined the turn.
    pub(super) fn acknowledge_joined(&mut self, id: &TaskId, ctx: &mut SessionContext<'_>) {
        let now = self.cx.now();
        let joined = self.joined.iter_mut().find(|(task, _)| task.id == *id);
        let (Some((task, lease)), false) = (joined, self.turn.ended) else { return };
        let Some((channel, frame)) = ack(task, "", now) else { return };
        let writes = Writes::new().under_lease(&task.id, lease).put(task).frame(&channel, frame);
        let delivered = self.cx.clone().deliver_once(self.cx.recipe.store.commit(writes));
        self.after(delivered, ctx, |_, _, _| {});
    }

    /// The ack has gone out: what was held follows it.
    pub(super) fn release_output(&mut self) {
        if std::mem::take(&mut self.buffer.storing) {
            let held = self.buffer.release();
            self.text.unsent.insert_str(0, &held);
            self.flush();
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
