//! Turn: the decisions of a turn. What it is told, what it wants done; no clock, no I/O.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::history::Past;
use crate::{
    approvals::record::Execution,
    clock::Timestamp,
    engine::{Block, EngineFailure, FixedMessages, JoinedWords, Message, Paid, StepReply},
    file::FileRef,
    frame::Progress,
    history::{Fact, Origin, Trigger},
    ids::{ApprovalId, CallId, TaskId, TurnId},
    inbox::Shown,
    journal::thread::Earlier,
    shared_list::SharedList,
    task::{
        Label, Task, Wait, WaitReason,
        outcome::{Code, Ending},
    },
    tool::{Checked, Stow, ToolCall, ToolReply},
    usage::Usage,
};

mod backoff;
mod compacting;
pub(super) mod conversation;
pub(super) mod digest;
pub(super) mod ending;
mod holding;
pub(super) mod resume;
pub(super) mod slot;
mod stepping;
pub(super) mod telling;

use conversation::Conversation;
use slot::{CallState, Held, Slot};
use telling::user;

/// Calls of one step that run at a time.
const PARALLEL_CALLS: usize = 8;

/// Something a turn hears.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// The model answered; each call it asks for has been looked at.
    Replied(StepReply, Vec<Result<Checked, ToolReply>>),
    /// The model could not be had.
    Failed {
        failure: EngineFailure,
        /// The step had begun to say something, which is void.
        said: bool,
        now: Timestamp,
    },
    /// A summary was asked for: it, if it could be had, and what it cost.
    Summarised(Option<String>, Option<Paid>),
    Called {
        id: CallId,
        reply: ToolReply,
        took: Duration,
    },
    Steered(Box<Task>),
    /// It cannot go on before something outside has happened.
    Wait(Wait),
    /// The turn is to end now. The text that was streaming goes with it.
    Stop(Stop, String),
}

/// Why a turn is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A person said so.
    Cancelled,
    /// A newer message takes its place.
    Interrupted,
    Deadline,
    Stalled,
}

/// Something a turn wants done. An effect waits for those before it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Want {
    /// Make this durable, and tell it, before all that follows.
    Record(Vec<Fact>, Vec<Progress>),
    /// Keep secrets that were taken out of calls, before all that follows.
    Stash(Vec<Stow>),
    /// The same as [`Want::Record`], with calls that wait for a person.
    Hold(Vec<Fact>, Vec<Progress>, Vec<Held>),
    /// An approved call is about to run, or has run.
    Mark(ApprovalId, Execution),
    CallModel,
    Summarise(String),
    CallTool {
        call: ToolCall,
        /// An earlier try may have taken effect.
        rerun: bool,
    },
    StopCalls,
    /// The end, durable with its last facts.
    End(Vec<Fact>, End),
    /// Not yet the end: the turn goes on when something outside has happened.
    Park(Vec<Fact>, Vec<Progress>, Wait),
    /// Not yet the end: the task goes back and is tried again after a pause.
    Suspend(Vec<Fact>, Vec<Progress>, Duration),
}

impl Want {
    /// It begins something that runs.
    pub(super) fn begins(&self) -> bool {
        matches!(self, Self::CallModel | Self::Summarise(_) | Self::CallTool { .. })
    }

