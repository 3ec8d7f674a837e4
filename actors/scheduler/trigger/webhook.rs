//! The `config` of a webhook: who may call, and with what.

use std::{fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::limits;
use crate::{
    clock::Timestamp,
    text,
    text::{Expected, Size, Span, Text},
    words,
};

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
    #[schemars(extend("x-minimum" = limits::TOLERANCE.start(), "x-maximum" = limits::TOLERANCE.end()))]
    pub tolerance: Span,
    /// The longest body, up to 8MiB. Left out: 1MiB.
    #[serde(default = "one_mebibyte")]
    #[schemars(extend("x-maximum" = limits::BODY.end()))]
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

impl SecretRef {
    /// The secret of this name.
    pub fn to(key: &str) -> Self {
        Self(key.to_owned())
    }

    pub fn key(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretRef {
    type Err = Expected;

    /// What is none may be a secret, and is not repeated.
    fn from_str(text: &str) -> Result<Self, Expected> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        let key = text.strip_prefix("${vault:").and_then(|rest| rest.strip_suffix('}'));
        let key = key.filter(|key| !key.is_empty() && key.bytes().all(is_plain));
        key.map(Self::to).ok_or(Expected(
            "a reference to the team's vault such as ${vault:WEBHOOK_KEY}, not the secret itself",
        ))
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

impl Default for Rate {
    fn default() -> Self {
        Self(60)
    }
}

impl FromStr for Rate {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let count = text.strip_suffix("/min").and_then(|count| count.parse().ok());
        count.map(Self).ok_or(Expected("calls per minute such as 60/min"))
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
