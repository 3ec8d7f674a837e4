//! Turn: the decisions of a turn. What it is told, what it wants done; no clock, no I/O.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    approvals::record::Execution,
    clock::Timestamp,
    engine::{Block, EngineFailure, Message, StepReply, ToolOutput},
    event::{Progress, ProgressKind},
    history::{Fact, Meta, Origin},
    ids::{ApprovalId, CallId, TaskId, TurnId},
    inbox::Shown,
    task::{Code, Ending, Label, MAX_ATTEMPTS, Task, Wait, WaitReason},
    tool::{Args, Asking, Checked, Effect, Stow, ToolCall, ToolFault, ToolReply, Verdict},
    usage::Usage,
};

mod holding;
mod resume;
mod telling;
mod waiting;

pub use holding::Decision;
use telling::{call_frame, output, result, text_of, user};

/// The tool by which the turn of a trigger says how its run went. Its last call counts.
pub const REPORT_RUN: &str = "report_run";
/// Calls of one step that run at a time.
const PARALLEL_CALLS: usize = 8;

/// Something a turn hears.
#[derive(Clone, Debug)]
pub enum Input {
    /// The model answered; each call it asks for has been looked at.
    Replied(StepReply, Vec<Result<Checked, ToolReply>>),
    /// The model could not be had.
    Failed {
        /// Why.
        failure: EngineFailure,
        /// The step had begun to say something, which is void.
        said: bool,
        /// The present moment.
        now: Timestamp,
    },
    /// A call ended.
    Called {
        /// Which.
        id: CallId,
        /// How.
        reply: ToolReply,
        /// How long it took.
        took: Duration,
    },
    /// A message joins the turn.
    Steered(Box<Task>),
    /// It cannot go on before something outside has happened.
    Wait(Wait),
    /// The turn is to end now. The text that was streaming goes with it.
    Stop(Stop, String),
}

/// Why a turn is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A person said so.
    Cancelled,
    /// A newer message takes its place.
    Interrupted,
    /// Its time is up.
    Deadline,
    /// Nothing moved for too long.
    Stalled,
}

/// Something a turn wants done. An effect waits for those before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// Make this durable, and tell it, before all that follows.
    Record(Vec<Fact>, Vec<Progress>),
    /// Keep secrets that were taken out of calls, before all that follows.
    Stash(Vec<Stow>),
    /// The same as [`Want::Record`], with calls that wait for a person.
    Hold(Vec<Fact>, Vec<Progress>, Vec<Held>),
    /// An approved call is about to run, or has run.
    Mark(ApprovalId, Execution),
    /// Call the model with the conversation.
    CallModel,
    /// Run a tool.
    CallTool {
        /// The call.
        call: ToolCall,
        /// An earlier try may have taken effect.
        rerun: bool,
    },
    /// Stop what runs.
    StopCalls,
    /// The end, durable with its last facts.
    End(Vec<Fact>, End),
    /// Not yet the end: the turn goes on when something outside has happened.
    Park(Vec<Fact>, Vec<Progress>, Wait),
    /// Not yet the end: the task goes back and is tried again after a pause.
    Suspend(Vec<Fact>, Vec<Progress>, Duration),
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The call.
    pub call: ToolCall,
    /// The same for every try of it.
    pub key: String,
    /// Why.
    pub asking: Asking,
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How.
    pub ending: Ending,
    /// Why, if not well.
    pub code: Option<Code>,
    /// Why, in words.
    pub message: Option<String>,
    /// The answer, or what there was of it.
    pub text: String,
}

/// One turn: a pure state machine. The same inputs give the same effects.
#[derive(Debug)]
pub struct Turn {
    id: TurnId,
    task: Task,
    max_steps: u32,
    step: u32,
    messages: Arc<Vec<Message>>,
    calls: Vec<Slot>,
    /// Messages that joined and wait for the next model call.
    steered: Vec<Task>,
    said: Vec<String>,
    tools_used: Vec<String>,
    usage: Usage,
    label: Label,
    report: Option<Value>,
    /// What it waited for since the model last answered, and how often.
    waited: Option<(WaitReason, u32)>,
    ended: bool,
}