    /// An end that waits for its tools takes in what one of them said when it was stopped.
    pub(super) fn hear_late(&mut self, call: &CallId, reply: &ToolReply, took: Duration) {
        if let Self::End(facts, _) = self {
            telling::hear_late(facts, call, reply, took);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub(super) ending: Ending,
    pub(super) code: Option<Code>,
    pub(super) message: Option<String>,
    /// The answer, or what there was of it.
    pub(super) text: String,
    pub(super) truncated: bool,
}

/// One turn: a pure state machine. The same inputs give the same effects.
#[derive(Debug)]
pub(super) struct Turn {
    id: TurnId,
    task: Task,
    max_steps: u32,
    /// The present step, from 1.
    pub(super) step: u32,
    conversation: Conversation,
    /// The conversation is being made smaller.
    compacting: Option<PendingCompaction>,
    /// The past of its session is being summarised: that is its task.
    past: Option<Past>,
    /// The step whose conversation the provider found too long.
    overflowed: Option<u32>,
    /// How often a model was called for a summary.
    summaries: u32,
    calls: Vec<Slot>,
    /// Messages that joined and wait for the next model call.
    steered: Vec<Task>,
    said: Vec<String>,
    /// How often the store has refused a step or an end of it.
    refusals: u32,
    tools_used: Vec<String>,
    /// What the model calls cost so far, those that gave no answer included.
    pub(super) usage: Usage,
    /// How far what it has read may be believed. It only falls.
    pub(super) label: Label,
    /// The same when it began: what of earlier turns it is shown.
    reader: Label,
    /// What it reported about its run.
    pub(super) report: Option<Value>,
    /// What it waited for since the model last answered, and how often.
    waited: Option<(WaitReason, u32)>,
    /// The last thing that the engine said beside its answer: it may be why nothing moves.
    pub(super) remark: Option<String>,
    /// It has decided how it ends.
    pub(super) ended: bool,
}

/// A conversation on its way to become smaller.
#[derive(Debug)]
struct PendingCompaction {
    trigger: Trigger,
    tokens_before: u64,
    /// What is kept, if the rest is being summarised.
    cut: Option<Cut>,
    shortened_over: Option<usize>,
    cause: Option<String>,
}

/// From where on a conversation is kept.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// From the event that begins an earlier turn, or this one.
    Earlier(u64),
    /// From a step of this turn.
    Own(u32),
}

impl Turn {
    pub(super) fn new(id: TurnId, task: Task, max_steps: u32) -> Self {
        let conversation = Conversation::new(task.body.clone(), u64::MAX, 0);
        let label = task.label;
        Self {
            id,
            task,
            max_steps,
            step: 0,
            conversation,
            compacting: None,
            past: None,
            overflowed: None,
            summaries: 0,
            calls: Vec::new(),
            steered: Vec::new(),
            said: Vec::new(),
            refusals: 0,
            tools_used: Vec::new(),
            usage: Usage::default(),
            label,
            reader: label,
            report: None,
            waited: None,
            remark: None,
            ended: false,
        }
    }

    /// The same for a model that reads so many tokens at once, behind earlier turns. What it reads besides the
    /// conversation has so many characters.
    pub(super) fn within(self, room: u64, overhead: usize, earlier: Earlier) -> Self {
        let conversation = Conversation::new(self.task.body.clone(), room, overhead);
        Self { conversation: conversation.behind(earlier), ..self }
    }

    /// The same with tools that let its words be believed no further.
    pub(super) fn labelled(mut self, label: Label) -> Self {
        self.label = self.label.max(label);
        self.reader = self.label;
        self
    }

    /// Begins: `start` is the fact that opens the turn, `files` what its task came with.
    pub(super) fn begin(&mut self, start: Fact, inbox: &Shown, files: Vec<FileRef>) -> Vec<Want> {
        let origin = match self.task.source.as_ref().and_then(|source| source.message.as_ref()) {
            Some(_) => Origin::Person,
            None => Origin::Task,
        };
        let mut facts = vec![start];
        if inbox.count > 0 {
            self.label = self.label.max(inbox.label);
            self.conversation.show(&inbox.text);
            facts.push(Fact::User {
                text: inbox.text.clone(),
                from: "inbox".to_owned(),
                origin: Origin::System,
                label: inbox.label,
                task_id: self.task.id.clone(),
                files: Vec::new(),
            });
        }
        facts.push(user(&self.task, origin, files.clone()));
        self.show_files(files);
        let mut wants = vec![Want::Record(facts, Vec::new())];
        wants.extend(self.next_step());
        wants
    }

