//! A task: the durable unit of work, the same for all that is asked of a team.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{ChannelId, LeaseId, MessageId, TaskId, TeamName, TopicId},
    usage::Usage,
};

/// A task is tried this often before it is given up as [`Ending::Dead`].
pub const MAX_ATTEMPTS: u32 = 3;

/// Where work is serial: one turn at a time runs in a lane.
///
/// The main team has a lane for each topic, every other team has one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lane {
    /// The team that works.
    pub team: TeamName,
    /// The topic, in the main team.
    pub topic: Option<TopicId>,
}

/// A topic as frames show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicRef {
    /// Its id.
    pub id: TopicId,
    /// Its name at that time.
    pub name: String,
}

/// Where the work comes from, and so where its result goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The channel that gets the answer.
    pub channel: ChannelId,
    /// The message being answered. Work that no message waits for ends in a notification.
    pub message: Option<MessageId>,
    /// The topic it belongs to.
    pub topic: Option<TopicRef>,
}

/// A unit of work for a lane, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// Who does it.
    pub lane: Lane,
    /// What is asked, in the words of whoever asked.
    pub body: String,
    /// Who asked.
    pub from: String,
    /// Where the result goes.
    pub source: Option<Source>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Its place in the order of acceptance: clocks are too coarse for it. The queue gives it.
    #[serde(default)]
    pub arrival: u64,
    /// Not to be started earlier: set between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Past this it ends as [`Ending::Expired`].
    pub deadline_at: Timestamp,
    /// How often it was leased, drains not counted.
    pub attempts: u32,
    /// An earlier attempt was cut off: its journal may hold finished steps.
    pub redelivered: bool,
    /// The ack frame of its message has been stored.
    pub acked: bool,
    /// Who holds it now.
    pub lease: Option<LeaseId>,
    /// Set once, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// How a task can end. There is no way back from any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With an answer.
    Done,
    /// With a permanent error.
    Failed,
    /// By a person, or by a newer message.
    Cancelled,
    /// By the clock.
    Expired,
    /// By passing errors, [`MAX_ATTEMPTS`] times.
    Dead,
}

impl Ending {
    /// As frames and logs name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Dead => "dead",
        }
    }
}

/// Why a task did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// A settings file of the team or a name in it is wrong.
    ConfigError,
    /// No model is configured.
    NoProvider,
    /// The provider rejects the request for good.
    ProviderError,
    /// No credential that the provider takes.
    ProviderAuth,
    /// The model declined.
    ProviderRefused,
    /// The conversation does not fit into the model's window.
    ContextOverflow,
    /// Too many steps.
    StepLimit,
    /// The model answered with nothing.
    EmptyAnswer,
    /// A fault of Hivewright.
    Internal,
    /// Stopped by a person.
    Cancelled,
    /// Stopped by a newer message.
    Interrupted,
    /// Out of time.
    Deadline,
    /// The provider cannot be reached.
    Network,
    /// The provider has too much to do.
    Overloaded,
    /// The provider wants fewer requests.
    RateLimited,
    /// Nothing moved for too long.
    Stalled,
    /// The process or the team stopped under it.
    Crash,
}

impl Code {
    /// As frames and rows name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigError => "config_error",
            Self::NoProvider => "no_provider",
            Self::ProviderError => "provider_error",
            Self::ProviderAuth => "provider_auth",
            Self::ProviderRefused => "provider_refused",
            Self::ContextOverflow => "context_overflow",
            Self::StepLimit => "step_limit",
            Self::EmptyAnswer => "empty_answer",
            Self::Internal => "internal",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Deadline => "deadline",
            Self::Network => "network",
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate_limited",
            Self::Stalled => "stalled",
            Self::Crash => "crash",
        }
    }

    /// The same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Network | Self::Overloaded | Self::RateLimited | Self::Stalled | Self::Crash
        )
    }
}

/// The one end of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Why, if not well.
    pub code: Option<Code>,
    /// Why, in words for a person.
    pub message: Option<String>,
    /// The answer, or what there was of it.
    pub text: String,
    /// What it cost.
    pub usage: Usage,
    /// When.
    pub finished_at: Timestamp,
}
