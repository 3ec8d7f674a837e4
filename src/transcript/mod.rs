//! Transcripts: what was said and done in a session, as people and programs read it.

pub mod lines;
pub mod merge;
pub mod page;

use hivewright_actors::{
    ids::{CallId, TaskId, TurnId},
    usage::Usage,
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "TranscriptRole")]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// A person, or another team.
    User,
    /// The model.
    Assistant,
    /// A tool.
    ToolResult,
    /// Hivewright.
    System,
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The number of its first event.
    #[serde(skip)]
    pub first: u64,
    /// The number of its last event.
    pub seq: u64,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// The task it belongs to, if that is known.
    #[serde(rename = "task_id", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Who it is from.
    pub role: Role,
    /// When, in milliseconds since 1970.
    pub timestamp: u64,
    /// What it says.
    pub content: Vec<Block>,
    /// Whose words they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What made it, and what that cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// The call that it answers.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TranscriptBlock")]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// Reasoning.
    Thinking {
        /// The reasoning.
        thinking: String,
    },
    /// A call of a tool.
    ToolCall {
        /// The call.
        id: CallId,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
}

/// What made a message of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TranscriptMeta")]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The model API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_tokens")]
    #[schemars(with = "Option<Tokens>")]
    pub usage: Option<Usage>,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// What a message of the model cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TranscriptTokens")]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
    /// All of them.
    pub total_tokens: u64,
    /// In USD, if prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total_tokens: usage.tokens(),
            cost: usage.cost_usd,
        }
    }
}

fn as_tokens<S: Serializer>(usage: &Option<Usage>, serializer: S) -> Result<S::Ok, S::Error> {
    usage.map(Tokens::from).serialize(serializer)
}

/// The call that a result answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// The call.
    pub tool_call_id: CallId,
    /// The tool.
    pub tool_name: String,
    /// It failed.
    pub is_error: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// There was more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl Message {
    /// Its words, one text block after another.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
