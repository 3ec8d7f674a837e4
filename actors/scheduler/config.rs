//! The five types of triggers, and what each is told: the `config` of a definition.

use std::{fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    clock::Timestamp,
    ids::ChannelId,
    text,
    text::{Size, Span, Text},
    words,
};

/// When a trigger fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "config", rename_all = "snake_case")]
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

words! {
    /// The type of a trigger.
    pub enum TriggerType {
        /// At certain times.
        Schedule = "schedule",
        /// When a message contains a text.
        Keyword = "keyword",
        /// When a message fits an expression.
        Message = "message",
        /// Again and again while a window is open.
        Window = "window",
        /// When another program calls.
        Webhook = "webhook",
    }
}

impl Config {
    /// Its type.
    pub fn kind(&self) -> TriggerType {
        match self {
            Self::Schedule(_) => TriggerType::Schedule,
            Self::Keyword(_) => TriggerType::Keyword,
            Self::Message(_) => TriggerType::Message,
            Self::Window(_) => TriggerType::Window,
            Self::Webhook(_) => TriggerType::Webhook,
        }
    }

    /// It comes but once.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Schedule(Schedule { at: Some(_), .. }))
    }
}

/// At which times it fires: those of `cron`, `at` or `every`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriggerSchedule", deny_unknown_fields)]
pub struct Schedule {
    /// The times of a pattern: 5 fields, or 6 with leading seconds. Instead of `at` and `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// One time, RFC 3339 or local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// In steps such as 30m from when it was enabled, 10s to 30d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// The zone of local times, as the IANA names it. Left out: that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// What `at` means. Worked out when it is written: another zone of the settings does not move it.
    #[serde(skip)]
    pub moment: Option<Timestamp>,
}

/// The times of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When<'a> {
    /// Those of a pattern.
    Cron(&'a str),
    /// One.
    At(Timestamp),
    /// In steps from when it was enabled.
    Every(Duration),
}

impl Schedule {
    /// The times of a pattern.
    pub fn cron(pattern: impl Into<String>) -> Self {
        Self { cron: Some(pattern.into()), ..Self::default() }
    }

    /// In steps.
    pub fn every(step: Duration) -> Self {
        Self { every: Some(Span(step)), ..Self::default() }
    }

    /// Which times; none if that was not said.
    pub fn when(&self) -> Option<When<'_>> {
        let cron = self.cron.as_deref().map(When::Cron);
        cron.or(self.moment.map(When::At)).or(self.every.map(|step| When::Every(step.0)))
    }
}

/// For which messages it fires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriggerListen", deny_unknown_fields)]
pub struct Listen {
    /// Of a `keyword` a text found in any case, or `/expression/flags`; of a `message` a regular
    /// expression. At most 500 characters.
    pub pattern: String,
    /// Of a `message`: flags of its expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// Only in this channel, beside those of `channels`.
    #[serde(default, skip_serializing)]
    pub channel: Option<ChannelId>,
    /// Only in these channels; none is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelId>,
    /// Only of this person, or of those in a list; none is all.
    #[serde(
        default,
        rename = "sender",
        deserialize_with = "one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("type" = ["string", "array"]))]
    pub senders: Vec<String>,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::One(one) => vec![one],
        Given::Many(many) => many,
    })
}

/// When it is open, by `watch` or by `open` with `close` or `duration`, and how it ticks then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "TriggerWindowConfig", deny_unknown_fields)]
pub struct Window {
    /// It is open in each minute that fits this pattern. Instead of `open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// It opens at the times of this pattern …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// … and closes at the next time of this one …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    /// … or after this long, 1s to 7d.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// The zone of local times. Left out: that of the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// From one tick to the next, 5s to 24h. Left out: 30s.
    pub tick_interval: Span,
    /// After so many ticks it closes, at most 100,000. Left out: 1,000.
    #[serde(rename = "max_ticks_per_window")]
    pub max_ticks: u32,
    /// After so many tokens it closes.
    #[serde(rename = "max_tokens_per_window", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// After it cost so much it closes.
    #[serde(rename = "max_usd_per_window", skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    /// It closes after the first tick that found something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_on: Option<StopOn>,
    /// Ticks become rarer while nothing is found.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backoff: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            watch: None,
            open: None,
            close: None,
            duration: None,
            timezone: None,
            tick_interval: Span(Duration::from_secs(30)),
            max_ticks: 1_000,
            max_tokens: None,
            max_usd: None,
            stop_on: None,
            backoff: false,
        }
    }
}

