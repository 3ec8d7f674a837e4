//! How a turn goes on after a crash or a pause: from what the journal holds.

use std::{sync::Arc, time::Duration};

use super::{
    CallState, Decision, REPORT_RUN, Slot, Turn, Want,
    holding::unknown,
    telling::{output, result, text_of},
};
use crate::{
    engine::{Block, Message, ToolOutput},
    event::{Progress, ProgressKind},
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::{ApprovalId, CallId},
    task::Label,
    tool::{Args, Checked, Effect, ToolCall, ToolReply},
};

impl Turn {
    /// Goes on after a crash or a pause, from what the journal holds. Completed steps are never
    /// repeated; a call in flight is treated by its effect.
    pub fn resume(
        &mut self,
        start: Fact,
        journal: &[HistoryEvent],
        check: impl Fn(&ToolCall) -> Result<Checked, ToolReply>,
        decided: impl Fn(&ApprovalId, &ToolCall) -> Decision,
    ) -> Vec<Want> {
        self.replay(journal);
        let mut facts = vec![start];
        let mut frames = Vec::new();
        if !self.calls.is_empty() {
            let mut marks = Vec::new();
            for place in 0..self.calls.len() {
                let Slot {
                    call,
                    approval,
                    state: CallState::Waiting { rerun },
                    ..
                } = &self.calls[place]
                else {
                    continue;
                };
                let effect = match rerun {
                    true => effect_of(journal, &call.id),
                    // It has not begun, so it may.
                    false => Effect::Pure,
                };
                let verdict = check(call);
                match approval {
                    Some(approval) => {
                        let decision = decided(approval, call);
                        let (facts, frames) = (&mut facts, &mut frames);
                        marks.extend(self.take_up(place, effect, decision, verdict, facts, frames));
                    }
                    None => self.retake(place, effect, verdict, &mut facts, &mut frames),
                }
            }
            // Before the results: a call whose result is in the journal is not looked at again.
            let mut wants = marks;
            wants.push(Want::Record(facts, frames));
            wants.extend(self.proceed());
            return wants;
        }
        if let Some(Message::Assistant(blocks)) = self.messages.last() {
            // The answer is there; only the end was not written.
            let end = self.answer(text_of(blocks), false);
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

    /// Folds a journal into the state it describes.
    fn replay(&mut self, journal: &[HistoryEvent]) {
        let mut blocks: Vec<Block> = Vec::new();
        for event in journal {
            match &event.fact {
                Fact::AssistantText { text, step } => {
                    self.open_step(*step);
                    blocks.push(Block::Text { text: text.clone() });
                }
                Fact::AssistantThinking { text, step, block } => {
                    self.open_step(*step);
                    blocks.push(Block::Thinking {
                        text: text.clone(),
                        block: block.clone(),
                    });
                }
                Fact::ToolCall {
                    id,
                    name,
                    args,
                    step,
                    ..
                } => {
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
                        state: CallState::Waiting { rerun: true },
                    });
                }
                Fact::ToolResult {
                    id,
                    content,
                    fault,
                    taints,
                    ..
                } => {
                    if *taints {
                        self.label = Label::Untrusted;
                    }
                    self.take_blocks(&mut blocks);
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
                    if self
                        .calls
                        .iter()
                        .all(|slot| matches!(slot.state, CallState::Done(_)))
                    {
                        self.fold_results();
                    }
                }
                Fact::User {
                    text,
                    origin: Origin::Steer,
                    label,
                    ..
                } => {
                    self.label = self.label.max(*label);
                    self.take_blocks(&mut blocks);
                    Arc::make_mut(&mut self.messages).push(Message::User(text.clone()));
                }
                Fact::User {
                    text,
                    origin: Origin::System,
                    label,
                    ..
                } => {
                    self.label = self.label.max(*label);
                    self.show(text);
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
                }
                Fact::Meta(Meta::Spent { usage, .. }) => self.usage += *usage,
                Fact::Meta(Meta::Parked(reason)) => self.waits_for(*reason),
                Fact::Meta(Meta::NotBegun(call)) => self.mark_begun(Some(call), false),
                // Whatever waited may have begun since.
                Fact::TurnStart { .. } => self.mark_begun(None, true),
                _ => {}
            }
        }
        self.take_blocks(&mut blocks);
    }

    /// Whether waiting calls, or one of them, may have taken effect.
    fn mark_begun(&mut self, call: Option<&CallId>, begun: bool) {
        for slot in &mut self.calls {
            if let CallState::Waiting { rerun } = &mut slot.state
                && call.is_none_or(|call| slot.call.id == *call)
            {
                *rerun = begun;
            }
        }
    }

    fn open_step(&mut self, step: u32) {
        self.step = self.step.max(step);
    }

    fn take_blocks(&mut self, blocks: &mut Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        let blocks = std::mem::take(blocks);
        let text = text_of(&blocks);
        if !text.is_empty() {
            self.said.push(text);
        }
        Arc::make_mut(&mut self.messages).push(Message::Assistant(blocks));
    }

    /// Decides a call that was in flight when the process stopped.
    fn retake(
        &mut self,
        place: usize,
        effect: Effect,
        verdict: Result<Checked, ToolReply>,
        facts: &mut Vec<Fact>,
        frames: &mut Vec<Progress>,
    ) {
        let slot = &mut self.calls[place];
        let refusal = match (effect, verdict) {
            (Effect::Irreversible, _) => Some(unknown()),
            (_, Err(refusal)) => Some(refusal),
            (_, Ok(checked)) => {
                slot.checked = Some(checked);
                None
            }
        };
        if let Some(reply) = refusal {
            let (fact, frame) = result(&slot.call, &reply, Duration::ZERO);
            slot.state = CallState::Done(output(&slot.call, &reply));
            facts.push(fact);
            frames.push(frame);
        }
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
