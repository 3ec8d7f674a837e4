//! Wire protocol of plugins: what is said over their standard streams besides MCP, each message once.
//!
//! Fields are only ever added. Requests of ours that MCP does not have go as custom requests of `rmcp`.

use hivewright_actors::{hook::HookEvent, words};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::setup::state::SetupState;

/// The version of what is here.
pub const VERSION: u32 = 1;
/// The name of it among what the sides of MCP say they can do.
pub const EXTENSION: &str = "hivewright";
/// The error of a plugin that refuses its settings.
pub const CONFIG_REFUSED: i32 = -32050;

pub const CONFIG_PARSE: &str = "config/parse";
pub const PLUGIN_START: &str = "plugin/start";
pub const PLUGIN_STOP: &str = "plugin/stop";
/// Of MCP: whether the other side is there.
pub const PING: &str = "ping";
pub const HOOK_FIRE: &str = "hook/fire";
pub const HOOK_NOTIFY: &str = "hook/notify";
pub const CHANNEL_SEND: &str = "channel/send";
pub const CHANNEL_WEBHOOK: &str = "channel/webhook";
pub const CHANNEL_INBOUND: &str = "channel/inbound";
pub const SETUP_BEGIN: &str = "setup/begin";
pub const SETUP_POLL: &str = "setup/poll";
pub const SETUP_SUBMIT: &str = "setup/submit";
pub const SETUP_CANCEL: &str = "setup/cancel";
pub const HOST_FETCH: &str = "host/fetch";
pub const STATE_GET: &str = "state/get";
pub const STATE_SET: &str = "state/set";
pub const PLUGIN_ERROR: &str = "plugin/error";
pub const PLUGIN_STATE: &str = "plugin/state";

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error("the plugin did not answer in time")]
    Timeout,
    #[error("the plugin ended before it answered")]
    Gone,
    /// It cannot have taken effect.
    #[error("the plugin ended before it was asked")]
    Unsent,
    #[error("the plugin answered something else")]
    Senseless,
    /// The words are the plugin's.
    #[error("{message}")]
    Refused { code: i32, message: String, data: Option<Value> },
}

/// What we say with `initialize`.
#[derive(Debug, Serialize)]
pub struct Hello<'a> {
    pub version: u32,
    /// Names this child in the log.
    pub instance: &'a str,
    pub team: &'a str,
    pub key: &'a str,
}

/// What a plugin says to `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HelloBack {
    /// What it takes besides what its manifest says: `config` for [`CONFIG_PARSE`].
    pub provides: Vec<String>,
    /// There must not be a second child beside it.
    pub exclusive: bool,
}

/// [`CONFIG_PARSE`], and its answer: settings as the plugin understands them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Config {
    pub config: Value,
}

/// [`PLUGIN_START`].
#[derive(Debug, Serialize)]
pub struct Start {
    /// With the values of secrets in it.
    pub config: Value,
    /// What [`STATE_SET`] has kept.
    pub state: Map<String, Value>,
    /// Where the network of its channel calls, if it has a webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// [`PLUGIN_STOP`].
#[derive(Debug, Serialize)]
pub struct Stop<'a> {
    pub reason: &'a str,
    pub deadline_ms: u64,
}

/// [`HOOK_FIRE`].
#[derive(Debug, Serialize)]
pub struct Fire<'a> {
    pub event: HookEvent,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<&'a str>,
    pub payload: Value,
    pub deadline_ms: u64,
}

/// The answer to [`HOOK_FIRE`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// It goes on as it is.
    Pass,
    /// It does not go on.
    Deny {
        #[serde(default)]
        reason: String,
    },
    /// It goes on with another payload.
    Rewrite { payload: Value },
}

/// [`HOOK_NOTIFY`].
#[derive(Clone, Debug, Serialize)]
pub struct Notify {
    pub event: HookEvent,
    pub payload: Value,
}

/// What a call of a tool brings along, as `_meta`.
#[derive(Debug, Serialize)]
pub struct CallMeta<'a> {
    pub call_id: &'a str,
    pub idempotency_key: &'a str,
    pub turn: &'a str,
    pub deadline_ms: u64,
}

words! {
    /// What a message to a person is.
    #[schemars(rename = "ChannelSendKind")]
    pub enum SendKind {
        /// The answer to what they wrote.
        Response = "response",
        /// Something that they did not ask for now.
        Notification = "notification",
        /// What they wrote came to nothing.
        Error = "error",
    }
}