words! {
    /// What closes a window before its time.
    pub enum StopOn {
        /// A tick that found something.
        FirstHit = "first_hit",
    }
}

/// When a window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hours<'a> {
    /// In each minute that fits.
    Watch(&'a str),
    /// From a time of one pattern to the next of another.
    Between {
        /// When it opens.
        open: &'a str,
        /// When it closes.
        close: &'a str,
    },
    /// From a time of a pattern on, for so long.
    Lasting {
        /// When it opens.
        open: &'a str,
        /// For how long.
        duration: Duration,
    },
}

impl Window {
    /// When it is open; none if that was not said in one of the three ways.
    pub fn hours(&self) -> Option<Hours<'_>> {
        let Self { watch, open, close, duration, .. } = self;
        match (watch.as_deref(), open.as_deref(), close.as_deref(), duration) {
            (Some(pattern), None, None, None) => Some(Hours::Watch(pattern)),
            (None, Some(open), Some(close), None) => Some(Hours::Between { open, close }),
            (None, Some(open), None, Some(duration)) => {
                Some(Hours::Lasting { open, duration: duration.0 })
            }
            _ => None,
        }
    }
}

/// Who may call, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriggerWebhook", deny_unknown_fields)]
pub struct Webhook {
    /// How callers prove who they are: `standard`, `github`, or an object with `header`, `encoding`
    /// and, where needed, `prefix`, `timestamp_header`, `signed`.
    #[serde(default)]
    pub scheme: Scheme,
    /// A secret of the team's vault, such as ${vault:KEY}.
    pub secret: SecretRef,
    /// The one before it, good for a day after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_previous: Option<SecretRef>,
    /// Until when the former secret is good.
    #[serde(skip)]
    pub previous_until: Option<Timestamp>,
    /// How far a caller's clock may be off, 10s to 1h. Left out: 5m.
    #[serde(default = "five_minutes")]
    pub tolerance: Span,
    /// The longest body, up to 8MiB. Left out: 1MiB.
    #[serde(default = "one_mebibyte")]
    pub max_body: Size,
    /// What a body may be. Left out: JSON, a form or plain text.
    #[serde(default = "usual_content_types")]
    pub content_types: Vec<String>,
    /// What must hold of a JSON body: all of these, each with `pointer` and `equals` or `matches`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Condition>,
    /// Which header fields the team sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_headers: Vec<String>,
    /// The most calls in a minute. Left out: 60/min.
    #[serde(default, deserialize_with = "rate_or_number")]
    #[schemars(extend("type" = ["string", "integer"]))]
    pub rate: Rate,
}

fn five_minutes() -> Span {
    Span(Duration::from_secs(5 * 60))
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

fn usual_content_types() -> Vec<String> {
    ["application/json", "application/x-www-form-urlencoded", "text/plain"]
        .map(str::to_owned)
        .to_vec()
}

impl Webhook {
    /// A webhook with nothing but defaults beside its secret.
    pub fn new(secret: SecretRef) -> Self {
        Self {
            scheme: Scheme::default(),
            secret,
            secret_previous: None,
            previous_until: None,
            tolerance: five_minutes(),
            max_body: one_mebibyte(),
            content_types: usual_content_types(),
            filter: Vec::new(),
            pass_headers: Vec::new(),
            rate: Rate::default(),
        }
    }
}

/// The name of a secret in the team's vault. The secret itself never stands in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRef(String);

text!(SecretRef);

impl Text for SecretRef {
    const FORMAT: &'static str = "vault-reference";
    const PATTERN: &'static str = r"^\$\{vault:[A-Za-z0-9_.:-]+\}$";
    const EXAMPLES: &'static [&'static str] = &["${vault:WEBHOOK_KEY}"];
}