/// A call of the present step.
#[derive(Debug)]
struct Slot {
    call: ToolCall,
    checked: Option<Checked>,
    /// The decision that lets it run.
    approval: Option<ApprovalId>,
    state: CallState,
}

#[derive(Debug, PartialEq)]
enum CallState {
    Waiting {
        rerun: bool,
    },
    /// For a person.
    Held,
    Running,
    Done(ToolOutput),
}

impl Turn {
    /// A turn that has not begun.
    pub fn new(id: TurnId, task: Task, max_steps: u32) -> Self {
        let messages = Arc::new(vec![Message::User(task.body.clone())]);
        let label = task.label;
        Self {
            id,
            task,
            max_steps,
            step: 0,
            messages,
            calls: Vec::new(),
            steered: Vec::new(),
            said: Vec::new(),
            tools_used: Vec::new(),
            usage: Usage::default(),
            label,
            report: None,
            waited: None,
            ended: false,
        }
    }

    /// Begins: `start` is the fact that opens the turn.
    pub fn begin(&mut self, start: Fact, inbox: &Shown) -> Vec<Want> {
        let origin = match self
            .task
            .source
            .as_ref()
            .and_then(|source| source.message.as_ref())
        {
            Some(_) => Origin::Person,
            None => Origin::Task,
        };
        let mut facts = vec![start];
        if inbox.count > 0 {
            self.label = self.label.max(inbox.label);
            self.show(&inbox.text);
            facts.push(Fact::User {
                text: inbox.text.clone(),
                from: "inbox".to_owned(),
                origin: Origin::System,
                label: inbox.label,
                task_id: self.task.id.clone(),
            });
        }
        facts.push(user(&self.task, origin));
        let mut wants = vec![Want::Record(facts, Vec::new())];
        wants.extend(self.next_step());
        wants
    }

    /// Puts what happened before in front of the task.
    fn show(&mut self, before: &str) {
        if let Some(Message::User(text)) = Arc::make_mut(&mut self.messages).first_mut() {
            text.insert_str(0, before);
        }
    }

    /// Hears something.
    pub fn on(&mut self, input: Input) -> Vec<Want> {
        if self.ended {
            return Vec::new();
        }
        match input {
            Input::Replied(reply, checks) => self.replied(reply, checks),
            Input::Failed { failure, said, now } => self.failed(failure, said, now),
            Input::Called { id, reply, took } => self.called(&id, reply, took),
            Input::Steered(task) => {
                self.steered.push(*task);
                self.steered.sort_by_key(|task| task.arrival);
                Vec::new()
            }
            Input::Wait(wait) => self.park(wait, false),
            Input::Stop(stop, streaming) => self.stop(stop, streaming),
        }
    }

    /// The conversation so far.
    pub fn messages(&self) -> Arc<Vec<Message>> {
        self.messages.clone()
    }

    /// It has decided how it ends.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// It ends outside of its own decisions: it hears nothing more.
    pub fn abandon(&mut self) {
        self.ended = true;
    }

    /// What it reported about its run.
    pub fn report(&self) -> Option<&Value> {
        self.report.as_ref()
    }

    /// How far what it has read may be believed. It only falls.
    pub fn label(&self) -> Label {
        self.label
    }

    /// The present step, from 1.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// What the model calls cost so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// A call that gave no answer has cost something.
    pub fn spend(&mut self, usage: Usage) {
        self.usage += usage;
    }

    /// The longest that a running call of this step may take.
    pub fn longest_call(&self) -> Option<Duration> {
        self.calls
            .iter()
            .filter(|slot| slot.state == CallState::Running)
            .map(|slot| {
                slot.checked
                    .as_ref()
                    .map_or(Duration::ZERO, |checked| checked.limit)
            })
            .max()
    }

    /// The key that is the same for every try of a call of the present step.
    pub fn idempotency_key(&self, call: &CallId) -> String {
        let place = self.calls.iter().position(|slot| slot.call.id == *call);
        self.key_at(place.unwrap_or(self.calls.len()))
    }