/// [`CHANNEL_SEND`]: the same `delivery_id` again is the same message.
#[derive(Debug, Serialize)]
pub struct Outgoing<'a> {
    pub delivery_id: String,
    /// The conversation.
    pub recipient: &'a str,
    pub content: String,
    pub attachments: Vec<Attachment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<&'a str>,
    pub kind: SendKind,
    /// The `event_id` of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<&'a str>,
    pub deadline_ms: u64,
}

/// A file for a person.
#[derive(Debug, Serialize)]
pub struct Attachment {
    pub name: String,
    pub mime: String,
    pub size: u64,
    pub data_base64: String,
}

/// The answer to [`CHANNEL_SEND`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Sent {
    /// It is with the person.
    Delivered { native_id: Option<String> },
    /// Not now.
    Retry { after_ms: u64 },
    /// Never.
    Undeliverable {
        #[serde(default)]
        reason: String,
    },
}

/// [`CHANNEL_INBOUND`]. The same `event_id` again is the same message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incoming {
    pub event_id: String,
    pub conversation: String,
    pub sender: IncomingSender,
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub attachments: Vec<Attached>,
    /// When the network had it; here it counts when it comes in.
    #[serde(default)]
    pub received_at: IgnoredAny,
}

/// Who wrote a message, as the plugin says. Further fields, such as a name, are for the plugin alone.
#[derive(Debug, Deserialize)]
pub struct IncomingSender {
    pub id: String,
}

/// A file that came with a message. It is named to the team, and not fetched.
#[derive(Debug, Deserialize)]
pub struct Attached {
    pub name: String,
    pub size: Option<u64>,
    pub mime: Option<String>,
    pub url: Option<String>,
}

/// The answer to [`CHANNEL_INBOUND`]: what is accepted is safe.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Taken {
    pub accepted: bool,
    /// It was accepted before.
    pub duplicate: bool,
    pub message_id: String,
    /// Why it is not accepted, for code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same in words that may be told to the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it may be sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// [`CHANNEL_WEBHOOK`].
#[derive(Debug, Serialize)]
pub struct Webhook {
    pub request_id: String,
    pub method: &'static str,
    pub query: String,
    /// Without credentials and without the signature.
    pub headers: Map<String, Value>,
    pub body_base64: String,
    pub deadline_ms: u64,
}

/// The answer to [`CHANNEL_WEBHOOK`].
#[derive(Debug, PartialEq, Deserialize)]
pub struct WebhookAnswer {
    pub status: u16,
    /// Of these, `content-type` counts.
    #[serde(default)]
    pub headers: Map<String, Value>,
    #[serde(default)]
    pub body: String,
}

/// [`SETUP_BEGIN`], [`SETUP_POLL`], [`SETUP_SUBMIT`], [`SETUP_CANCEL`].
#[derive(Debug, Serialize)]
pub struct Setup<'a> {
    pub session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<&'a Map<String, Value>>,
    pub deadline_ms: u64,
}

/// The answer to all of them.
#[derive(Debug, Deserialize)]
pub struct SetupAnswer {
    pub state: SetupState,
}

/// [`HOST_FETCH`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    pub url: String,
    pub method: Option<String>,
    #[serde(default)]
    pub headers: Map<String, Value>,
    pub body_base64: Option<String>,
    pub timeout_ms: Option<u64>,
}

/// The answer to [`HOST_FETCH`].
#[derive(Debug, Serialize)]
pub struct Fetched {
    pub status: u16,
    pub headers: Map<String, Value>,
    pub body_base64: String,
    /// There was more.
    pub truncated: bool,
}

/// [`STATE_GET`] and [`STATE_SET`].
#[derive(Debug, Deserialize)]
pub struct State {
    pub key: String,
    #[serde(default)]
    pub value: Value,
}

/// The answer to [`STATE_GET`].
#[derive(Debug, Serialize)]
pub struct StateValue {
    pub value: Value,
}

/// [`PLUGIN_ERROR`]: `null` takes back the last one.
#[derive(Debug, Deserialize)]
pub struct ErrorTold {
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// PL-39: what is not one of the three is no answer.
    #[test]
    fn an_answer_of_a_hook_is_one_of_three() {
        let read = |answer| serde_json::from_value::<Decision>(answer).ok();

        assert_eq!(read(json!({"decision": "pass", "more": 1})), Some(Decision::Pass));
        assert_eq!(
            read(json!({"decision": "deny", "reason": "no"})),
            Some(Decision::Deny { reason: "no".to_owned() })
        );
        for rubbish in [json!({}), json!({"decision": "allow"}), json!({"decision": "rewrite"})] {
            assert_eq!(read(rubbish), None);
        }
    }
}
