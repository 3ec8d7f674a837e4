//! Transcripts: what was said and done in a session, message by message.

use hivewright_actors::{
    file::FileRef,
    ids::{CallId, FileId, TaskId, TurnId},
    usage::Usage,
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

words! {
    /// Who a message is from.
    #[schemars(rename = "TranscriptRole")]
    pub enum Role {
        /// A person, or another team.
        User = "user",
            Assistant = "assistant",
        /// A tool.
        ToolResult = "toolResult",
        /// Hivewright.
        System = "system",
    }
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TranscriptMessage")]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The number of its first event.
    #[serde(skip)]
    pub first: u64,
    /// The number of its last event.
    pub seq: u64,
    pub turn: TurnId,
    /// The task it belongs to, if that is known.
    #[serde(rename = "task_id", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    pub role: Role,
    /// When, in milliseconds since 1970.
    pub timestamp: u64,
    pub content: Vec<Block>,
    /// Whose words they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// It is of a turn that has only begun: it has no place in the journal yet, and `next_after` does not
    /// count it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// It comes from outside, or is of a turn that has read what does: it is not to be believed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// What made it, and what that cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// The call that it answers.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TranscriptBlock")]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    /// Words.
    Text { text: String },
    /// Reasoning.
    Thinking { thinking: String },
    /// A call of a tool.
    ToolCall { id: CallId, name: String, arguments: Value },
    /// A file.
    File {
        #[serde(rename = "fileId")]
        file_id: FileId,
        filename: String,
        #[serde(rename = "mimeType")]
        mime_type: String,
        size: u64,
        direction: Direction,
    },
    /// Something that a newer service says. It is read only.
    #[serde(other, skip_serializing)]
    #[schemars(skip)]
    Unknown,
}

words! {
    /// Which way a file went.
    #[schemars(rename = "FileDirection")]
    pub enum Direction {
        /// To a team.
        In = "in",
        /// To a person.
        Out = "out",
    }
}

impl Block {
    pub fn file(file: FileRef, direction: Direction) -> Self {
        let FileRef { id, name, mime, size, .. } = file;
        Self::File { file_id: id, filename: name, mime_type: mime, size, direction }
    }
}

/// What made a message of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TranscriptMeta")]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The model API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "as_tokens")]
    #[serde(deserialize_with = "of_tokens")]
    #[schemars(with = "Option<Tokens>")]
    pub usage: Option<Usage>,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// What a message of the model cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TranscriptTokens")]
#[serde(rename_all = "camelCase")]
struct Tokens {
    /// Read.
    input: u64,
    /// Written.
    output: u64,
    /// Read from the cache.
    #[serde(default)]
    cache_read: u64,
    /// Written to the cache.
    #[serde(default)]
    cache_write: u64,
    /// All of them.
    #[serde(default)]
    total_tokens: u64,
    /// In USD, if prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
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

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            cost_usd: tokens.cost,
            estimated: false,
        }
    }
}

fn as_tokens<S: Serializer>(usage: &Option<Usage>, serializer: S) -> Result<S::Ok, S::Error> {
    usage.map(Tokens::from).serialize(serializer)
}

fn of_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Usage>, D::Error> {
    Ok(Option::<Tokens>::deserialize(deserializer)?.map(Usage::from))
}

/// The call that a result answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TranscriptAnswers")]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    pub tool_call_id: CallId,
    pub tool_name: String,
    /// It failed, or did not run.
    pub is_error: bool,
    /// Somebody, or a rule, decided against it: nothing went wrong with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// There was more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
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
