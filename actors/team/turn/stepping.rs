//! A step: what the model answered, and the calls that it asked for.

use std::time::Duration;

use super::{
    CallState, Held, PARALLEL_CALLS, REPORT_RUN, Slot, Turn, Want,
    telling::{call_frame, output, result, text_of},
};
use crate::{
    approvals::record::Execution,
    engine::{Block, Message, StepReply},
    excerpt,
    history::{Fact, Meta},
    ids::CallId,
    task::Label,
    tool::{Args, Checked, Effect, Stow, ToolCall, ToolReply, Verdict},
};

/// A text block holds at most this many bytes.
const LONGEST_BLOCK: usize = 1 << 20;

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

impl Turn {
    pub(super) fn replied(
        &mut self,
        reply: StepReply,
        mut checks: Vec<Result<Checked, ToolReply>>,
    ) -> Vec<Want> {
        let reply = bounded(reply);
        self.usage += reply.usage;
        self.waited = None;
        let checked = checks.iter_mut().filter_map(|check| check.as_mut().ok());
        let stows: Vec<Stow> = checked.filter_map(|checked| checked.stow.take()).collect();
        let mut facts = self.block_facts(&reply.blocks);
        facts.push(Fact::Meta(Meta::Usage {
            step: self.step,
            profile: reply.profile,
            model: reply.model,
            usage: reply.usage,
            stop_reason: reply.stop_reason,
        }));
        let text = text_of(&reply.blocks);
        if !text.is_empty() {
            self.said.push(text.clone());
        }
        let calls: Vec<ToolCall> = reply
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Call(call) => Some(call.clone()),
                _ => None,
            })
            .collect();
        if calls.is_empty() && self.steered.is_empty() {
            return match self.answer(text, reply.truncated) {
                Want::End(mut last, end) => {
                    facts.append(&mut last);
                    vec![Want::End(facts, end)]
                }
                other => vec![other],
            };
        }
        if !reply.blocks.is_empty() {
            let said = Message::Assistant(reply.blocks);
            self.conversation.push(said, self.step);
        }
        self.conversation.count(&reply.usage);
        let mut frames = Vec::new();
        let mut refusals = Vec::new();
        let mut held = Vec::new();
        for (call, verdict) in calls.into_iter().zip(checks) {
            let checked = verdict.as_ref().ok();
            facts.push(self.call_fact(&call, checked));
            frames.push(call_frame(&call));
            self.tools_used.push(call.name.clone());
            let state = match &verdict {
                Ok(Checked { verdict: Verdict::Ask(asking), .. }) => {
                    held.push(Held {
                        call: call.clone(),
                        key: self.key_at(self.calls.len()),
                        asking: asking.clone(),
                    });
                    CallState::Held
                }
                Ok(_) => CallState::Waiting { rerun: false },
                Err(refusal) => {
                    let (fact, frame) = result(&call, refusal, Duration::ZERO);
                    refusals.push((fact, frame));
                    CallState::Done(output(&call, refusal))
                }
            };
            self.calls.push(Slot { call, checked: verdict.ok(), approval: None, state });
        }
        for (fact, frame) in refusals {
            facts.push(fact);
            frames.push(frame);
        }
        let mut wants = Vec::new();
        if !stows.is_empty() {
            wants.push(Want::Stash(stows));
        }
        wants.push(if held.is_empty() {
            Want::Record(facts, frames)
        } else {
            Want::Hold(facts, frames, held)
        });
        wants.extend(self.proceed());
        wants
    }

    fn block_facts(&self, blocks: &[Block]) -> Vec<Fact> {
        blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => {
                    Some(Fact::AssistantText { text: text.clone(), step: self.step })
                }
                Block::Thinking { text, block } => Some(Fact::AssistantThinking {
                    text: text.clone(),
                    step: self.step,
                    block: block.clone(),
                }),
                Block::Call(_) => None,
            })
            .collect()
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

    /// Starts the calls that may run now; when all have ended, the next step.
    pub(super) fn proceed(&mut self) -> Vec<Want> {
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
        let all_done = self.calls.iter().all(|slot| matches!(slot.state, CallState::Done(_)));
        if wants.is_empty() && all_done {
            self.fold_results();
            return self.next_step();
        }
        if wants.is_empty() && self.waits_for_a_person() {
            return self.wait_for_a_person();
        }
        if wants.is_empty() && running == 0 {
            return self.wait_for_what_lacks();
        }
        wants
    }

    /// The results of the step become part of the conversation, in call order.
    pub(super) fn fold_results(&mut self) {
        let results: Vec<_> = self
            .calls
            .drain(..)
            .filter_map(|slot| match slot.state {
                CallState::Done(output) => Some(output),
                _ => None,
            })
            .collect();
        if !results.is_empty() {
            let results = Message::ToolResults(results);
            self.conversation.push(results, self.step);
        }
    }

    pub(super) fn called(&mut self, id: &CallId, reply: ToolReply, took: Duration) -> Vec<Want> {
        let Some(slot) = self
            .calls
            .iter_mut()
            .find(|slot| slot.call.id == *id && slot.state == CallState::Running)
        else {
            return Vec::new();
        };
        if reply.taints {
            self.label = Label::Untrusted;
        }
        if slot.call.name == REPORT_RUN
            && reply.fault.is_none()
            && let Args::Json(args) = &slot.call.args
        {
            self.report = Some(args.clone());
        }
        let (fact, frame) = slot.result(&reply, took);
        slot.state = CallState::Done(output(&slot.call, &reply));
        let mut wants = Vec::new();
        // Before the result: a call whose result is in the journal is not looked at again.
        if let Some(approval) = &slot.approval {
            let execution = match reply.fault {
                None => Execution::Done,
                Some(_) => Execution::Failed,
            };
            wants.push(Want::Mark(approval.clone(), execution));
        }
        wants.push(Want::Record(vec![fact], vec![frame]));
        wants.extend(self.proceed());
        wants
    }
}
