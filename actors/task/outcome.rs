//! Outcomes: how a task ended, and why if not well.

use serde::{Deserialize, Serialize};

use crate::{clock::Timestamp, usage::Usage, words};

words! {
    /// How a task can end. There is no way back from any of them.
    pub enum Ending {
        /// With an answer.
        Done = "done",
        /// With a permanent error.
        Failed = "failed",
        /// By a person, or by a newer message.
        Cancelled = "cancelled",
        /// By the clock.
        Expired = "expired",
        /// By passing errors, [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) times.
        Dead = "dead",
    }
}

words! {
    /// Why a task did not end well.
    #[schemars(rename = "TaskCode")]
    pub enum Code {
        /// A settings file of the team or a name in it is wrong.
        ConfigError = "config_error",
        /// No model is configured.
        NoProvider = "no_provider",
        /// The provider rejects the request for good.
        ProviderError = "provider_error",
        /// No credential that the provider takes.
        ProviderAuth = "provider_auth",
        /// The model declined.
        ProviderRefused = "provider_refused",
        /// The conversation does not fit into the model's window.
        ContextOverflow = "context_overflow",
        /// Too many steps.
        StepLimit = "step_limit",
        /// The model answered with nothing.
        EmptyAnswer = "empty_answer",
        /// A fault of Hivewright.
        Internal = "internal",
        /// Stopped by a person.
        Cancelled = "cancelled",
        /// Stopped by a newer message.
        Interrupted = "interrupted",
        /// Out of time.
        Deadline = "deadline",
        /// The provider cannot be reached.
        Network = "network",
        /// The provider has too much to do.
        Overloaded = "overloaded",
        /// The provider wants fewer requests.
        RateLimited = "rate_limited",
        /// Nothing moved for too long.
        Stalled = "stalled",
        /// The process or the team stopped under it.
        Crash = "crash",
    }
}

impl Code {
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
    pub ending: Ending,
    pub code: Option<Code>,
    pub message: Option<String>,
    /// The answer, or what there was of it.
    pub text: String,
    /// The model's output limit cut the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    pub usage: Usage,
    /// What the turn reported about its run, if it is one of a trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<serde_json::Value>,
    pub finished_at: Timestamp,
}

impl Outcome {
    /// That of a turn without words and without costs.
    pub fn new(ending: Ending, finished_at: Timestamp) -> Self {
        Self {
            ending,
            code: None,
            message: None,
            text: String::new(),
            truncated: false,
            usage: Usage::default(),
            report: None,
            finished_at,
        }
    }

    /// Why it did not end well, in words for a person.
    pub fn explanation(&self) -> String {
        let ended = || format!("the task ended as {}", self.ending.as_str());
        self.message.clone().unwrap_or_else(ended)
    }
}
