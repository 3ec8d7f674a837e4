//! Resumption of a turn after a crash or a pause, from what the journal holds.

use std::{collections::HashSet, time::Duration};

use super::{
    CallState, Decision, Held, REPORT_RUN, Slot, Turn, Want,
    holding::unknown,
    telling::{output, text_of},
};
use crate::{
    engine::{Block, Message, ToolOutput, is_output_limit},
    event::{Progress, ProgressKind},
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::{ApprovalId, CallId},
    task::Label,
    tool::{Args, Checked, Effect, ToolCall, ToolReply, Verdict},
    usage::Usage,
};

impl Turn {
    /// Goes on after a crash or a pause, from what the journal holds. Completed steps are never
    /// repeated; a call in flight is treated by its effect.
    pub fn resume(
        &mut self,
        start: Fact,
        journal: &[HistoryEvent],
        check: impl Fn(&ToolCall, Option<&ApprovalId>, Label) -> Result<Checked, ToolReply>,
        decided: impl Fn(&ApprovalId, &ToolCall, Label) -> Decision,
    ) -> Vec<Want> {
        let unbegun = self.replay(journal);
        let label = self.label;
        let mut facts = vec![start];
        let mut frames = Vec::new();
        if !self.calls.is_empty() {
            let mut marks = Vec::new();
            let mut held = Vec::new();
            let mut stows = Vec::new();
            for place in 0..self.calls.len() {
                let Slot { call, approval, state: CallState::Waiting { .. }, .. } =
                    &self.calls[place]
                else {
                    continue;
                };
                let begun = !unbegun.contains(&call.id);
                let effect = if begun { effect_of(journal, &call.id) } else { Effect::Pure };
                let mut verdict = check(call, approval.as_ref(), label);
                if let Ok(checked) = &mut verdict {
                    stows.extend(checked.stow.take());
                }
                match approval {
                    Some(approval) => {
                        let decision = decided(approval, call, label);
                        let (facts, frames) = (&mut facts, &mut frames);
                        marks.extend(self.take_up(place, effect, decision, verdict, facts, frames));
                    }
                    None => {
                        let (facts, frames) = (&mut facts, &mut frames);
                        held.extend(self.retake(place, begun, effect, verdict, facts, frames));
                    }
                }
            }
            // Before the results: a call whose result is in the journal is not looked at again.
            let mut wants = marks;
            if !stows.is_empty() {
                wants.push(Want::Stash(stows));
            }
            wants.push(if held.is_empty() {
                Want::Record(facts, frames)
            } else {
                Want::Hold(facts, frames, held)
            });
            wants.extend(self.proceed());
            return wants;
        }
        if let Some(Message::Assistant(blocks)) = self.conversation.last() {
            // The answer is there; only the end was not written.
            let truncated = was_truncated(journal);
            let end = self.answer(text_of(blocks), truncated);
            return match end {
                Want::End(mut last, end) => {
                    facts.append(&mut last);
                    self.ended = true;
                    vec![Want::End(facts, end)]
                }
                other => vec![other],
            };
        }
        let mut frames = Vec::new();
        // Whoever was told that it waits hears of it again when there is something to say.
        if !was_set_aside(journal) {
            let mut again = Progress::new(ProgressKind::Note, "Going on after an interruption.");
            again.reset = true;
            frames.push(again);
        }
        let mut wants = vec![Want::Record(facts, frames)];
        wants.extend(self.next_step());
        wants
    }

