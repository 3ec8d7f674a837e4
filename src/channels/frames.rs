//! What a client may send: text frames, each one JSON object.

use hivewright_actors::{
    clock::Timestamp,
    frame::ErrorBody,
    ids::{ChannelId, MessageId, TopicId},
    router::topics::is_topic_id,
};
use serde_json::{Map, Value};

use crate::json_limits;

#[cfg(test)]
mod tests;

/// So much of an unknown type is repeated to the client, in characters.
const SHOWN: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// Words for a team.
    Message {
        /// Without U+0000 and space around it, otherwise as sent. Blank only where there are files.
        content: String,
        /// The topic, unchecked: the router refuses a wrong one, since it can name the right ones.
        /// What is no string comes as an empty one, which is no topic's id.
        topic_id: Option<String>,
        /// The client's own name for the message, for sending it twice without harm.
        message_id: Option<MessageId>,
        /// Ids of files that come with it, unchecked.
        files: Vec<String>,
    },
    /// Asks for the topics of the channel.
    TopicListRequest,
    /// Goes on with an earlier channel, or with the one that all connections of the same token share.
    Resume {
        /// Of the shared one, the channel that becomes it if there is none yet.
        channel_id: Option<ChannelId>,
        home: bool,
        /// The last frame of that channel that the client has; 0 is none.
        last_seq: u64,
    },
    /// Says that all up to a moment was read.
    Read {
        /// Without one, what belongs to no topic.
        topic_id: Option<TopicId>,
        until: Timestamp,
    },
    /// Stops the turn of a topic.
    Cancel {
        topic_id: TopicId,
        /// Also what waits in it.
        queued: bool,
    },
}

/// Why a frame is refused. The connection stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    pub code: &'static str,
    /// In words, for the client.
    pub error: String,
    /// The message it concerns, if the client named it properly.
    pub message_id: Option<MessageId>,
}

impl Refusal {
    fn new(code: &'static str, error: impl Into<String>) -> Self {
        Self { code, error: error.into(), message_id: None }
    }

    /// The answer to a frame that is not text.
    pub fn binary_frame() -> Self {
        Self::new("binary_frame", "send text frames")
    }
}

impl From<Refusal> for ErrorBody {
    fn from(refusal: Refusal) -> Self {
        Self { message_id: refusal.message_id, ..Self::refusal(refusal.code, refusal.error) }
    }
}

/// Reads one text frame.
///
/// A field that is null counts as absent, a field that no one knows is ignored, and of two with the
/// same name the last holds.
pub fn parse(text: &str) -> Result<ClientFrame, Refusal> {
    json_limits::check(text.as_bytes())
        .map_err(|error| Refusal::new("invalid_json", format!("invalid JSON: {error}")))?;
    let frame: Value = serde_json::from_str(text)
        .map_err(|error| Refusal::new("invalid_json", format!("invalid JSON: {error}")))?;
    let Value::Object(mut fields) = frame else {
        return Err(Refusal::new("invalid_frame", "a frame is a JSON object"));
    };
    fields.retain(|_, value| !value.is_null());

    match fields.get("type") {
        None => message(fields),
        Some(Value::String(name)) => match name.as_str() {
            "message" => message(fields),
            "topic_list_request" => Ok(ClientFrame::TopicListRequest),
            "resume" => resume(&fields),
            "cancel" => cancel(&fields),
            "read" => read(&fields),
            name => Err(unknown_type(&format!("`{name:.SHOWN$}`"), &fields)),
        },
        Some(_) => Err(unknown_type("that is not a string", &fields)),
    }
}

