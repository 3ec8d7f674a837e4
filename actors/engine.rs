//! Port: what answers a conversation: an HTTP model API, or a command-line agent.
#![warn(missing_docs)]

use std::{borrow::Cow, fmt, ops::Deref, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio_util::sync::CancellationToken;

use crate::{
    budget::{Overdrawn, Spent},
    file::FileRef,
    ids::{CallId, TaskId, TeamName, TurnId},
    rendered::Rendered,
    shared_list::SharedList,
    task::{Kind, Label, Task, outcome::Code},
    thinking::Thinking,
    tool::{ToolCall, ToolFault, specs::ToolSpecs},
    usage::Usage,
};

/// The system prompt, in the parts that providers cache separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// The same bytes for all teams and sessions.
    pub shared: FixedText,
    /// The same for the turns of one team.
    pub team: FixedText,
    /// Of this turn alone.
    pub turn: String,
}

/// A text that stays the same from call to call, with what engines made of it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FixedText(Arc<(String, Rendered)>);

impl FixedText {
    /// The text in JSON, written when it is first asked for. All wire formats write it alike.
    pub fn json(&self) -> serde_json::Result<&RawValue> {
        let (text, rendered) = &*self.0;
        rendered.get("text", || to_raw_value(text))
    }
}

impl<T: Into<String>> From<T> for FixedText {
    fn from(text: T) -> Self {
        Self(Arc::new((text.into(), Rendered::default())))
    }
}

impl Deref for FixedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Display for FixedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for FixedText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for FixedText {}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// From outside.
    User(String),
    /// The same, from somebody who joined the turn while it ran.
    Joined(JoinedWords),
    /// What came with the words before it.
    Files(Vec<FileRef>),
    /// From the model.
    Assistant(Vec<Block>),
    /// The results of one step, in call order.
    ToolResults(Vec<ToolOutput>),
}

/// Words that joined a turn while it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedWords {
    /// The words.
    pub text: String,
    /// Whose.
    pub from: String,
    /// How far they may be believed.
    pub label: Label,
    /// The task they are.
    pub task: TaskId,
}

/// A part of what the model wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words for the person.
    Text {
        /// The words.
        text: String,
    },
    /// Reasoning.
    Thinking {
        /// As far as it is shown.
        text: String,
        /// The provider's own block, to be sent back unchanged within the turn.
        block: Option<Value>,
    },
    /// A request to use a tool.
    Call(ToolCall),
}

/// A tool result as the conversation holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// Which call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// What the model reads.
    pub content: String,
    /// Why it failed, if it did.
    pub fault: Option<ToolFault>,
    /// What models that see are shown beside it.
    pub pictures: Vec<FileRef>,
}

impl ToolOutput {
    /// What is read of it where only some of its pictures are shown: a line stands for each of the others.
    pub fn words(&self, is_shown: impl Fn(&FileRef) -> bool) -> Cow<'_, str> {
        let hidden: Vec<&FileRef> = self.pictures.iter().filter(|file| !is_shown(file)).collect();
        if hidden.is_empty() {
            return Cow::Borrowed(&self.content);
        }
        let lines = hidden.iter().map(|file| {
            let FileRef { mime, size, .. } = file;
            format!("\n[A picture ({mime}, {size} bytes) is not shown.]")
        });
        Cow::Owned(std::iter::once(self.content.clone()).chain(lines).collect())
    }
}

impl Message {
    /// How many characters it has.
    pub fn characters(&self) -> usize {
        let count = |text: &str| text.chars().count();
        match self {
            Self::User(text) | Self::Joined(JoinedWords { text, .. }) => count(text),
            Self::Files(files) => files.iter().map(FileRef::characters).sum(),
            Self::Assistant(blocks) => blocks
                .iter()
                .map(|block| match block {
                    Block::Text { text } | Block::Thinking { text, .. } => count(text),
                    Block::Call(call) => count(&call.name) + count(&call.args.to_string()),
                })
                .sum(),
            Self::ToolResults(results) => {
                let pictures = results.iter().flat_map(|result| &result.pictures);
                results.iter().map(|result| count(&result.content)).sum::<usize>()
                    + pictures.map(FileRef::characters).sum::<usize>()
            }
        }
    }

