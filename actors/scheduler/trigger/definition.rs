//! A trigger's definition: what people, models and settings write, what is stored and what is shown.

use std::{fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    config::{Config, TriggerType},
    limits,
};
use crate::{
    ids::{ChannelId, TopicId},
    task::{Priority, STEPS, TopicRef},
    text,
    text::{Expected, Span, Text},
    words,
};

/// What a trigger is told to be. The engine changes nothing here.
///
/// Unknown fields are refused by the schema, not by serde: a row of a later version can be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// Unique in its team: lower-case words joined by `-`.
    pub name: String,
    /// When it fires.
    #[serde(flatten)]
    pub config: Config,
    /// What the team is asked to do, complete in itself. At most 20,000 characters.
    pub task: String,
    /// Who of the team does it.
    #[serde(default)]
    pub subagent: Option<String>,
    /// The most model calls, 1 to 500. Left out: the team's own limit.
    #[serde(default)]
    #[schemars(range(min = *STEPS.start(), max = *STEPS.end()))]
    pub max_steps: Option<u32>,
    /// How soon, among the tasks of its team.
    #[serde(default)]
    pub priority: TriggerPriority,
    /// How long a task may take from its firing on, 1m to 7d. Left out: 6h.
    #[serde(default = "six_hours")]
    #[schemars(extend("x-minimum" = limits::DEADLINE.start(), "x-maximum" = limits::DEADLINE.end()))]
    pub deadline: Span,
    /// What a firing does while the last task is unfinished. Left out: it depends on the type.
    #[serde(default)]
    pub overlap_policy: OverlapPolicy,
    /// Of a schedule: what becomes of times that passed unserved. Left out: `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// So many failures in a row switch it off, 1 to 100. Left out: 3.
    #[serde(default = "three")]
    #[schemars(range(min = *limits::FAILURES.start(), max = *limits::FAILURES.end()))]
    pub failure_threshold: u32,
    /// The least time between two firings, up to 30d. Left out: none.
    #[serde(default)]
    #[schemars(extend("x-maximum" = limits::COOLDOWN.end()))]
    pub cooldown: Span,
    /// Whether people hear of its runs.
    #[serde(default)]
    pub notify: NotifyPolicy,
    /// Where they hear of them: the id of a channel, or `source` for the conversation that this comes
    /// from. Left out: nowhere.
    #[serde(default)]
    pub notify_channel: Option<ChannelId>,
    /// In which topic there: its id, or `source`.
    #[serde(default, with = "topic_id")]
    #[schemars(with = "Option<TopicId>")]
    pub notify_topic: Option<TopicRef>,
    /// When they are left in peace: `from` and `to` as HH:MM, `timezone` optional.
    #[serde(default)]
    pub quiet: Option<Quiet>,
    /// An operator allows text from outside to reach a team that has secrets.
    #[serde(default)]
    pub allow_untrusted: bool,
}

fn six_hours() -> Span {
    Span(Duration::from_secs(6 * 60 * 60))
}

fn three() -> u32 {
    3
}

impl Definition {
    /// A definition with nothing but defaults beside what every trigger needs.
    pub fn new(name: &str, config: Config, task: &str) -> Self {
        let definition = Self {
            name: name.to_owned(),
            overlap_policy: OverlapPolicy::usual(config.kind()),
            config,
            task: task.to_owned(),
            subagent: None,
            max_steps: None,
            priority: TriggerPriority::Normal,
            deadline: six_hours(),
            missed: None,
            failure_threshold: three(),
            cooldown: Span::default(),
            notify: NotifyPolicy::Auto,
            notify_channel: None,
            notify_topic: None,
            quiet: None,
            allow_untrusted: false,
        };
        definition.settled()
    }

