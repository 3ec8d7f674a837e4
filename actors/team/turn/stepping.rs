//! Step: what the model answered, and the calls that it asked for.

use std::time::Duration;

use super::{
    PARALLEL_CALLS, Turn, Want,
    slot::{CallState, Held, Slot},
    telling::{call_frame, text_of},
};
use crate::{
    approvals::record::Execution,
    engine::{Block, Message, StepReply},
    excerpt,
    frame::{Progress, ProgressKind},
    history::{Fact, Meta},
    ids::CallId,
    task::Label,
    tool::{Checked, Effect, Stow, ToolCall, ToolReply},
};

/// A text block holds at most this many bytes.
const LONGEST_BLOCK: usize = 1 << 20;

/// What becomes durable before the calls of a step run.
#[derive(Default)]
pub(super) struct Opening {
    pub(super) facts: Vec<Fact>,
    pub(super) frames: Vec<Progress>,
    /// What became of approved calls.
    pub(super) marks: Vec<Want>,
    pub(super) stows: Vec<Stow>,
    pub(super) held: Vec<Held>,
}

impl Opening {
    pub(super) fn tell(&mut self, (fact, frame): (Fact, Progress)) {
        self.facts.push(fact);
        self.frames.push(frame);
    }

    fn into_wants(self) -> Vec<Want> {
        let Self { facts, frames, marks, stows, held } = self;
        // Marks come before results: a call whose result is in the journal is not looked at again.
        let mut wants = marks;
        if !stows.is_empty() {
            wants.push(Want::Stash(stows));
        }
        wants.push(if held.is_empty() {
            Want::Record(facts, frames)
        } else {
            Want::Hold(facts, frames, held)
        });
        wants
    }
}