/// A text that is no [`SecretRef`]. It may be a secret, and is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a reference to the team's vault such as ${{vault:WEBHOOK_KEY}}, not the secret itself"
)]
pub struct NotASecretRef;

impl SecretRef {
    /// The secret of this name.
    pub fn to(key: &str) -> Self {
        Self(key.to_owned())
    }

    /// The name.
    pub fn key(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretRef {
    type Err = NotASecretRef;

    fn from_str(text: &str) -> Result<Self, NotASecretRef> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        let key = text.strip_prefix("${vault:").and_then(|rest| rest.strip_suffix('}'));
        let key = key.filter(|key| !key.is_empty() && key.bytes().all(is_plain));
        key.map(Self::to).ok_or(NotASecretRef)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("${{vault:{}}}", self.0))
    }
}

/// So many in a minute: `60/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u32);

text!(Rate);

impl Text for Rate {
    const FORMAT: &'static str = "rate";
    const PATTERN: &'static str = "^[0-9]+/min$";
    const EXAMPLES: &'static [&'static str] = &["60/min"];
}

/// A text that is no [`Rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected calls per minute such as 60/min")]
pub struct NotARate;

impl Default for Rate {
    fn default() -> Self {
        Self(60)
    }
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let count = text.strip_suffix("/min").and_then(|count| count.parse().ok());
        count.map(Self).ok_or(NotARate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/min", self.0))
    }
}

fn rate_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(u32),
        Rate(Rate),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::Number(count) => Rate(count),
        Given::Rate(rate) => rate,
    })
}

/// How callers of a webhook prove who they are. All of them sign with HMAC-SHA256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "WebhookScheme", transform = one_of)]
pub enum Scheme {
    /// As others do.
    Known(KnownScheme),
    /// As told.
    Custom(CustomScheme),
}

/// No value is a word and an object at once, and only of `oneOf` is it known which one is meant.
fn one_of(schema: &mut Schema) {
    if let Some(variants) = schema.remove("anyOf") {
        schema.insert("oneOf".to_owned(), variants);
    }
}

impl Default for Scheme {
    fn default() -> Self {
        Self::Known(KnownScheme::Standard)
    }
}

words! {
    /// A way of signing that has a name.
    pub enum KnownScheme {
        /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
        Standard = "standard",
        /// `X-Hub-Signature-256`.
        Github = "github",
    }
}

/// A way of signing that is told in detail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WebhookCustomScheme", deny_unknown_fields)]
pub struct CustomScheme {
    /// The header with the signature.
    pub header: String,
    /// What stands before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How its bytes are written.
    pub encoding: Encoding,
    /// The header with the time, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_header: Option<String>,
    /// What is signed.
    #[serde(default)]
    pub signed: Signed,
}

words! {
    /// How the bytes of a signature are written.
    #[schemars(rename = "WebhookEncoding")]
    pub enum Encoding {
        /// Two digits for each.
        Hex = "hex",
        /// Four characters for three.
        Base64 = "base64",
    }
}

words! {
    /// What a signature covers.
    #[schemars(rename = "WebhookSigned")]
    #[derive(Default)]
    pub enum Signed {
        /// The body.
        #[default]
        Body = "body",
        /// The time, a full stop, the body.
        TimestampBody = "timestamp.body",
    }
}

/// Something that must hold of a JSON body: what stands at a place is, or matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WebhookCondition", deny_unknown_fields)]
pub struct Condition {
    /// Where to look: a JSON pointer.
    pub pointer: String,
    /// What must be there, be it null.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// An expression that the text there must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
