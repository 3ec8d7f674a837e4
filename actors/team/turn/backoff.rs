//! Backoff: which failures of a provider are waited out, and for how long.

use std::time::Duration;

use crate::{
    clock::{Timestamp, doubling},
    engine::EngineFailure,
    ids::TurnId,
    store::records::digest,
    task::{Wait, WaitReason, outcome::Code},
};

/// The first and the longest pause for a provider that wants fewer requests and does not say when.
const RATE_LIMIT_PAUSES: (Duration, Duration) =
    (Duration::from_secs(300), Duration::from_secs(3_600));
/// The same for one that says when, and then does not keep to it.
const NAMED_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
/// The same for one that does not answer.
const OUTAGE_PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));

/// What a turn waits for after a failure; none if it ends or is tried again as it is.
pub(super) fn reason(failure: &EngineFailure) -> Option<WaitReason> {
    match failure.code {
        Code::RateLimited => Some(WaitReason::RateLimit),
        Code::ProviderAuth => Some(WaitReason::Login),
        // An answer that breaks each time would cost as much each time: that has an end.
        Code::Network | Code::Overloaded | Code::Stalled if !failure.answered => {
            Some(WaitReason::ProviderDown)
        }
        _ => None,
    }
}

/// What the pauses of a turn are multiplied by that nobody named: 0.8 to 1.2, so that turns that were refused together
/// don't return together. The same for every try of a turn.
pub(super) fn spread(turn: &TurnId) -> f64 {
    0.8 + 0.4 * (digest(turn.as_str()) as f64 / u64::MAX as f64)
}

/// The wait, after so many others for the same.
pub(super) fn wait(
    reason: WaitReason,
    failure: &EngineFailure,
    times: u32,
    spread: f64,
    now: Timestamp,
) -> Wait {
    let pause = match reason {
        WaitReason::RateLimit => Some(match failure.retry_after {
            Some(told) => told.max(doubling(NAMED_PAUSES.0, NAMED_PAUSES.1, times)),
            None => doubling(RATE_LIMIT_PAUSES.0, RATE_LIMIT_PAUSES.1, times).mul_f64(spread),
        }),
        WaitReason::ProviderDown => Some(doubling(OUTAGE_PAUSES.0, OUTAGE_PAUSES.1, times)),
        _ => None,
    };
    let message = &failure.message;
    let note = match pause {
        Some(pause) => {
            let seconds = pause.as_secs_f64().ceil();
            format!("{message}. Waiting; trying again in {seconds} s.")
        }
        None => format!("{message}. Waiting for a key that is taken; the operator was told."),
    };
    Wait { reason, note, until: pause.map(|pause| now + pause) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(code: Code, retry_after: Option<u64>) -> Vec<u64> {
        spread_pauses(code, retry_after, 1.0)
    }

    fn spread_pauses(code: Code, retry_after: Option<u64>, spread: f64) -> Vec<u64> {
        let failure = EngineFailure {
            retry_after: retry_after.map(Duration::from_secs),
            ..EngineFailure::new(code, "no")
        };
        let reason = reason(&failure).unwrap_or(WaitReason::Query);
        let waits = (0..6).map(|times| wait(reason, &failure, times, spread, Timestamp(0)));
        waits.filter_map(|wait| Some(wait.until?.0 / 1_000)).collect()
    }

    /// SE-129
    #[test]
    fn pauses_grow_up_to_their_bound_unless_the_provider_names_one() {
        let limited = [300, 600, 1_200, 2_400, 3_600, 3_600];
        assert_eq!(pauses(Code::RateLimited, None), limited);
        assert_eq!(pauses(Code::RateLimited, Some(7)), [7, 7, 7, 8, 16, 32]);
        assert_eq!(spread_pauses(Code::RateLimited, None, 0.8)[..2], [240, 480]);
        for code in [Code::Network, Code::Overloaded, Code::Stalled] {
            assert_eq!(pauses(code, Some(7)), [30, 60, 120, 240, 480, 600]);
        }
        assert!(pauses(Code::ProviderAuth, None).is_empty());
    }

    /// SE-20, SE-129
    #[test]
    fn an_answer_that_broke_and_a_rejection_are_not_waited_out() {
        let broke = EngineFailure { answered: true, ..EngineFailure::new(Code::Network, "no") };

        assert_eq!(reason(&broke), None);
        assert_eq!(reason(&EngineFailure::new(Code::ProviderError, "no")), None);
        assert_eq!(reason(&EngineFailure::new(Code::Internal, "no")), None);
    }
}