    /// Folds a journal into the state it describes. Returns the calls that have not begun.
    fn replay(&mut self, journal: &[HistoryEvent]) -> HashSet<CallId> {
        let mut unbegun = HashSet::new();
        let mut blocks: Vec<Block> = Vec::new();
        let mut counted = None;
        for event in journal {
            match &event.fact {
                Fact::TurnStart { .. } => {
                    self.cut_off(&unbegun);
                    // Whatever waited may have begun since.
                    unbegun.clear();
                }
                Fact::AssistantText { text, step } => {
                    self.open_step(*step);
                    blocks.push(Block::Text { text: text.clone() });
                }
                Fact::AssistantThinking { text, step, block } => {
                    self.open_step(*step);
                    blocks.push(Block::Thinking { text: text.clone(), block: block.clone() });
                }
                Fact::ToolCall { id, name, args, step, .. } => {
                    self.open_step(*step);
                    let call = ToolCall {
                        id: id.clone(),
                        name: name.clone(),
                        args: serde_json::from_value(args.clone())
                            .unwrap_or_else(|_| Args::Json(args.clone())),
                    };
                    blocks.push(Block::Call(call.clone()));
                    self.tools_used.push(name.clone());
                    self.calls.push(Slot {
                        call,
                        checked: None,
                        approval: None,
                        state: CallState::Waiting { rerun: false },
                    });
                }
                Fact::ToolResult { id, content, fault, taints, .. } => {
                    if *taints {
                        self.label = Label::Untrusted;
                    }
                    self.take_blocks(&mut blocks, &mut counted);
                    let open = |slot: &&mut Slot| {
                        slot.call.id == *id && !matches!(slot.state, CallState::Done(_))
                    };
                    if let Some(slot) = self.calls.iter_mut().find(open) {
                        if slot.call.name == REPORT_RUN
                            && fault.is_none()
                            && let Args::Json(args) = &slot.call.args
                        {
                            self.report = Some(args.clone());
                        }
                        slot.state = CallState::Done(ToolOutput {
                            id: id.clone(),
                            name: slot.call.name.clone(),
                            content: content.clone(),
                            fault: *fault,
                        });
                    }
                    if self.calls.iter().all(|slot| matches!(slot.state, CallState::Done(_))) {
                        self.fold_results();
                    }
                }
                Fact::User { text, origin: Origin::Steer, label, .. } => {
                    self.label = self.label.max(*label);
                    self.take_blocks(&mut blocks, &mut counted);
                    self.conversation.push(Message::User(text.clone()), self.step);
                }
                Fact::User { text, origin: Origin::System, label, .. } => {
                    self.label = self.label.max(*label);
                    self.conversation.show(text);
                }
                Fact::Meta(Meta::Approval { call, approval }) => {
                    if let Some(slot) = self.calls.iter_mut().find(|slot| slot.call.id == *call) {
                        slot.approval = Some(approval.clone());
                    }
                }
                Fact::Meta(Meta::Usage { step, usage, .. }) => {
                    self.open_step(*step);
                    self.usage += *usage;
                    self.waited = None;
                    counted = Some(*usage);
                }
                Fact::Meta(Meta::Compaction(compaction)) => {
                    self.take_blocks(&mut blocks, &mut counted);
                    self.replay_compaction(compaction);
                }
                Fact::Meta(Meta::Spent { usage, .. }) => self.usage += *usage,
                Fact::Meta(Meta::Parked(reason)) => self.waits_for(*reason),
                Fact::Meta(Meta::NotBegun(call)) => {
                    unbegun.insert(call.clone());
                }
                _ => {}
            }
        }
        self.take_blocks(&mut blocks, &mut counted);
        unbegun
    }

    /// An earlier attempt ended here: what it had begun may have taken effect.
    fn cut_off(&mut self, unbegun: &HashSet<CallId>) {
        let waiting = |slot: &&mut Slot| matches!(slot.state, CallState::Waiting { .. });
        for slot in self.calls.iter_mut().filter(waiting) {
            if slot.approval.is_none() && !unbegun.contains(&slot.call.id) {
                slot.state = CallState::Waiting { rerun: true };
            }
        }
    }

    fn open_step(&mut self, step: u32) {
        self.step = self.step.max(step);
    }

    /// What the model wrote in a step becomes part of the conversation, as large as it was counted.
    fn take_blocks(&mut self, blocks: &mut Vec<Block>, counted: &mut Option<Usage>) {
        if !blocks.is_empty() {
            let blocks = std::mem::take(blocks);
            let text = text_of(&blocks);
            if !text.is_empty() {
                self.said.push(text);
            }
            self.conversation.push(Message::Assistant(blocks), self.step);
        }
        if let Some(usage) = counted.take() {
            self.conversation.count(&usage);
        }
    }

    /// Decides a call that was in flight when the process stopped. The rules, or what the turn has
    /// read, may have changed since: then a person decides on it now.
    fn retake(
        &mut self,
        place: usize,
        begun: bool,
        effect: Effect,
        verdict: Result<Checked, ToolReply>,
        facts: &mut Vec<Fact>,
        frames: &mut Vec<Progress>,
    ) -> Option<Held> {
        let key = self.key_at(place);
        let slot = &mut self.calls[place];
        let rerun = begun || slot.state == CallState::Waiting { rerun: true };
        let refusal = match (effect, verdict) {
            (Effect::Irreversible, _) => unknown(),
            (_, Err(refusal)) => refusal,
            (_, Ok(checked)) => {
                let asking = match &checked.verdict {
                    Verdict::Ask(asking) => Some(asking.clone()),
                    Verdict::Allow => None,
                };
                slot.checked = Some(checked);
                slot.state = match asking {
                    Some(_) => CallState::Held,
                    None => CallState::Waiting { rerun },
                };
                let call = slot.call.clone();
                return asking.map(|asking| Held { call, key, asking });
            }
        };
        let (fact, frame) = slot.result(&refusal, Duration::ZERO);
        slot.state = CallState::Done(output(&slot.call, &refusal));
        facts.push(fact);
        frames.push(frame);
        None
    }
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
    journal
        .iter()
        .rev()
        .find_map(|event| match &event.fact {
            Fact::ToolCall { id, effect, .. } if id == call => Some(*effect),
            _ => None,
        })
        .unwrap_or(Effect::Irreversible)
}
