//! Why a turn of Pi failed, from the message that it gives.

use hivewright_actors::{engine::EngineFailure, task::outcome::Code};

use crate::providers::fault::Fault;

/// What messages without a status mean. The first sign that is found counts.
const SIGNS: [(&str, Code); 12] = [
    ("overloaded", Code::Overloaded),
    ("rate_limit", Code::RateLimited),
    ("content_filter", Code::ProviderRefused),
    ("refused to complete", Code::ProviderRefused),
    ("refusal", Code::ProviderRefused),
    ("connection", Code::Network),
    ("terminated", Code::Network),
    ("fetch failed", Code::Network),
    ("socket", Code::Network),
    ("timed out", Code::Network),
    ("timeout", Code::Network),
    ("stream ended", Code::Network),
];

/// The failure that a message of Pi tells of: `429 {…}`, `429: {…}` or words.
pub(super) fn classify(said: &str) -> EngineFailure {
    let status = said.get(..3).and_then(|digits| digits.parse::<u16>().ok());
    if let Some(status) = status.filter(|status| (400..=599).contains(status)) {
        let fault = Fault::status(status, said[3..].trim_start_matches(':'), None);
        return EngineFailure::new(fault.code, fault.message);
    }
    let lower = said.to_ascii_lowercase();
    let sign = SIGNS.iter().find(|(sign, _)| lower.contains(sign));
    match sign {
        Some((_, code)) => EngineFailure::new(*code, format!("pi failed: {said}")),
        // Says so itself if it is about the length.
        None => {
            let fault = Fault::status(400, said, None);
            EngineFailure::new(fault.code, format!("pi failed: {said}"))
        }
    }
}
