//! Resumption of a turn after a crash or a pause, from what the journal holds.

use std::{collections::HashSet, time::Duration};

use super::{
    Turn, Want,
    holding::unknown,
    slot::{CallState, Decision, Slot},
    stepping::Opening,
    telling::text_of,
};
use crate::{
    engine::{Block, JoinedWords, Message, is_output_limit},
    frame::{Progress, ProgressKind},
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::{ApprovalId, CallId},
    task::Label,
    tool::{Args, Checked, Effect, ToolCall, ToolReply},
    usage::Usage,
};

impl Turn {
    /// Goes on after a crash or a pause, from what the journal holds. Completed steps are never
    /// repeated; a call in flight is treated by its effect.
    pub(in crate::team) fn resume(
        &mut self,
        start: Fact,
        journal: &[HistoryEvent],
        check: impl Fn(&ToolCall, Option<&ApprovalId>, Label) -> Result<Checked, ToolReply>,
        decided: impl Fn(&ApprovalId, &ToolCall, Label) -> Decision,
    ) -> Vec<Want> {
        let unbegun = self.replay(journal);
        if self.calls.is_empty() {
            return self.resume_between_steps(start, journal);
        }
        let mut opening = Opening { facts: vec![start], ..Opening::default() };
        for place in 0..self.calls.len() {
            let Slot { call, approval, state: CallState::Waiting { .. }, .. } = &self.calls[place]
            else {
                continue;
            };
            let begun = !unbegun.contains(&call.id);
            let effect = if begun { effect_of(journal, &call.id) } else { Effect::Pure };
            let mut verdict = check(call, approval.as_ref(), self.label);
            if let Ok(checked) = &mut verdict {
                opening.stows.extend(checked.stow.take());
            }
            match approval {
                Some(approval) => {
                    let decision = decided(approval, call, self.label);
                    self.take_up(place, effect, decision, verdict, &mut opening);
                }
                None => self.retake(place, begun, effect, verdict, &mut opening),
            }
        }
        self.proceed_with(opening)
    }

    /// Goes on where no call is open: with the end, if only that was not written, or with the next step.
    fn resume_between_steps(&mut self, start: Fact, journal: &[HistoryEvent]) -> Vec<Want> {
        if let Some(Message::Assistant(blocks)) = self.conversation.last() {
            let text = text_of(blocks);
            return vec![Want::End(vec![start], self.answer(text, was_truncated(journal)))];
        }
        let mut frames = Vec::new();
        // Whoever was told that it waits hears of it again when there is something to say.
        if !was_set_aside(journal) {
            frames.push(interruption());
        }
        let mut wants = vec![Want::Record(vec![start], frames)];
        wants.extend(self.next_step());
        wants
    }

    /// Folds a journal into the state it describes. Returns the calls that have not begun.
    fn replay(&mut self, journal: &[HistoryEvent]) -> HashSet<CallId> {
        let mut replay =
            Replay { turn: self, unbegun: HashSet::new(), blocks: Vec::new(), counted: None };
        journal.iter().for_each(|event| replay.fact(&event.fact));
        replay.take_blocks();
        replay.unbegun
    }

    /// Decides a call that was in flight when the process stopped. The rules, or what the turn has
    /// read, may have changed since: then a person decides on it now.
    fn retake(
        &mut self,
        place: usize,
        begun: bool,
        effect: Effect,
        verdict: Result<Checked, ToolReply>,
        opening: &mut Opening,
    ) {
        let key = self.key_at(place);
        let slot = &mut self.calls[place];
        let rerun = begun || slot.state == CallState::Waiting { rerun: true };
        let refusal = match (effect, verdict) {
            (Effect::Irreversible, _) => unknown(),
            (_, Err(refusal)) => refusal,
            (_, Ok(checked)) => return opening.held.extend(slot.admit(checked, key, rerun)),
        };
        opening.tell(slot.finish(&refusal, Duration::ZERO));
    }
}

/// A turn that is folded from its journal, and what of the present step is not part of it yet.
struct Replay<'a> {
    turn: &'a mut Turn,
    /// Calls that waited and had not begun when the turn was set aside.
    unbegun: HashSet<CallId>,
    /// What the model wrote.
    blocks: Vec<Block>,
    counted: Option<Usage>,
}