    /// The files in it.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        let none: (&[FileRef], &[ToolOutput]) = (&[], &[]);
        let (files, results) = match self {
            Self::Files(files) => (files.as_slice(), none.1),
            Self::ToolResults(results) => (none.0, results.as_slice()),
            Self::User(_) | Self::Joined(_) | Self::Assistant(_) => none,
        };
        files.iter().chain(results.iter().flat_map(|result| &result.pictures))
    }

    /// The calls in it.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        let blocks = match self {
            Self::Assistant(blocks) => blocks.as_slice(),
            Self::User(_) | Self::Joined(_) | Self::Files(_) | Self::ToolResults(_) => &[],
        };
        blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            Block::Text { .. } | Block::Thinking { .. } => None,
        })
    }
}

/// Messages of an ended turn, or of a summary: they never change again. They begin with words from outside and
/// end with words of the model, so that such parts stand one behind another without being merged.
#[derive(Debug)]
pub struct FixedMessages {
    messages: Box<[Message]>,
    characters: usize,
    /// What engines made of them.
    pub rendered: Rendered,
}

impl FixedMessages {
    /// These messages, as they are from now on.
    pub fn new(messages: Vec<Message>) -> Self {
        let characters = messages.iter().map(Message::characters).sum();
        Self { messages: messages.into(), characters, rendered: Rendered::default() }
    }

    /// How many characters all of them have.
    pub fn characters(&self) -> usize {
        self.characters
    }
}

impl Deref for FixedMessages {
    type Target = [Message];

    fn deref(&self) -> &[Message] {
        &self.messages
    }
}

/// The form of a call's id that every provider takes: another one may have named it otherwise.
pub fn plain_id(id: &str) -> String {
    id.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'), "_")
}

/// What stands over the words of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHeader {
    /// Which task.
    pub id: TaskId,
    /// What kind of work it is.
    pub kind: Kind,
    /// Who asked.
    pub from: String,
    /// How far it may be believed.
    pub label: Label,
    /// How often it was begun.
    pub attempt: u32,
}

impl From<&Task> for TaskHeader {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            kind: task.kind,
            from: task.from.clone(),
            label: task.label,
            attempt: task.attempts,
        }
    }
}

/// One step's worth of work for an engine.
#[derive(Clone, Debug)]
pub struct StepRequest {
    /// Whose turn.
    pub team: TeamName,
    /// Which turn.
    pub turn: TurnId,
    /// Which step of it, from 1.
    pub step: u32,
    /// What it is about; none for a question that stands by itself.
    pub task: Option<TaskHeader>,
    /// The system prompt.
    pub system: Arc<SystemPrompt>,
    /// What the model may call.
    pub tools: Arc<ToolSpecs>,
    /// The conversation before this turn, oldest first.
    pub earlier: SharedList<Arc<FixedMessages>>,
    /// The turn so far.
    pub messages: Arc<Vec<Message>>,
    /// How much the model thinks; none leaves it to the model.
    pub thinking: Option<Thinking>,
    /// Where an engine that makes several model calls in a step puts what each has cost.
    pub unbooked: Unbooked,
    /// Asks the engine to stop. Cancelled at the latest when the turn is over.
    pub cancel: CancellationToken,
}

/// What model calls of a turn have cost that are over and not booked: by profile and model, the one that answered last at
/// the end.
///
/// Whoever takes them books them, so each is booked once: the engine when its step is over, or the turn when it stops it.
#[derive(Clone, Default)]
pub struct Unbooked {
    calls: Arc<Mutex<Vec<Paid>>>,
    limit: Option<SpendingLimit>,
}

/// Says whether budgets have so much beyond what is set aside for one call.
pub type SpendingLimit = Arc<dyn Fn(Spent) -> Result<(), Overdrawn> + Send + Sync>;

impl fmt::Debug for Unbooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unbooked").field(&*self.calls()).finish()
    }
}

impl Unbooked {
    /// The same calls, of which there are no more than the limit allows.
    pub fn within(&self, limit: Option<SpendingLimit>) -> Self {
        Self { calls: self.calls.clone(), limit }
    }

