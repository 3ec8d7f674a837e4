//! How often and after which pause a failed request is made again.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{clock::doubling, ids::Entropy};

use crate::{providers::fault::Remedy, system::Randomness};

/// When a request is made again.
#[derive(Clone)]
pub struct RetryPolicy {
    /// The longest first pause; it doubles with each retry.
    pub base: Duration,
    /// No pause is longer, unless the server asks for it.
    pub cap: Duration,
    /// How many retries each profile gets.
    pub retries: u32,
    /// A server that asks for a longer pause gets this one.
    pub retry_after_cap: Duration,
    /// Spreads the pauses.
    pub entropy: Arc<dyn Entropy>,
}

impl RetryPolicy {
    /// The pause before another try, after so many that were made again already; none if there is no other.
    pub(in crate::engines) fn again(&self, retries: u32, remedy: Remedy) -> Option<Duration> {
        match remedy {
            Remedy::Retry(asked) if retries < self.retries => Some(self.pause(retries, asked)),
            _ => None,
        }
    }

    /// The pause before retry number `retry`, counted from 0: as long as the server asked for, else
    /// anything up to the doubled base, so that those who failed together don't return together.
    fn pause(&self, retry: u32, asked: Option<Duration>) -> Duration {
        if let Some(asked) = asked {
            return asked.min(self.retry_after_cap);
        }
        let longest = doubling(self.base, self.cap, retry);
        longest.mul_f64(self.entropy.fraction())
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            retries: 4,
            retry_after_cap: Duration::from_secs(60),
            entropy: Arc::new(Randomness),
        }
    }
}

#[cfg(test)]
mod tests {
    use hivewright_actors::doubles::entropy::Sequence;

    use super::*;

    fn policy(bits: u64) -> RetryPolicy {
        RetryPolicy { entropy: Arc::new(Sequence::constant(bits)), ..RetryPolicy::default() }
    }

    /// SE-124
    #[test]
    fn pauses_double_up_to_the_cap_and_are_spread_down_to_nothing() {
        let longest = [0, 1, 2, 5, 6, 60].map(|retry| policy(u64::MAX).pause(retry, None));
        assert_eq!(longest, [500, 1000, 2000, 16_000, 30_000, 30_000].map(Duration::from_millis));

        assert_eq!(policy(0).pause(3, None), Duration::ZERO);
        assert_eq!(policy(u64::MAX / 2).pause(1, None).as_millis(), 500);
    }

    /// SE-124
    #[test]
    fn the_server_is_obeyed_up_to_a_minute() {
        let asked = |seconds| policy(0).pause(0, Some(Duration::from_secs(seconds)));

        assert_eq!(asked(7), Duration::from_secs(7));
        assert_eq!(asked(3600), Duration::from_secs(60));
    }
}
