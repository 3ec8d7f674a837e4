//! What a running step says, on its way to the person: held until the ack, merged, marked void.

use std::time::Duration;

use actix::{AsyncContext, Context};
use tokio::time::Instant;

use super::{
    Team,
    ack::{BLOCK_SETTLES, TEXT_SETTLES, Words},
    aloud::Manner,
    commits::awaited,
    turn::Want,
};
use crate::{
    channel::Tell,
    engine::EngineEvent,
    event::{Body, Frame, Progress, ProgressKind},
    history::{Fact, Meta},
    ids::{TopicId, TurnId},
};

/// Pieces of text are merged to at most one frame in this time.
const MERGE: Duration = Duration::from_millis(50);

impl Team {
    pub(super) fn spoke(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        event: EngineEvent,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.last_sign = Instant::now();
        if let EngineEvent::Text(piece) | EngineEvent::Thinking(piece) = &event {
            running.heard += piece.len();
        }
        match event {
            EngineEvent::Spent(lost) => {
                running.heard = 0;
                self.lose(topic, turn, lost);
                self.perform(topic, turn, ctx);
            }
            EngineEvent::Text(piece) => {
                self.say(topic, turn, Manner::Text, &piece, ctx);
                self.heard_text(topic, turn, piece, ctx);
            }
            EngineEvent::TextEnd => {
                if running.gate.is_holding() {
                    self.settle(topic, turn, BLOCK_SETTLES, Words::All, ctx);
                }
            }
            EngineEvent::Thinking(piece) => {
                self.say(topic, turn, Manner::Thinking, &piece, ctx);
            }
            EngineEvent::Reset => {
                let nothing_said = running.streaming.is_empty();
                running.streaming.clear();
                running.unsent.clear();
                running.gate.reset();
                running.voiding += u32::from(!nothing_said);
                self.unsay(topic, turn);
                if !nothing_said {
                    let mut note =
                        Progress::new(ProgressKind::Note, "The answer broke off and begins again.");
                    note.reset = true;
                    self.note(topic, turn, Meta::Reset, note, ctx);
                }
            }
            EngineEvent::Retry(text) => {
                let note = Progress::new(ProgressKind::Note, text.clone());
                self.note(topic, turn, Meta::Retry(text), note, ctx);
            }
            EngineEvent::Fallback(text) => {
                let note = Progress::new(ProgressKind::Note, text.clone());
                self.note(topic, turn, Meta::Fallback(text), note, ctx);
            }
        }
    }

    fn note(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        meta: Meta,
        note: Progress,
        ctx: &mut Context<Self>,
    ) {
        if let Some(running) = self.lanes.running(topic, turn) {
            // Whoever was told that it waits is not told of each try.
            let quiet = running.turn.has_waited() && !note.reset;
            let notes = if quiet { Vec::new() } else { vec![note] };
            running.wants.push_back(Want::Record(vec![Fact::Meta(meta)], notes));
            self.perform(topic, turn, ctx);
        }
    }

    fn heard_text(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        piece: String,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.streaming.push_str(&piece);
        let first = !running.gate.is_holding();
        match running.gate.pass(piece) {
            Some(piece) => {
                running.unsent.push_str(&piece);
                self.merge(topic, turn, ctx);
            }
            None if first => self.settle(topic, turn, TEXT_SETTLES, Words::Settled, ctx),
            None => {}
        }
    }

    /// The text makes the ack once it has stood for a while.
    fn settle(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        pause: Duration,
        words: Words,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if let Some(former) = running.settle.take() {
            ctx.cancel_future(former);
        }
        let (topic, turn) = (topic.clone(), turn.clone());
        let later = ctx.run_later(pause, move |team, ctx| {
            team.acknowledge(&topic, &turn, words, ctx);
        });
        running.settle = Some(later);
    }

    /// The ack has gone out: what was held follows it.
    pub(super) fn open_gate(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if running.acking {
            running.acking = false;
            let held = running.gate.open();
            running.unsent.insert_str(0, &held);
            self.flush(topic, turn);
            self.merge(topic, turn, ctx);
        }
    }

    /// Sends the pieces so far, now or together with those that come soon.
    fn merge(&mut self, topic: &Option<TopicId>, turn: &TurnId, ctx: &mut Context<Self>) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if running.flush.is_some() || running.unsent.is_empty() {
            return;
        }
        let (topic, turn) = (topic.clone(), turn.clone());
        let later = ctx.run_later(MERGE, move |team, _| {
            if let Some(running) = team.lanes.running(&topic, &turn) {
                running.flush = None;
            }
            team.flush(&topic, &turn);
        });
        running.flush = Some(later);
    }

    /// The person knows what is void: what was said since follows.
    pub(super) fn voided(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        if let Some(running) = self.lanes.running(topic, turn) {
            running.voiding = running.voiding.saturating_sub(1);
            self.flush(topic, turn);
        }
    }

    pub(super) fn flush(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let task = &running.charge.task;
        let Some((source, message)) = awaited(task) else {
            running.unsent.clear();
            return;
        };
        // What comes after a note that voids what was said must not arrive before it.
        if running.unsent.is_empty() || !running.gate.is_open() || running.voiding > 0 {
            return;
        }
        let text = std::mem::take(&mut running.unsent);
        let progress = Progress {
            message_id: Some(message.clone()),
            task_id: Some(task.id.clone()),
            ..Progress::new(ProgressKind::TextDelta, text)
        };
        self.recipe.channel.do_send(Tell {
            channel: source.channel.clone(),
            frame: Frame { topic: source.topic.clone(), ts: now, body: Body::Progress(progress) },
        });
    }
}
