//! The caller's own: channels, their topics, and what was said there.

use hivewright_actors::{
    file::FileRef,
    frame::{BranchPoint, Notification, NotificationKind, TopicRow, TopicState},
    ids::{CallId, ChannelId, MessageId, TaskId, TeamName, TopicId},
    task::TaskState,
    usage::Usage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};

pub const LIST_OWN_CHANNELS: Endpoint<Rows<OwnChannel>, Empty, OwnChannelFilter> =
    get("/api/v1/me/channels", Chat, "Lists the channels of the caller, with their topics.")
        .description(
            "Those of the same token; all tokens of the operator are one. To show a channel and \
             go on with it: read this, then its messages, and resume with the `seq` from here.",
        )
        .sorted(&["-last_activity"]);

pub const LIST_OWN_MESSAGES: Endpoint<Rows<ConversationItem>, ById, SaidFilter> = get(
    "/api/v1/me/topics/{id}/messages",
    Chat,
    "Lists what was said in a topic of the caller, the newest first.",
)
.description(
    "Messages with what came of each, and what teams told on their own. Arguments and results \
     of tools are cut to 500 characters, as in frames; for whoever has the scope `read`, to \
     20,000, and `thinking` is shown. A topic with a `branch` begins with what was said in that \
     topic before its moment.",
)
.sorted(&["-at"])
.scrubbed();

pub const LIST_OWN_NOTIFICATIONS: Endpoint<Rows<ConversationItem>, ById> = get(
    "/api/v1/me/channels/{id}/messages",
    Chat,
    "Lists what was told in a channel of the caller and belongs to no topic, the newest first.",
)
.sorted(&["-at"])
.scrubbed();

pub const LIST_OWN_TEAM_MESSAGES: Endpoint<Rows<ConversationItem>, ByName> = get(
    "/api/v1/me/teams/{name}/messages",
    Chat,
    "Lists the messages of the caller to a team, with what came of each, the newest first.",
)
.description(
    "They are of no topic, unless the team is `main`. Texts are cut as those of a topic are.",
)
.sorted(&["-at"])
.scrubbed();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OwnChannelFilter {
    /// Only the one that all connections share which resume with `home`; or all others.
    pub home: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaidFilter {
    /// Only what was said before this moment, in milliseconds since 1970.
    pub before: Option<u64>,
}

/// A channel as its owner sees it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OwnChannel {
    pub id: ChannelId,
    #[serde(rename = "type")]
    pub channel_type: String,
    /// All connections share it which resume with `home`.
    pub home: bool,
    pub last_activity: Moment,
    /// Answers and notifications since it was last read, in all topics. More than 99 are not counted in one topic.
    pub unread: usize,
    /// The newest number of its frames.
    pub seq: u64,
    /// Newest activity first: all that are open, and the last twenty that are over.
    pub topics: Vec<OwnTopic>,
}

row! {
    /// A topic as its owner sees it.
    pub struct OwnTopic from (topic, unread): (TopicRow, usize) {
        pub id: TopicId = topic.id,
        pub name: String = topic.name,
        pub state: TopicState = topic.state,
        /// It stands before the others.
        pub pinned: bool = topic.pinned,
        pub last_activity: Moment = Moment(topic.last_activity),
        /// Messages that wait in it.
        pub queued: u64 = topic.queued,
        /// A turn runs in it.
        pub running: bool = topic.running,
        /// The profile whose model answers in it, if not the team's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile: Option<String> = topic.profile,
        /// Where it left another topic.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub branch: Option<BranchPoint> = topic.branch,
        /// Answers and notifications since it was last read.
        pub unread: usize = unread,
    }
}

/// One thing that was said.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConversationItem {
    /// A message of a person, with what came of it.
    Message(ConversationMessage),
    /// What a team told on its own.
    Notification(ConversationNotification),
}

/// A message of a person, with what came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationMessage {
    pub message_id: MessageId,
    pub task_id: TaskId,
    /// When it was accepted, in milliseconds since 1970.
    pub at: u64,
    /// What the frames of its channel told up to this number is in here.
    pub seq: u64,
    pub from: String,
    pub text: String,
    /// What came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    pub state: TaskState,
    /// What the model thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// What was said and done so far, in order. The text of a step that runs is not in it yet.
    pub blocks: Vec<ConversationBlock>,
    /// It was answered by the turn of another message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ConversationEnd>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConversationBlock {
    /// Words of the model.
    Text { text: String },
    /// A call of a tool, and its result once there is one.
    ToolCall {
        call_id: CallId,
        tool: String,
        arguments: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ok: Option<bool>,
        /// It did not run: somebody, or a rule, decided against it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// The result comes from outside: from here on nothing of the turn is to be believed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        untrusted: bool,
        /// What it gave to the person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FileRef>,
    },
    /// A retry, a wait, a summary.
    Note {
        text: String,
        /// It says what the work waits for now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
    },
}

/// How a message ended.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationEnd {
    /// In milliseconds since 1970.
    pub at: u64,
    /// What was wrong, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The answer was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    pub usage: ConversationUsage,
}

row! {
    /// What an answer cost.
    #[derive(PartialEq)]
    pub struct ConversationUsage from usage: Usage {
        pub input: u64 = usage.input,
        pub output: u64 = usage.output,
        pub cost_usd: Option<f64> = usage.cost_usd,
    }
}

row! {
    /// What a team told on its own.
    #[derive(PartialEq)]
    pub struct ConversationNotification from (at, told): (u64, Notification) {
        /// In milliseconds since 1970.
        pub at: u64 = at,
        pub content: String = told.content,
        pub team: TeamName = told.team,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub task_id: Option<TaskId> = told.task_id,
        pub status: String = told.status,
        pub kind: NotificationKind = told.kind,
        /// The approval or question that it shows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ref_id: Option<String> = told.ref_id,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub truncated: bool = told.truncated,
        /// What the team gives to the person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub files: Vec<FileRef> = told.files,
    }
}
