//! Messages: words to a team, and what became of them.

use hivewright_actors::{
    file::MOST_FILES,
    ids::{ChannelId, MessageId, TaskId, TopicId},
    queue::Placement,
    task::{
        TaskState, WaitReason,
        outcome::{Code, Ending},
    },
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, tasks::LONGEST_TASK};

pub const SEND_MESSAGE: Endpoint<Progress<MessageRow>, Empty, Empty, NewMessage> =
    post("/api/v1/messages", Chat, "Says something to a team.")
        .description(
            "Answers once it is stored; with `wait_s` once there is a reply, if that comes in \
             time. A `topic` is made if there is none of that name. Another team than the \
             main one needs the scope `operate` too. `X-Source-Channel` names another channel \
             that hears of the work; the answer stays here.",
        )
        .refuses(&[404, 409])
        .example(r#"{"content": "How are you?", "topic": "small talk", "wait_s": 20}"#)
        .scrubbed();

pub const SHOW_MESSAGE: Endpoint<Data<MessageRow>, ById, MessageFilter> =
    get("/api/v1/messages/{id}", Read, "Says what became of a message.").scrubbed();

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NewMessage {
    /// May be left out where there are files.
    #[serde(default)]
    #[schemars(length(max = LONGEST_TASK))]
    pub content: String,
    /// What comes with it: ids of files that were taken in before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_FILES))]
    pub files: Vec<String>,
    /// Without one it is the main team.
    pub team: Option<String>,
    pub topic_id: Option<String>,
    /// The name of a topic, instead of its id.
    pub topic: Option<String>,
    /// The name in `topic` is only the first words: a model may give a topic that is made a title.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untitled: bool,
    /// The profile whose model answers in a topic that is made, if not the team's. It goes with `untitled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A message, by its id, that this one stands for: it is said in a new topic, which begins with what was said before
    /// that one. The other topic stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// Where it is said: a channel that the caller opened. Without one it is the caller's own.
    #[schemars(length(min = 1, max = 128))]
    pub channel_id: Option<String>,
    /// How long to wait for the reply, in seconds.
    #[serde(default)]
    #[schemars(range(max = 300))]
    pub wait_s: u64,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MessageFilter {
    /// Where it was said, unless that was here.
    pub channel: Option<String>,
}

/// A message as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Message")]
pub struct MessageRow {
    pub message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<TopicId>,
    pub state: TaskState,
    /// What became of it at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<MessagePlacement>,
    /// What its topic waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<MessageReply>,
}

words! {
    /// What becomes of a message at first.
    pub enum MessagePlacement {
        /// It has a turn of its own.
        Started = "started",
        /// It joined the turn under way.
        CurrentTurn = "current_turn",
        /// It waits for a turn of its own.
        NextTurn = "next_turn",
        /// Its topic waits for something.
        Waiting = "waiting",
    }
}

impl From<Placement> for MessagePlacement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Started => Self::Started,
            Placement::CurrentTurn => Self::CurrentTurn,
            Placement::NextTurn => Self::NextTurn,
            Placement::Waiting(_) => Self::Waiting,
        }
    }
}

/// The answer to a message.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MessageReply {
    pub text: String,
    pub status: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}