    /// Shows what the task came with, behind its words.
    fn show_files(&mut self, files: Vec<FileRef>) {
        if !files.is_empty() {
            self.conversation.push(Message::Files(files), 0);
        }
    }

    pub(super) fn on(&mut self, input: Input) -> Vec<Want> {
        if self.ended {
            return Vec::new();
        }
        if !matches!(input, Input::Stop(..)) {
            self.remark = None;
        }
        match input {
            Input::Replied(reply, checks) => self.replied(reply, checks),
            Input::Failed { failure, said, now } => self.failed(failure, said, now),
            Input::Summarised(text, paid) => self.summarised(text, paid),
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

    pub(super) fn messages(&self) -> Arc<Vec<Message>> {
        self.conversation.messages()
    }

    pub(super) fn earlier(&self) -> SharedList<Arc<FixedMessages>> {
        self.conversation.earlier()
    }

    /// About how many tokens the next call reads.
    pub(super) fn size(&self) -> u64 {
        self.conversation.size()
    }

    /// How many model calls were made.
    pub(super) fn requests(&self) -> u64 {
        u64::from(self.step) + u64::from(self.summaries)
    }

    /// The longest that a running call of this step may take.
    pub(super) fn longest_call(&self) -> Option<Duration> {
        self.calls
            .iter()
            .filter(|slot| slot.state == CallState::Running)
            .map(|slot| slot.checked.as_ref().map_or(Duration::ZERO, |checked| checked.limit))
            .max()
    }

    /// The key that is the same for every try of a call of the present step.
    pub(super) fn idempotency_key(&self, call: &CallId) -> String {
        let place = self.calls.iter().position(|slot| slot.call.id == *call);
        self.key_at(place.unwrap_or(self.calls.len()))
    }

    /// The decision that lets a call of the present step run.
    pub(super) fn approval_of(&self, call: &CallId) -> Option<&ApprovalId> {
        let slot = self.calls.iter().find(|slot| slot.call.id == *call)?;
        slot.approval.as_ref()
    }

    /// The arguments of a call of a late step, as text.
    pub(super) fn arguments_of(&self, call: &CallId) -> Option<String> {
        let messages = self.conversation.messages();
        let mut blocks = messages.iter().rev().flat_map(|message| match message {
            Message::Assistant(blocks) => blocks.as_slice(),
            _ => &[],
        });
        blocks.find_map(|block| match block {
            Block::Call(found) if found.id == *call => Some(found.args.to_string()),
            _ => None,
        })
    }

    fn key_at(&self, place: usize) -> String {
        format!("{}:{}:{place}", self.id, self.step)
    }

    /// A message that joined is taken back. If the model was shown it already, that stays as it is.
    pub(super) fn withdraw(&mut self, task: &TaskId) {
        self.steered.retain(|joined| joined.id != *task);
    }

    /// The first words that the model said in this turn.
    pub(super) fn first_words(&self) -> &str {
        self.said.first().map_or("", String::as_str)
    }

    fn next_step(&mut self) -> Vec<Want> {
        let mut wants = Vec::new();
        if !self.steered.is_empty() {
            let joined = std::mem::take(&mut self.steered);
            let worst = joined.iter().map(|task| task.label).max();
            self.label = self.label.max(worst.unwrap_or_default());
            let facts = joined.iter().map(|task| user(task, Origin::Steer, Vec::new())).collect();
            for Task { body: text, from, label, id: task, .. } in joined {
                let words = JoinedWords { text, from, label, task };
                self.conversation.push(Message::Joined(words), self.step);
            }
            wants.push(Want::Record(facts, Vec::new()));
        }
        if self.step >= self.max_steps {
            let notice = format!("Stopped after {} steps without a final answer.", self.step);
            wants.push(Want::End(Vec::new(), self.fail(Code::StepLimit, notice)));
            return wants;
        }
        self.step += 1;
        wants.extend(self.call(Trigger::Size, None));
        wants
    }
}

#[cfg(test)]
mod tests;