impl Replay<'_> {
    fn fact(&mut self, fact: &Fact) {
        if let Some(step) = fact.step() {
            self.open_step(step);
        }
        match fact {
            Fact::TurnStart { .. } => self.cut_off(),
            Fact::AssistantText { text, .. } => {
                self.blocks.push(Block::Text { text: text.clone() })
            }
            Fact::AssistantThinking { text, block, .. } => {
                self.blocks.push(Block::Thinking { text: text.clone(), block: block.clone() });
            }
            Fact::ToolCall { id, name, args, .. } => {
                let args = Args::stored(args.clone());
                self.called(ToolCall { id: id.clone(), name: name.clone(), args });
            }
            Fact::ToolResult { id, content, fault, taints, pictures, .. } => {
                if *taints {
                    self.turn.label = Label::Untrusted;
                }
                self.take_blocks();
                let turn = &mut *self.turn;
                let open = |slot: &&mut Slot| slot.call.id == *id && !slot.is_done();
                if let Some(slot) = turn.calls.iter_mut().find(open) {
                    turn.report = slot.report(*fault).or(turn.report.take());
                    slot.put_result(content.clone(), *fault, pictures.clone());
                }
                if turn.calls.iter().all(Slot::is_done) {
                    turn.fold_results();
                }
            }
            Fact::User { text, from, origin, label, task_id, files } => {
                let (text, from, task) = (text.clone(), from.clone(), task_id.clone());
                self.heard(JoinedWords { text, from, label: *label, task }, *origin);
                self.turn.show_files(files.clone());
            }
            Fact::Meta(meta) => self.meta(meta),
            Fact::TurnEnd { .. } | Fact::TurnSuspended { .. } => {}
        }
    }

    fn meta(&mut self, meta: &Meta) {
        match meta {
            Meta::Approval { call, approval } => {
                let mut calls = self.turn.calls.iter_mut();
                if let Some(slot) = calls.find(|slot| slot.call.id == *call) {
                    slot.approval = Some(approval.clone());
                }
            }
            Meta::Usage { step, usage, .. } => {
                self.open_step(*step);
                self.turn.usage += *usage;
                self.turn.waited = None;
                self.counted = Some(*usage);
            }
            Meta::Compaction(compaction) => {
                self.take_blocks();
                self.turn.replay_compaction(compaction);
            }
            Meta::Spent { usage, .. } => self.turn.usage += *usage,
            Meta::Parked(reason) => self.turn.waits_for(*reason),
            Meta::NotBegun(call) => {
                self.unbegun.insert(call.clone());
            }
            Meta::Retry(_) | Meta::Fallback(_) | Meta::Reset | Meta::Cancel(_) => {}
        }
    }

    fn open_step(&mut self, step: u32) {
        self.turn.step = self.turn.step.max(step);
    }

    fn called(&mut self, call: ToolCall) {
        self.blocks.push(Block::Call(call.clone()));
        self.turn.tools_used.push(call.name.clone());
        let state = CallState::Waiting { rerun: false };
        self.turn.calls.push(Slot { call, checked: None, approval: None, state });
    }

    /// Words that came into the turn. Those of its task are known.
    fn heard(&mut self, words: JoinedWords, origin: Origin) {
        let label = words.label;
        match origin {
            Origin::Person | Origin::Task => return,
            Origin::Steer => {
                self.take_blocks();
                self.turn.conversation.push(Message::Joined(words), self.turn.step);
            }
            Origin::System => self.turn.conversation.show(&words.text),
        }
        self.turn.label = self.turn.label.max(label);
    }

    /// An earlier attempt ended here: what it had begun may have taken effect.
    fn cut_off(&mut self) {
        let waiting = |slot: &&mut Slot| matches!(slot.state, CallState::Waiting { .. });
        for slot in self.turn.calls.iter_mut().filter(waiting) {
            if slot.approval.is_none() && !self.unbegun.contains(&slot.call.id) {
                slot.state = CallState::Waiting { rerun: true };
            }
        }
        // Whatever waited may have begun since.
        self.unbegun.clear();
    }

    /// What the model wrote in a step becomes part of the conversation, as large as it was counted.
    fn take_blocks(&mut self) {
        let turn = &mut *self.turn;
        if !self.blocks.is_empty() {
            let blocks = std::mem::take(&mut self.blocks);
            let text = text_of(&blocks);
            if !text.is_empty() {
                turn.said.push(text);
            }
            turn.conversation.push(Message::Assistant(blocks), turn.step);
        }
        if let Some(usage) = self.counted.take() {
            turn.conversation.count(&usage);
        }
    }
}

/// Tells the person that a model call was cut off and is made again: what it said is void.
pub(in crate::team) fn interruption() -> Progress {
    let again = Progress::new(ProgressKind::Note, "Going on after an interruption.");
    Progress { reset: true, ..again }
}

/// The last that happened is that the turn was set aside.
fn was_set_aside(journal: &[HistoryEvent]) -> bool {
    let mut metas = journal.iter().rev().map_while(|event| match &event.fact {
        Fact::Meta(meta) => Some(meta),
        _ => None,
    });
    metas.any(|meta| matches!(meta, Meta::Parked(_)))
}

/// The output limit stopped the last model call.
fn was_truncated(journal: &[HistoryEvent]) -> bool {
    let mut reasons = journal.iter().rev().filter_map(|event| match &event.fact {
        Fact::Meta(Meta::Usage { stop_reason, .. }) => Some(stop_reason),
        _ => None,
    });
    reasons.next().is_some_and(|reason| is_output_limit(reason))
}

fn effect_of(journal: &[HistoryEvent], call: &CallId) -> Effect {
    let effect = journal.iter().rev().find_map(|event| match &event.fact {
        Fact::ToolCall { id, effect, .. } if id == call => Some(*effect),
        _ => None,
    });
    effect.unwrap_or(Effect::Irreversible)
}
