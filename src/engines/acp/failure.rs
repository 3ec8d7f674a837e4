//! Why a prompt failed, from the error that the agent answers with.

use agent_client_protocol_schema::{Error, ErrorCode};
use hivewright_actors::{engine::EngineFailure, task::outcome::Code};

use crate::providers::fault::Fault;

/// What words mean where there is no status among them. The first sign that is found counts.
const SIGNS: [(&str, Code); 8] = [
    ("overloaded", Code::Overloaded),
    ("rate limit", Code::RateLimited),
    ("rate_limit", Code::RateLimited),
    ("refusal", Code::ProviderRefused),
    ("connection", Code::Network),
    ("fetch failed", Code::Network),
    ("timed out", Code::Network),
    ("timeout", Code::Network),
];

pub(super) fn classify(error: &Error) -> EngineFailure {
    let said = match error.data.as_ref().and_then(|data| data["details"].as_str().or(data.as_str()))
    {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    };
    let code = if error.code == ErrorCode::AuthRequired {
        Code::ProviderAuth
    } else {
        // Says so itself if it is about the length.
        let plain = Fault::status(400, &said, None).code;
        Some(plain)
            .filter(|code| *code == Code::ContextOverflow)
            .or_else(|| by_status(&said))
            .or_else(|| by_words(&said))
            .unwrap_or(Code::ProviderError)
    };
    EngineFailure::new(code, format!("the agent failed: {said}"))
}

/// By the first number that is a status of HTTP.
fn by_status(said: &str) -> Option<Code> {
    let mut numbers = said.split(|letter: char| !letter.is_ascii_alphanumeric());
    let status = numbers.find_map(|number| {
        let status = number.parse::<u16>().ok()?;
        (number.len() == 3 && (400..=599).contains(&status)).then_some(status)
    })?;
    Some(Fault::status(status, said, None).code)
}

fn by_words(said: &str) -> Option<Code> {
    let said = said.to_ascii_lowercase();
    SIGNS.iter().find(|(sign, _)| said.contains(sign)).map(|(_, code)| *code)
}
