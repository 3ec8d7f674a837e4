//! Failures of a turn, as Codex words them.

use hivewright_actors::{engine::EngineFailure, task::outcome::Code};
use serde_json::Value;

use crate::providers::fault::Fault;

/// What a failed turn is to us. `info` is `codexErrorInfo`, null where there is none.
pub(super) fn failure(message: &str, info: &Value) -> EngineFailure {
    let code = by_info(info, message).or_else(|| by_message(message));
    EngineFailure::new(code.unwrap_or(Code::ProviderError), words(message))
}

fn by_info(info: &Value, message: &str) -> Option<Code> {
    if let Some(details) = info.as_object() {
        let status = details.values().find_map(|of| of.get("httpStatusCode"))?.as_u64();
        return Some(status.map_or(Code::Network, |status| by_status(status, message)));
    }
    Some(match info.as_str()? {
        "contextWindowExceeded" => Code::ContextOverflow,
        "usageLimitExceeded" | "rateLimitExceeded" => Code::RateLimited,
        "serverOverloaded"
        | "internalServerError"
        | "flexUnavailable"
        | "policyCapacityUnavailable" => Code::Overloaded,
        "unauthorized" => Code::ProviderAuth,
        "modelNotFound" => Code::ConfigError,
        "cyberPolicy" | "misalignmentPolicyViolation" => Code::ProviderRefused,
        _ => return None,
    })
}

fn by_status(status: u64, said: &str) -> Code {
    let status = u16::try_from(status).unwrap_or_default();
    Fault::status(status, said, None).code
}

/// By its own words, which are all that a single run tells.
fn by_message(message: &str) -> Option<Code> {
    let status = ["unexpected status ", "exceeded retry limit, last status: "]
        .iter()
        .find_map(|before| message.strip_prefix(before)?.get(..3)?.parse().ok());
    if let Some(status) = status {
        return Some(by_status(status, message));
    }
    // The body of a refused request, as the API wrote it.
    if said(message).is_some() {
        return Some(by_status(400, message));
    }
    let begins = |words: &str| message.starts_with(words);
    if message.ends_with("reason: content_filter") {
        Some(Code::ProviderRefused)
    } else if begins("stream disconnected") || begins("Connection failed") {
        Some(Code::Network)
    } else if begins("Codex ran out of room in the model's context window") {
        Some(Code::ContextOverflow)
    } else if begins("Quota exceeded") || begins("rate limit exceeded") {
        Some(Code::RateLimited)
    } else if begins("Selected model is at capacity") || message.contains("high demand") {
        Some(Code::Overloaded)
    } else {
        None
    }
}

fn words(message: &str) -> String {
    format!("Codex could not finish: {}", said(message).as_deref().unwrap_or(message))
}

/// The message in an error body of the API.
fn said(message: &str) -> Option<String> {
    let body: Value = serde_json::from_str(message).ok()?;
    Some(body.get("error")?.get("message")?.as_str()?.to_owned())
}
