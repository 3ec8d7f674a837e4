//! The five types of triggers, and what each is told: the `config` of a definition.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{limits, webhook::Webhook};
use crate::{
    clock::Timestamp,
    ids::ChannelId,
    scheduler::ports::{Expressions, Language, Matcher},
    text::Span,
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
    pub fn kind(&self) -> TriggerType {
        match self {
            Self::Schedule(_) => TriggerType::Schedule,
            Self::Keyword(_) => TriggerType::Keyword,
            Self::Message(_) => TriggerType::Message,
            Self::Window(_) => TriggerType::Window,
            Self::Webhook(_) => TriggerType::Webhook,
        }
    }

    /// Its expression, if it listens, or what is wrong with that.
    pub fn matcher(
        &self,
        expressions: &dyn Expressions,
    ) -> Option<Result<Arc<dyn Matcher>, String>> {
        let (language, listen) = match self {
            Self::Keyword(listen) => (Language::Keyword, listen),
            Self::Message(listen) => (Language::Message, listen),
            Self::Schedule(_) | Self::Window(_) | Self::Webhook(_) => return None,
        };
        Some(expressions.read(language, &listen.pattern, listen.flags.as_deref()))
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
    #[schemars(extend("x-minimum" = limits::EVERY.start(), "x-maximum" = limits::EVERY.end()))]
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
    At(Timestamp),
    /// In steps from when it was enabled.
    Every(Duration),
}

impl Schedule {
    pub fn cron(pattern: impl Into<String>) -> Self {
        Self { cron: Some(pattern.into()), ..Self::default() }
    }

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
    #[schemars(extend("x-minimum" = limits::OPEN.start(), "x-maximum" = limits::OPEN.end()))]
    pub duration: Option<Span>,
    /// The zone of local times. Left out: that of the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// From one tick to the next, 5s to 1d. Left out: 30s.
    #[schemars(extend("x-minimum" = limits::TICK_INTERVAL.start(), "x-maximum" = limits::TICK_INTERVAL.end()))]
    pub tick_interval: Span,
    /// After so many ticks it closes, at most 100,000. Left out: 1,000.
    #[serde(rename = "max_ticks_per_window")]
    #[schemars(range(min = *limits::TICKS.start(), max = *limits::TICKS.end()))]
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
    Between { open: &'a str, close: &'a str },
    /// From a time of a pattern on, for so long.
    Lasting { open: &'a str, duration: Duration },
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
