//! The five types of triggers, and what each is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::trigger::millis;
use crate::{clock::Timestamp, ids::ChannelId};

/// When a trigger fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Config {
    /// At certain times.
    Schedule(Schedule),
    /// When a message contains a text.
    Keyword(Listen),
    /// When a message fits an expression.
    Message(Listen),
    /// Again and again while a window is open.
    Window(Window),
    /// When another program calls.
    Webhook(Webhook),
}

impl Config {
    /// As rows and answers name the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Schedule(_) => "schedule",
            Self::Keyword(_) => "keyword",
            Self::Message(_) => "message",
            Self::Window(_) => "window",
            Self::Webhook(_) => "webhook",
        }
    }
}

/// See [`Config::Schedule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Which times.
    #[serde(flatten)]
    pub when: When,
    /// The zone of local times; none is that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// The times of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Those of a pattern.
    Cron(String),
    /// One.
    At {
        /// As it was given.
        text: String,
        /// What it means.
        at: Timestamp,
    },
    /// In steps from when it was enabled.
    #[serde(with = "millis")]
    Every(Duration),
}

/// See [`Config::Keyword`] and [`Config::Message`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// What to look for: a text, or `/body/flags`; of a message trigger an expression.
    pub pattern: String,
    /// Flags of a message trigger's expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// Only in these channels; none is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelId>,
    /// Only of these people; none is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<String>,
}

/// See [`Config::Window`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// When it is open.
    pub span: Span,
    /// The zone of local times; none is that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// From one tick to the next.
    #[serde(with = "millis")]
    pub tick_interval: Duration,
    /// After so many ticks it closes.
    pub max_ticks: u32,
    /// After so many tokens it closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// After it cost so much it closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    /// It closes after the first tick that found something.
    #[serde(default)]
    pub stop_on_first_hit: bool,
    /// Ticks become rarer while nothing is found.
    #[serde(default)]
    pub backoff: bool,
}

/// When a window is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// In each minute that fits.
    Watch(String),
    /// From a time of one pattern to the next of another.
    Between {
        /// When it opens.
        open: String,
        /// When it closes.
        close: String,
    },
    /// From a time of a pattern on, for so long.
    Lasting {
        /// When it opens.
        open: String,
        /// For how long.
        #[serde(with = "millis")]
        duration: Duration,
    },
}

/// See [`Config::Webhook`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Webhook {
    /// How callers prove who they are.
    pub scheme: Scheme,
    /// The name of the secret in the team's vault.
    pub secret: String,
    /// The one before it, good for a day after a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_previous: Option<String>,
    /// Until when the former secret is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<Timestamp>,
    /// How far a caller's clock may be off.
    #[serde(with = "millis")]
    pub tolerance: Duration,
    /// The longest body, in bytes.
    pub max_body: u64,
    /// What a body may be.
    pub content_types: Vec<String>,
    /// What must hold of a JSON body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Condition>,
    /// Which header fields the team sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_headers: Vec<String>,
    /// The most calls in a minute.
    pub rate: u32,
}

/// How callers of a webhook prove who they are. All of them sign with HMAC-SHA256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    Standard,
    /// `X-Hub-Signature-256`.
    Github,
    /// As told.
    Custom {
        /// The header with the signature.
        header: String,
        /// What stands before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        /// How its bytes are written.
        encoding: Encoding,
        /// The header with the time, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp_header: Option<String>,
        /// What is signed.
        signed: Signed,
    },
}

/// How the bytes of a signature are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Two digits for each.
    Hex,
    /// Four characters for three.
    Base64,
}

/// What a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signed {
    /// The body.
    #[serde(rename = "body")]
    Body,
    /// The time, a full stop, the body.
    #[serde(rename = "timestamp.body")]
    TimestampBody,
}

/// Something that must hold of a JSON body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Where to look: a JSON pointer.
    pub pointer: String,
    /// What must be there.
    #[serde(flatten)]
    pub test: Test,
}

/// What must be at a place of a body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// This.
    Equals(serde_json::Value),
    /// Text that fits an expression.
    Matches(String),
}
