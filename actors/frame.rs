//! Frames: what a channel tells the person at its other end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    clock::Timestamp,
    excerpt,
    file::FileRef,
    ids::{CallId, ChannelId, MessageId, TaskId, TeamName, TopicId},
    task::{TopicRef, WaitReason},
    words,
};

/// Progress shows this many characters of arguments and results.
pub const PREVIEW: usize = 500;

/// A frame's text may take this many bytes on the wire, so that the frame stays within 1 MiB.
pub(crate) const FRAME_TEXT: usize = 1_000_000;

/// A frame without its number: what is stored, and what adapters translate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    pub topic: Option<TopicRef>,
    pub ts: Timestamp,
    pub body: Body,
}

/// The six types of frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    /// A message is safe with us, and what there is to say about it so far.
    Ack(Ack),
    /// A sign of life between ack and end.
    Progress(Progress),
    /// The one good end of a message in a topic.
    Response(Response),
    /// A result that no message waits for.
    Notification(Notification),
    /// A refusal, or the one bad end of a message in a topic.
    Error(ErrorBody),
    TopicList {
        /// Newest activity first.
        topics: Vec<TopicRow>,
        /// Those that somebody has just deleted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deleted: Vec<TopicId>,
    },
}

impl Body {
    /// It must reach the client: it is stored before it is sent, and may be sent again.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::Ack(_) | Self::Response(_) | Self::Notification(_) => true,
            Self::Error(error) => error.task_id.is_some(),
            Self::Progress(progress) => progress.kind != ProgressKind::TextDelta,
            Self::TopicList { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// First words of the model, or a fixed sentence.
    pub content: String,
    pub message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The content is the model's.
    pub generated: bool,
    /// How many are before it; 0 is running.
    pub position: u64,
    /// The message was known already and is not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// What became of the known message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The number of the frame that ended the known message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_seq: Option<u64>,
    /// When the message was accepted: its place among those of its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// The team that the message is for, if not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamName>,
}

impl Ack {
    /// The ack of a message, with nothing but words.
    pub fn new(content: impl Into<String>, message_id: MessageId) -> Self {
        Self {
            content: content.into(),
            message_id,
            task_id: None,
            generated: false,
            position: 0,
            duplicate: None,
            status: None,
            response_seq: None,
            accepted_at: None,
            team: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressKind {
    TextDelta,
    ToolCall,
    ToolResult,
    /// A retry, a fallback, a gap.
    #[default]
    Note,
    /// A message that came from another connection of the channel.
    UserMessage,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub content: String,
    pub kind: ProgressKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// It did not run: somebody, or a rule, decided against it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The beginning of arguments or result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// The result comes from outside: from here on nothing of the turn is to be believed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// The whole text since the last tool call or note, in place of the pieces so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
    /// Forget the text of the current step: it begins again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// The work is set aside until what the words name has come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    /// Durable frames that are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// What came with the words, or what a tool gives to the person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// The team that a person's message is for, if not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamName>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl Progress {
    /// Progress of a kind, with nothing but words.
    pub fn new(kind: ProgressKind, content: impl Into<String>) -> Self {
        Self { content: content.into(), kind, ..Self::default() }
    }
}

/// Durable frames that were dropped before the client could have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub from_seq: u64,
    pub to_seq: u64,
    pub dropped: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub content: String,
    pub message_id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// `done` or `cancelled`.
    pub status: String,
    /// The turn it joined, if it had none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<FrameUsage>,
}

impl Response {
    /// The answer to a message that became no work.
    pub fn new(content: String, message_id: MessageId) -> Self {
        Self {
            content,
            message_id,
            task_id: None,
            status: "done".to_owned(),
            joined_task_id: None,
            truncated: false,
            usage: None,
        }
    }
}

/// Usage as frames show it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameUsage {
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// `[<team>] <text>`.
    pub content: String,
    pub team: TeamName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    pub status: String,
    pub kind: NotificationKind,
    /// The approval or question that it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ref_id: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// What the team gives to the person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// Who decided what it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

words! {
    /// What a notification is about.
    pub enum NotificationKind {
        /// The end of work that no message waits for.
        Task = "task",
        /// A run of a trigger.
        Trigger = "trigger",
        /// The first work of a new team.
        Bootstrap = "bootstrap",
        /// A problem that was handed up.
        Escalation = "escalation",
        /// A call that waits for a decision, or was decided.
        Approval = "approval",
        /// A question of a team.
        Question = "question",
        /// A budget that is nearly spent.
        Budget = "budget",
    }
}

impl Notification {
    /// Something done that a team has to say, of which one frame takes as much as it can; the rest is
    /// where `rest` says.
    pub fn new(kind: NotificationKind, team: TeamName, text: String, rest: &str) -> Self {
        let (content, truncated) = excerpt::framed(&text, FRAME_TEXT, rest);
        Self {
            content,
            team,
            task_id: None,
            status: "done".to_owned(),
            kind,
            ref_id: None,
            truncated,
            files: Vec::new(),
            by: None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: String,
    pub code: String,
    /// The text of the turn so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The work it ends. Without it nothing was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl ErrorBody {
    /// A refusal: nothing was accepted.
    pub fn refusal(code: &str, error: impl Into<String>) -> Self {
        Self { error: error.into(), code: code.to_owned(), ..Self::default() }
    }

    /// The same about a message, if it has a name.
    pub fn about(self, message: impl Into<Option<MessageId>>) -> Self {
        Self { message_id: message.into(), ..self }
    }
}

words! {
    /// The life of a topic.
    pub enum TopicState {
        /// In use.
        Active = "active",
        /// Unused for a while.
        Idle = "idle",
        /// Over.
        Done = "done",
    }
}

/// Where a topic left another one: what was said there before is its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BranchPoint {
    /// The topic that it left.
    pub topic_id: TopicId,
    /// The message there that its first one stands for.
    pub message_id: MessageId,
    /// When that was accepted, in milliseconds since 1970.
    #[schemars(with = "u64")]
    pub at: Timestamp,
    /// When it left, in milliseconds since 1970.
    #[schemars(with = "u64")]
    pub made_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicRow {
    pub id: TopicId,
    pub name: String,
    pub state: TopicState,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    pub last_activity: Timestamp,
    pub queued: u64,
    pub running: bool,
    /// The profile whose model answers in it, if not the team's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Where it left another topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchPoint>,
    /// What is not newer was read, on whichever device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_until: Option<Timestamp>,
}

/// A frame as it stands on the wire of a channel that speaks JSON.
#[derive(Debug, Serialize)]
pub struct WireFrame<'a> {
    /// `type` and its fields.
    #[serde(flatten)]
    pub body: &'a Body,
    pub topic_id: Option<&'a TopicId>,
    pub topic_name: Option<&'a str>,
    pub channel_id: &'a ChannelId,
    /// Rises strictly within the channel.
    pub seq: u64,
    pub ts: Timestamp,
}