impl Turn {
    pub(super) fn replied(
        &mut self,
        reply: StepReply,
        mut checks: Vec<Result<Checked, ToolReply>>,
    ) -> Vec<Want> {
        let StepReply { blocks, usage, stop_reason, truncated, profile, model } = bounded(reply);
        self.usage += usage;
        self.waited = None;
        let checked = checks.iter_mut().filter_map(|check| check.as_mut().ok());
        let stows = checked.filter_map(|checked| checked.stow.take()).collect();
        let mut facts = self.block_facts(&blocks);
        let step = self.step;
        facts.push(Fact::Meta(Meta::Usage { step, profile, model, usage, stop_reason }));
        let text = text_of(&blocks);
        if !text.is_empty() {
            self.said.push(text.clone());
        }
        let calls = blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call.clone()),
            _ => None,
        });
        let calls: Vec<ToolCall> = calls.collect();
        if calls.is_empty() && self.steered.is_empty() {
            return vec![Want::End(facts, self.answer(text, truncated))];
        }
        if !blocks.is_empty() {
            self.conversation.push(Message::Assistant(blocks), step);
        }
        self.conversation.count(&usage);
        let mut opening = Opening { facts, stows, ..Opening::default() };
        if calls.is_empty() && !text.is_empty() {
            // No call parts what this step said from what the next one says.
            let words = "A message has joined: the turn goes on with it.";
            opening.frames.push(Progress::new(ProgressKind::Note, words));
        }
        self.open_calls(calls, checks, &mut opening);
        self.proceed_with(opening)
    }

    /// Takes up the calls of a step. All of them are told before the results of those that were refused.
    fn open_calls(
        &mut self,
        calls: Vec<ToolCall>,
        checks: Vec<Result<Checked, ToolReply>>,
        opening: &mut Opening,
    ) {
        let mut refused = Vec::new();
        for (call, verdict) in calls.into_iter().zip(checks) {
            opening.tell((self.call_fact(&call, verdict.as_ref().ok()), call_frame(&call)));
            self.tools_used.push(call.name.clone());
            let state = CallState::Waiting { rerun: false };
            let mut slot = Slot { call, checked: None, approval: None, state };
            match verdict {
                Ok(checked) => {
                    let key = self.key_at(self.calls.len());
                    opening.held.extend(slot.admit(checked, key, false));
                }
                Err(refusal) => refused.push(slot.finish(&refusal, Duration::ZERO)),
            }
            self.calls.push(slot);
        }
        refused.into_iter().for_each(|result| opening.tell(result));
    }

    fn block_facts(&self, blocks: &[Block]) -> Vec<Fact> {
        let step = self.step;
        let facts = blocks.iter().filter_map(|block| match block.clone() {
            Block::Text { text } => Some(Fact::AssistantText { text, step }),
            Block::Thinking { text, block } => Some(Fact::AssistantThinking { text, step, block }),
            Block::Call(_) => None,
        });
        facts.collect()
    }

    fn call_fact(&self, call: &ToolCall, checked: Option<&Checked>) -> Fact {
        Fact::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            args: serde_json::to_value(&call.args).unwrap_or_default(),
            step: self.step,
            effect: checked.map_or(Effect::Pure, |checked| checked.effect),
            idempotency_key: self.key_at(self.calls.len()),
        }
    }

    pub(super) fn proceed_with(&mut self, opening: Opening) -> Vec<Want> {
        let mut wants = opening.into_wants();
        wants.extend(self.proceed());
        wants
    }

    /// Starts the calls that may run now; when all have ended, the next step.
    fn proceed(&mut self) -> Vec<Want> {
        let mut wants = Vec::new();
        let mut running = self.calls.iter().filter(|slot| slot.state == CallState::Running).count();
        for slot in &mut self.calls {
            let exclusive = slot.checked.as_ref().is_some_and(|checked| checked.exclusive);
            match slot.state {
                CallState::Done(_) | CallState::Held => {}
                CallState::Running if exclusive => break,
                CallState::Running => {}
                CallState::Waiting { .. } if slot.lacks().is_some() => {}
                CallState::Waiting { rerun } => {
                    if running >= PARALLEL_CALLS || (exclusive && running > 0) {
                        break;
                    }
                    slot.state = CallState::Running;
                    running += 1;
                    if let Some(approval) = &slot.approval {
                        wants.push(Want::Mark(approval.clone(), Execution::Running));
                    }
                    wants.push(Want::CallTool { call: slot.call.clone(), rerun });
                    if exclusive {
                        break;
                    }
                }
            }
        }
        if !wants.is_empty() {
            return wants;
        }
        if self.calls.iter().all(Slot::is_done) {
            self.fold_results();
            return self.next_step();
        }
        if self.waits_for_a_person() {
            return self.wait_for_a_person();
        }
        if running == 0 { self.wait_for_what_lacks() } else { wants }
    }

    /// The results of the step become part of the conversation, in call order.
    pub(super) fn fold_results(&mut self) {
        let results = self.calls.drain(..).filter_map(|slot| match slot.state {
            CallState::Done(output) => Some(output),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        if !results.is_empty() {
            self.conversation.push(Message::ToolResults(results), self.step);
        }
    }

    pub(super) fn called(&mut self, id: &CallId, reply: ToolReply, took: Duration) -> Vec<Want> {
        let runs = |slot: &&mut Slot| slot.call.id == *id && slot.state == CallState::Running;
        let Some(slot) = self.calls.iter_mut().find(runs) else { return Vec::new() };
        if reply.taints {
            self.label = Label::Untrusted;
        }
        self.report = slot.report(reply.fault).or(self.report.take());
        let mut opening = Opening::default();
        opening.tell(slot.finish(&reply, took));
        if let Some(approval) = &slot.approval {
            let execution = match reply.fault {
                None => Execution::Done,
                Some(_) => Execution::Failed,
            };
            opening.marks.push(Want::Mark(approval.clone(), execution));
        }
        self.proceed_with(opening)
    }
}

/// The reply, with its texts no longer than they may be.
fn bounded(mut reply: StepReply) -> StepReply {
    for block in &mut reply.blocks {
        if let Block::Text { text } = block
            && text.len() > LONGEST_BLOCK
        {
            *text = excerpt::framed(text, LONGEST_BLOCK, "a text holds no more").0;
            reply.truncated = true;
        }
    }
    reply
}