    /// The same in one of the ways in which it could be written.
    pub fn settled(mut self) -> Self {
        match &mut self.config {
            Config::Schedule(_) => {
                self.missed.get_or_insert_default();
            }
            Config::Keyword(listen) | Config::Message(listen) => {
                listen.channels.extend(listen.channel.take());
            }
            Config::Window(_) => {}
            Config::Webhook(webhook) => {
                webhook.content_types.iter_mut().for_each(|kind| kind.make_ascii_lowercase());
            }
        }
        self
    }

    pub fn kind(&self) -> TriggerType {
        self.config.kind()
    }
}

words! {
    /// How soon a run is begun. No trigger may be critical.
    #[derive(Default)]
    pub enum TriggerPriority {
        /// Someone waits for it.
        High = "high",
        /// As it comes.
        #[default]
        Normal = "normal",
        /// When there is nothing else.
        Low = "low",
    }
}

impl From<TriggerPriority> for Priority {
    fn from(priority: TriggerPriority) -> Self {
        match priority {
            TriggerPriority::High => Self::High,
            TriggerPriority::Normal => Self::Normal,
            TriggerPriority::Low => Self::Low,
        }
    }
}

words! {
    /// What a firing does while the last task is unfinished.
    #[derive(Default)]
    pub enum OverlapPolicy {
        /// The first is skipped, the next one replaces the task.
        SkipThenReplace = "skip-then-replace",
        /// It is skipped.
        AlwaysSkip = "always-skip",
        /// It replaces the task.
        AlwaysReplace = "always-replace",
        /// It waits behind the task.
        #[default]
        Allow = "allow",
    }
}

impl OverlapPolicy {
    /// That of a type, unless a definition names another one.
    pub fn usual(kind: TriggerType) -> Self {
        match kind {
            TriggerType::Schedule => Self::SkipThenReplace,
            TriggerType::Window => Self::AlwaysSkip,
            // Each of these is somebody's message: none is dropped, the later one waits.
            TriggerType::Keyword | TriggerType::Message | TriggerType::Webhook => Self::Allow,
        }
    }
}

words! {
    /// What becomes of times that passed unserved.
    #[derive(Default)]
    pub enum MissedPolicy {
        /// Nothing.
        Skip = "skip",
        /// One run for all of them.
        #[default]
        Once = "once",
        /// A run for each.
        All = "all",
    }
}

words! {
    /// Whether people hear of runs.
    #[derive(Default)]
    pub enum NotifyPolicy {
        /// As the run itself reports.
        #[default]
        Auto = "auto",
        /// Of each.
        Always = "always",
        /// Of those that failed.
        OnFailure = "on_failure",
        /// Of none.
        Never = "never",
    }
}

/// When people are left in peace. May pass midnight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TriggerQuiet", deny_unknown_fields)]
pub struct Quiet {
    /// From when.
    pub from: TimeOfDay,
    /// Until when.
    pub to: TimeOfDay,
    /// The zone; none is that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// A time of day in minutes since midnight: `22:30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay(pub u32);

text!(TimeOfDay);

impl Text for TimeOfDay {
    const FORMAT: &'static str = "time-of-day";
    const PATTERN: &'static str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
    const EXAMPLES: &'static [&'static str] = &["22:30"];
}

impl FromStr for TimeOfDay {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let two = |part: &str| (part.len() == 2).then(|| part.parse::<u32>().ok()).flatten();
        let parts =
            text.split_once(':').and_then(|(hour, minute)| Some((two(hour)?, two(minute)?)));
        match parts {
            Some((hour, minute)) if hour < 24 && minute < 60 => Ok(Self(hour * 60 + minute)),
            _ => Err(Expected("a time of day such as 22:30")),
        }
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:02}:{:02}", self.0 / 60, self.0 % 60))
    }
}

/// A topic by its id. Where a conversation gave it a name, the trigger's row has that.
mod topic_id {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        topic: &Option<TopicRef>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        topic.as_ref().map(|topic| &topic.id).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<TopicRef>, D::Error> {
        let id = Option::<TopicId>::deserialize(deserializer)?;
        Ok(id.map(|id| TopicRef { name: id.to_string(), id }))
    }
}
