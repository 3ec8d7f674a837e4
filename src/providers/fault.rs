//! Why a model API did not answer, and what may help.

use std::time::Duration;

use hivewright_actors::{task::outcome::Code, usage::Usage};

use super::OptionalField;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    /// What happened, without the profile's name, not yet scrubbed.
    pub(crate) message: String,
    pub(crate) remedy: Remedy,
    /// What the provider reported before it broke.
    pub(crate) usage: Usage,
    /// An answer had begun.
    pub(crate) answered: bool,
}

const TOO_LONG: &str = "the conversation is too long for the model";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The same again, after the pause that the server named, then another profile.
    Retry(Option<Duration>),
    /// The same again at once without this field.
    LeaveOut(OptionalField),
    Fallback,
    None,
}

impl Fault {
    pub(crate) fn new(code: Code, remedy: Remedy, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy, usage: Usage::default(), answered: false }
    }

    pub(crate) fn network(message: impl Into<String>) -> Self {
        Self::new(Code::Network, Remedy::Retry(None), message)
    }

    /// No sign of life for so long.
    pub(crate) fn stalled(limit: Duration) -> Self {
        let message = format!("nothing came for {} s", limit.as_secs_f64());
        Self::new(Code::Stalled, Remedy::Retry(None), message)
    }

    pub(crate) fn unreadable(error: &serde_json::Error) -> Self {
        Self::network(format!("the answer cannot be read: {error}"))
    }

    pub(crate) fn too_large(what: &str, limit: usize) -> Self {
        let limit = limit / (1024 * 1024);
        Self::new(Code::ProviderError, Remedy::None, format!("{what} is larger than {limit} MiB"))
    }

    pub(crate) fn refused(reason: &str) -> Self {
        let message = match reason.trim() {
            "" => "the model declined to answer".to_owned(),
            reason => format!("the model declined to answer: {reason}"),
        };
        Self::new(Code::ProviderRefused, Remedy::None, message)
    }

    /// The answer broke off since it no longer fits beside the conversation.
    pub(crate) fn window_exceeded() -> Self {
        let message = format!("{TOO_LONG}: its window was full in the middle of the answer");
        Self { answered: true, ..Self::new(Code::ContextOverflow, Remedy::None, message) }
    }

    /// A response with an error status, or an error event that means the same.
    pub(crate) fn status(status: u16, said: &str, retry_after: Option<Duration>) -> Self {
        let retry = Remedy::Retry(retry_after);
        let (code, remedy, cause) = match status {
            401 | 403 => {
                (Code::ProviderAuth, Remedy::Fallback, "the provider does not take the key")
            }
            408 => (Code::Network, retry, "the provider waited too long for the request"),
            429 => (Code::RateLimited, retry, "the provider wants fewer requests"),
            // Some servers say so with a status of their own problems.
            _ if status == 413 || is_overflow(said) => {
                (Code::ContextOverflow, Remedy::None, TOO_LONG)
            }
            409 | 500 | 502 | 503 | 504 | 529 => {
                (Code::Overloaded, retry, "the provider has a problem")
            }
            400 | 422 => (
                Code::ProviderError,
                refused_field(said).map_or(Remedy::None, Remedy::LeaveOut),
                "the provider rejects the request",
            ),
            500..=599 => (Code::Overloaded, Remedy::Fallback, "the provider has a problem"),
            _ => (Code::ProviderError, Remedy::None, "the provider rejects the request"),
        };
        let message = match said.trim() {
            "" => format!("{cause} ({status})"),
            said => format!("{cause} ({status}): {said}"),
        };
        Self::new(code, remedy, message)
    }

    /// The pause that the server asks for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self.remedy {
            Remedy::Retry(asked) => asked,
            _ => None,
        }
    }

    pub(crate) fn with_usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }
}

fn is_overflow(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    [
        "prompt is too long",
        "context_length_exceeded",
        "maximum context length",
        "context window",
        "context size",
        "exceed context limit",
        "input tokens exceed",
        "input is too long",
        "exceeds the maximum number of tokens",
        "reduce the length of the messages",
    ]
    .iter()
    .any(|sign| said.contains(sign))
}

fn refused_field(said: &str) -> Option<OptionalField> {
    OptionalField::ALL
        .into_iter()
        .find(|field| field.names().iter().any(|name| said.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-124, SE-126, SE-127
    #[test]
    fn each_status_has_its_remedy() {
        let retry = Remedy::Retry(None);
        let table = [
            (400, Code::ProviderError, Remedy::None),
            (401, Code::ProviderAuth, Remedy::Fallback),
            (403, Code::ProviderAuth, Remedy::Fallback),
            (404, Code::ProviderError, Remedy::None),
            (408, Code::Network, retry),
            (409, Code::Overloaded, retry),
            (413, Code::ContextOverflow, Remedy::None),
            (429, Code::RateLimited, retry),
            (500, Code::Overloaded, retry),
            (502, Code::Overloaded, retry),
            (503, Code::Overloaded, retry),
            (504, Code::Overloaded, retry),
            (529, Code::Overloaded, retry),
        ];

        for (status, code, remedy) in table {
            let fault = Fault::status(status, "", None);
            assert_eq!((fault.code, fault.remedy), (code, remedy), "{status}");
        }
    }

    /// SE-95: in the words of vendors and of servers that speak like them.
    #[test]
    fn a_conversation_that_is_too_long_is_told_from_other_rejections() {
        for said in [
            "prompt is too long: 200001 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input \
             length or `max_tokens` and try again",
            "This model's maximum context length is 8192 tokens. However, your messages resulted in \
             9001 tokens. Please reduce the length of the messages. (context_length_exceeded)",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "Input tokens exceed the configured limit of 272000 tokens.",
            "the request exceeds the available context size, try increasing it",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        ] {
            for status in [400, 422, 500] {
                let fault = Fault::status(status, said, None);
                assert_eq!(fault.code, Code::ContextOverflow, "{said}");
                assert_eq!(fault.remedy, Remedy::None, "{said}");
            }
            assert_eq!(Fault::status(429, said, None).code, Code::RateLimited);
        }
        for said in ["`max_tokens` is too large: 9000", "model: no such model"] {
            assert_eq!(Fault::status(400, said, None).code, Code::ProviderError);
        }
    }

    /// SE-117
    #[test]
    fn a_refused_optional_field_is_recognized() {
        let fault = Fault::status(400, "Unknown parameter: 'stream_options'", None);

        assert_eq!(fault.remedy, Remedy::LeaveOut(OptionalField::StreamUsage));
    }
}
