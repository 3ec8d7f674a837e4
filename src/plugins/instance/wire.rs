//! Wire protocol of plugins: what is said over their standard streams besides MCP, each message once.
//!
//! Fields are only ever added. Requests of ours that MCP does not have go as custom requests of `rmcp`.

use hivewright_actors::hook::HookEvent;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of what is here.
pub const VERSION: u32 = 1;
/// The name of it among what the sides of MCP say they can do.
pub const EXTENSION: &str = "hivewright";
/// The error of a plugin that refuses its settings.
pub const CONFIG_REFUSED: i32 = -32050;

pub const CONFIG_PARSE: &str = "config/parse";
pub const PLUGIN_START: &str = "plugin/start";
pub const PLUGIN_STOP: &str = "plugin/stop";
pub const HOOK_FIRE: &str = "hook/fire";
pub const HOOK_NOTIFY: &str = "hook/notify";
pub const HOST_FETCH: &str = "host/fetch";
pub const STATE_GET: &str = "state/get";
pub const STATE_SET: &str = "state/set";
pub const PLUGIN_ERROR: &str = "plugin/error";
pub const PLUGIN_STATE: &str = "plugin/state";

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
