//! Failures: the class of a `result` line that is an error.

use std::time::Duration;

use hivewright_actors::{engine::EngineFailure, task::outcome::Code};
use serde_json::Value;

/// What was said of a failure before the `result` that ends the turn.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// The class that the program gave the failure of an API call.
    error: Option<String>,
    /// How long the provider asks to wait.
    pause: Option<Duration>,
}

impl Signs {
    /// The words of the program in place of a message of the model.
    pub(super) fn synthetic(&mut self, line: &Value) {
        self.error = line["error"].as_str().map(str::to_owned).or(self.error.take());
    }

    /// It tries a call again.
    pub(super) fn retry(&mut self, line: &Value) {
        // Its own pauses have a random part; one of whole seconds is the provider's.
        let told = line["retry_delay_ms"].as_u64().filter(|delay| delay % 1000 == 0);
        self.pause = told.filter(|_| line["error_status"] == 429).map(Duration::from_millis);
    }

    /// The failure that a `result` line tells of. Words of a model are never searched.
    pub(super) fn failure(&self, result: &Value) -> EngineFailure {
        let code = self.code(result);
        EngineFailure {
            retry_after: self.pause.filter(|_| code == Code::RateLimited),
            ..EngineFailure::new(code, words(result))
        }
    }

    fn code(&self, result: &Value) -> Code {
        if result["terminal_reason"] == "prompt_too_long"
            || result["result"] == "Prompt is too long"
        {
            return Code::ContextOverflow;
        }
        if result["stop_reason"] == "refusal" {
            return Code::ProviderRefused;
        }
        match (self.error.as_deref(), result["api_error_status"].as_u64()) {
            (
                Some(
                    "authentication_failed"
                    | "oauth_org_not_allowed"
                    | "account_on_hold"
                    | "verification_required",
                ),
                _,
            )
            | (_, Some(401)) => Code::ProviderAuth,
            (Some("rate_limit"), _) | (_, Some(429)) => Code::RateLimited,
            (Some("billing_error" | "model_not_found"), _) => Code::ConfigError,
            (Some("overloaded"), _) | (_, Some(500..)) => Code::Overloaded,
            (Some(_), None) => Code::Network,
            _ => Code::ProviderError,
        }
    }
}

/// What happened, as the program says it.
fn words(result: &Value) -> String {
    let errors = result["errors"].as_array().into_iter().flatten();
    let errors = errors.filter_map(Value::as_str).collect::<Vec<_>>().join("; ");
    [errors.as_str(), result["result"].as_str().unwrap_or_default()]
        .into_iter()
        .find(|words| !words.is_empty())
        .or(result["subtype"].as_str())
        .unwrap_or("it failed without a reason")
        .to_owned()
}