    /// The decision that lets a call of the present step run.
    pub fn approval_of(&self, call: &CallId) -> Option<&ApprovalId> {
        let slot = self.calls.iter().find(|slot| slot.call.id == *call)?;
        slot.approval.as_ref()
    }

    fn key_at(&self, place: usize) -> String {
        format!("{}:{}:{place}", self.id, self.step)
    }

    /// A message that joined is taken back. If the model was shown it already, that stays as it is.
    pub fn withdraw(&mut self, task: &TaskId) {
        self.steered.retain(|joined| joined.id != *task);
    }

    /// The first words that the model said in this turn.
    pub fn first_words(&self) -> &str {
        self.said.first().map_or("", String::as_str)
    }

    fn next_step(&mut self) -> Vec<Want> {
        let mut wants = Vec::new();
        if !self.steered.is_empty() {
            let joined = std::mem::take(&mut self.steered);
            let worst = joined.iter().map(|task| task.label).max();
            self.label = self.label.max(worst.unwrap_or_default());
            let facts = joined
                .iter()
                .map(|task| user(task, Origin::Steer))
                .collect();
            let texts = joined.into_iter().map(|task| Message::User(task.body));
            Arc::make_mut(&mut self.messages).extend(texts);
            wants.push(Want::Record(facts, Vec::new()));
        }
        if self.step >= self.max_steps {
            let notice = format!("Stopped after {} steps without a final answer.", self.step);
            wants.push(self.end(
                Ending::Failed,
                Some(Code::StepLimit),
                Some(notice),
                String::new(),
            ));
            return wants;
        }
        self.step += 1;
        wants.push(Want::CallModel);
        wants
    }