fn message(mut fields: Map<String, Value>) -> Result<ClientFrame, Refusal> {
    let message_id = message_id(&fields);
    let refuse = |code, error: &str| Refusal {
        message_id: message_id.clone().ok().flatten(),
        ..Refusal::new(code, error)
    };
    let files: Vec<String> = match fields.remove("files").map(serde_json::from_value) {
        None => Vec::new(),
        Some(Ok(files)) => files,
        Some(Err(_)) => {
            return Err(refuse("invalid_frame", "`files` must be a list of ids of files"));
        }
    };
    let content = fields.remove("content").and_then(content);
    let Some(content) = content.or_else(|| (!files.is_empty()).then(String::new)) else {
        return Err(refuse("missing_content", "missing content field"));
    };
    Ok(ClientFrame::Message {
        content,
        topic_id: fields.remove("topic_id").map(|topic| match topic {
            Value::String(id) => id,
            _ => String::new(),
        }),
        message_id: message_id?,
        files,
    })
}

fn content(value: Value) -> Option<String> {
    let Value::String(mut content) = value else {
        return None;
    };
    content.retain(|c| c != '\0');
    let trimmed = content.trim();
    if trimmed.is_empty() {
        return None;
    }
    // Most content has nothing to trim and needs no copy.
    Some(if trimmed.len() == content.len() { content } else { trimmed.to_owned() })
}

fn message_id(fields: &Map<String, Value>) -> Result<Option<MessageId>, Refusal> {
    match fields.get("message_id") {
        None => Ok(None),
        Some(id) => match id.as_str().and_then(MessageId::named) {
            Some(id) => Ok(Some(id)),
            None => Err(Refusal::new(
                "bad_message_id",
                "`message_id` must be a string of 1 to 128 printable characters (384 bytes)",
            )),
        },
    }
}

fn resume(fields: &Map<String, Value>) -> Result<ClientFrame, Refusal> {
    let bad = |error| Refusal::new("bad_resume", error);
    let home = match fields.get("home") {
        None => false,
        Some(home) => home.as_bool().ok_or_else(|| bad("`home` must be true or false"))?,
    };
    let channel_id = match fields.get("channel_id") {
        None if home => None,
        named => {
            let named = named.and_then(Value::as_str).and_then(ChannelId::named);
            Some(named.ok_or_else(|| bad("`channel_id` must be the id of an earlier channel"))?)
        }
    };
    let last_seq = match fields.get("last_seq") {
        None => 0,
        Some(seq) => seq.as_u64().ok_or_else(|| bad("`last_seq` must be an integer, 0 or more"))?,
    };
    Ok(ClientFrame::Resume { channel_id, home, last_seq })
}

fn topic_id(value: &Value) -> Result<TopicId, Refusal> {
    let id = value.as_str().filter(|id| is_topic_id(id));
    let error = "`topic_id` must be the id of a topic: `t-` and 16 hex digits";
    id.map(TopicId::from).ok_or_else(|| Refusal::new("bad_topic_id", error))
}

fn read(fields: &Map<String, Value>) -> Result<ClientFrame, Refusal> {
    let until = fields.get("until").and_then(Value::as_u64).ok_or_else(|| {
        Refusal::new("invalid_frame", "`until` must be a moment, in milliseconds since 1970")
    })?;
    let topic_id = fields.get("topic_id").map(topic_id).transpose()?;
    Ok(ClientFrame::Read { topic_id, until: Timestamp(until) })
}

fn cancel(fields: &Map<String, Value>) -> Result<ClientFrame, Refusal> {
    let topic_id = topic_id(fields.get("topic_id").unwrap_or(&Value::Null))?;
    let queued = match fields.get("queued") {
        None => false,
        Some(Value::Bool(queued)) => *queued,
        Some(_) => {
            let error = "`queued` must be true or false";
            return Err(Refusal::new("invalid_frame", error));
        }
    };
    Ok(ClientFrame::Cancel { topic_id, queued })
}

fn unknown_type(found: &str, fields: &Map<String, Value>) -> Refusal {
    let error = format!(
        "unknown type {found}; known: `message`, `topic_list_request`, `resume`, `cancel`, `read`"
    );
    Refusal { message_id: message_id(fields).ok().flatten(), ..Refusal::new("unknown_type", error) }
}