    /// Whether one more call can be paid for.
    pub fn affords_another(&self) -> Result<(), Overdrawn> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let mut usage = Usage::default();
        self.calls().iter().for_each(|paid| usage += paid.usage);
        limit(Spent::of(&usage))
    }

    /// A call is over, and cost this.
    pub fn add(&self, mut paid: Paid) {
        let mut all = self.calls();
        let is_same = |of: &Paid| (&of.profile, &of.model) == (&paid.profile, &paid.model);
        if let Some(place) = all.iter().position(is_same) {
            paid.usage += all.remove(place).usage;
        }
        all.push(paid);
    }

    /// Takes them, to be booked.
    pub fn take(&self) -> Vec<Paid> {
        std::mem::take(&mut *self.calls())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Paid>> {
        self.calls.lock()
    }
}

/// What an engine reports while it works. None of it is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// The next piece of the answer.
    Text(String),
    /// A text block is complete.
    TextEnd,
    /// The next piece of reasoning.
    Thinking(String),
    /// What was said in this step is void: the call broke and is made again.
    Reset,
    /// A try failed and another follows.
    Retry(String),
    /// Another profile takes over.
    Fallback(String),
    /// Something said beside the answer, scrubbed. It is no sign of life.
    Note(String),
    /// A try failed, and cost this all the same.
    Spent(Paid),
    /// It still waits for a place at the provider: a sign of life, and nothing to show.
    InLine,
}

impl EngineEvent {
    /// Joins words of the same kind that follow on it. Anything else is given back.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Text(said), Self::Text(more)) | (Self::Thinking(said), Self::Thinking(more)) => {
                said.push_str(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

/// What a try of a model call has cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// The profile that was asked.
    pub profile: String,
    /// The model that was asked.
    pub model: String,
    /// What it cost.
    pub usage: Usage,
}

/// Takes the events of a running step. Cheap, never blocks.
pub type EventSink = Arc<dyn Fn(EngineEvent) + Send + Sync>;

/// The end of a step: a final answer, or calls for us to run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReply {
    /// What the model wrote, in order.
    pub blocks: Vec<Block>,
    /// What it cost. Tries that failed before it were told of.
    pub usage: Usage,
    /// Why the model stopped, in the provider's word.
    pub stop_reason: String,
    /// The output limit cut the answer.
    pub truncated: bool,
    /// The profile that answered.
    pub profile: String,
    /// The model that answered.
    pub model: String,
}

/// Whether a provider's word for why the model stopped means its output limit.
pub fn is_output_limit(stop_reason: &str) -> bool {
    matches!(stop_reason, "max_tokens" | "length")
}

/// A step that could not be done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct EngineFailure {
    /// What kind of failure; a transient one is tried again later.
    pub code: Code,
    /// What happened, in words for a person, scrubbed.
    pub message: String,
    /// The pause that the provider asks for.
    pub retry_after: Option<Duration>,
    /// The provider answered, and the answer broke: asking again costs as much again.
    pub answered: bool,
}

impl EngineFailure {
    /// A failure that says no more than that.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, answered: false }
    }
}

/// What a step came to.
pub type EngineReply = Result<StepReply, EngineFailure>;

/// A model backend.
///
/// Dropping the future is how a step is abandoned: an engine that holds a connection or a child
/// process ends it on drop. What it keeps from step to step it ends when the turn cancels its requests.
pub trait Engine: Send + Sync + 'static {
    /// Does one step.
    fn run(&self, request: StepRequest, events: EventSink) -> BoxFuture<'static, EngineReply>;

    /// Answers a question that stands by itself, outside of the turn's conversation.
    fn ask(&self, request: StepRequest, events: EventSink) -> BoxFuture<'static, EngineReply> {
        self.run(request, events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EN-100, SE-139: each request is booked on whom it was made to.
    #[test]
    fn a_fallback_is_paid_for_by_its_own_name() {
        let paid = |profile: &str, input| Paid {
            profile: profile.to_owned(),
            model: "m".to_owned(),
            usage: Usage { input, ..Usage::default() },
        };
        let unbooked = Unbooked::default();

        for paid in [paid("first", 1), paid("spare", 20), paid("first", 300)] {
            unbooked.add(paid);
        }

        assert_eq!(unbooked.take(), [paid("spare", 20), paid("first", 301)]);
        assert_eq!(unbooked.take(), []);
    }
}