    fn replied(
        &mut self,
        reply: StepReply,
        mut checks: Vec<Result<Checked, ToolReply>>,
    ) -> Vec<Want> {
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
            Arc::make_mut(&mut self.messages).push(Message::Assistant(reply.blocks));
        }
        let mut frames = Vec::new();
        let mut refusals = Vec::new();
        let mut held = Vec::new();
        for (call, verdict) in calls.into_iter().zip(checks) {
            let checked = verdict.as_ref().ok();
            facts.push(self.call_fact(&call, checked));
            frames.push(call_frame(&call));
            self.tools_used.push(call.name.clone());
            let state = match &verdict {
                Ok(Checked {
                    verdict: Verdict::Ask(asking),
                    ..
                }) => {
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
            self.calls.push(Slot {
                call,
                checked: verdict.ok(),
                approval: None,
                state,
            });
        }
        for (fact, frame) in refusals {
            facts.push(fact);
            frames.push(frame);
        }
        let mut wants = Vec::new();
        if !stows.is_empty() {
            wants.push(Want::Stash(stows));
        }
        wants.push(match held.is_empty() {
            true => Want::Record(facts, frames),
            false => Want::Hold(facts, frames, held),
        });
        wants.extend(self.proceed());
        wants
    }

    fn block_facts(&self, blocks: &[Block]) -> Vec<Fact> {
        blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => Some(Fact::AssistantText {
                    text: text.clone(),
                    step: self.step,
                }),
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
    fn proceed(&mut self) -> Vec<Want> {
        let mut wants = Vec::new();
        let mut running = self
            .calls
            .iter()
            .filter(|slot| slot.state == CallState::Running)
            .count();
        for slot in &mut self.calls {
            let exclusive = slot
                .checked
                .as_ref()
                .is_some_and(|checked| checked.exclusive);
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
                    wants.push(Want::CallTool {
                        call: slot.call.clone(),
                        rerun,
                    });
                    if exclusive {
                        break;
                    }
                }
            }
        }
        let all_done = self
            .calls
            .iter()
            .all(|slot| matches!(slot.state, CallState::Done(_)));
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
    fn fold_results(&mut self) {
        let results: Vec<_> = self
            .calls
            .drain(..)
            .filter_map(|slot| match slot.state {
                CallState::Done(output) => Some(output),
                _ => None,
            })
            .collect();
        if !results.is_empty() {
            Arc::make_mut(&mut self.messages).push(Message::ToolResults(results));
        }
    }

    fn called(&mut self, id: &CallId, reply: ToolReply, took: Duration) -> Vec<Want> {
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
        let (fact, frame) = result(&slot.call, &reply, took);
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

    fn answer(&mut self, text: String, truncated: bool) -> Want {
        if text.trim().is_empty() {
            let tools = match self.tools_used.as_slice() {
                [] => "no tool ran".to_owned(),
                used => format!("tools that ran: {}", used.join(", ")),
            };
            let message = format!("the model answered with nothing ({tools})");
            return self.end(
                Ending::Failed,
                Some(Code::EmptyAnswer),
                Some(message),
                String::new(),
            );
        }
        let message =
            truncated.then(|| "the answer was cut by the model's output limit".to_owned());
        self.ended = true;
        Want::End(
            Vec::new(),
            End {
                ending: Ending::Done,
                code: None,
                message,
                text,
            },
        )
    }

    fn failed(&mut self, failure: EngineFailure, said: bool, now: Timestamp) -> Vec<Want> {
        if let Some(reason) = waiting::reason(&failure) {
            let wait = waiting::wait(reason, &failure, self.times_waited(reason), now);
            return self.park(wait, said);
        }
        let EngineFailure { code, message, .. } = failure;
        if code.is_transient() {
            return self.give_back(code, message);
        }
        vec![self.end(Ending::Failed, Some(code), Some(message), String::new())]
    }

    /// A passing failure: the task is tried again, up to its last attempt.
    fn give_back(&mut self, code: Code, message: String) -> Vec<Want> {
        self.ended = true;
        let Some(pause) = pause_after(self.task.attempts) else {
            let message = format!("{message} (given up after {} attempts)", self.task.attempts);
            return vec![self.end(Ending::Dead, Some(code), Some(message), String::new())];
        };
        let seconds = pause.as_secs();
        let mut note = Progress::new(
            ProgressKind::Note,
            format!("{message}. Trying again in {seconds} s."),
        );
        note.reset = true;
        vec![Want::Suspend(
            vec![Fact::TurnSuspended { code, message }],
            vec![note],
            pause,
        )]
    }

    fn stop(&mut self, stop: Stop, streaming: String) -> Vec<Want> {
        let mut facts = Vec::new();
        for slot in &mut self.calls {
            if !matches!(slot.state, CallState::Done(_)) && stop != Stop::Stalled {
                let reply = ToolReply::failed(ToolFault::Cancelled, "cancelled");
                facts.push(result(&slot.call, &reply, Duration::ZERO).0);
            }
        }
        if !streaming.is_empty() {
            facts.push(Fact::AssistantText {
                text: streaming.clone(),
                step: self.step,
            });
        }
        let mut wants = vec![Want::StopCalls];
        let (ending, code, message) = match stop {
            Stop::Cancelled => (Ending::Cancelled, Code::Cancelled, None),
            Stop::Interrupted => (Ending::Cancelled, Code::Interrupted, None),
            Stop::Deadline => (
                Ending::Expired,
                Code::Deadline,
                Some("the turn ran out of time".to_owned()),
            ),
            Stop::Stalled => {
                wants
                    .extend(self.give_back(Code::Stalled, "nothing moved for too long".to_owned()));
                return wants;
            }
        };
        if let Want::End(last, end) = self.end(ending, Some(code), message, streaming) {
            facts.extend(last);
            wants.push(Want::End(facts, end));
        }
        wants
    }

    /// An end that is not an answer keeps all that was said.
    fn end(
        &mut self,
        ending: Ending,
        code: Option<Code>,
        message: Option<String>,
        streaming: String,
    ) -> Want {
        self.ended = true;
        let mut said = self.said.clone();
        if !streaming.trim().is_empty() {
            said.push(streaming);
        }
        Want::End(
            Vec::new(),
            End {
                ending,
                code,
                message,
                text: said.join("\n\n"),
            },
        )
    }
}

/// The pause before the next attempt; none if this was the last.
pub fn pause_after(attempts: u32) -> Option<Duration> {
    match attempts {
        0 | 1 => Some(Duration::from_secs(30)),
        made if made < MAX_ATTEMPTS => Some(Duration::from_secs(120)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
