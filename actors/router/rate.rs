//! A token bucket: so many messages at once, so many a minute after that.

use std::time::Duration;

use crate::{
    clock::{Timestamp, millis},
    frame::ErrorBody,
};

/// What one message takes. A millisecond gives back `per_minute` of these, so all sums are whole.
const MESSAGE: u64 = 60_000;

/// How much one sender may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Messages a minute in the long run; 0 is no limit.
    pub per_minute: u32,
    /// Messages at once; at least one.
    pub burst: u32,
}

impl Rate {
    fn capacity(self) -> u64 {
        u64::from(self.burst.max(1)) * MESSAGE
    }
}

/// What is left to one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    level: u64,
    at: Timestamp,
}

impl Bucket {
    /// A full one.
    pub fn new(rate: Rate, now: Timestamp) -> Self {
        Self { rate, level: rate.capacity(), at: now }
    }

    /// Takes one message out, or says after which time there will be one. An empty bucket stays as it is.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        if self.rate.per_minute == 0 {
            return Ok(());
        }
        self.level = self.level_at(now);
        // Also when the clock was set back: a bucket must not wait for the old time to return.
        self.at = now;
        match self.level.checked_sub(MESSAGE) {
            Some(rest) => {
                self.level = rest;
                Ok(())
            }
            None => {
                let missing = MESSAGE - self.level;
                let wait = missing.div_ceil(u64::from(self.rate.per_minute));
                Err(Duration::from_millis(wait))
            }
        }
    }

    /// Nothing is missing: a new bucket would be the same.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.level_at(now) == self.rate.capacity()
    }

    fn level_at(&self, now: Timestamp) -> u64 {
        let elapsed = now.0.saturating_sub(self.at.0);
        self.level
            .saturating_add(elapsed.saturating_mul(u64::from(self.rate.per_minute)))
            .min(self.rate.capacity())
    }
}

/// The refusal of something that comes too fast.
pub(super) fn too_fast(what: &str, pause: Duration) -> ErrorBody {
    ErrorBody {
        retry_after_ms: Some(millis(pause)),
        ..ErrorBody::refusal("rate_limited", format!("too many {what}; slow down"))
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp(1_000_000);

    fn bucket(per_minute: u32, burst: u32) -> Bucket {
        Bucket::new(Rate { per_minute, burst }, START)
    }

    /// CH-69
    #[test]
    fn after_the_burst_messages_pass_at_the_rate() {
        let mut bucket = bucket(30, 2);

        let taken = [0, 0, 0, 1_999, 2_000, 2_001].map(|ms| bucket.take(Timestamp(START.0 + ms)));

        let wait = |ms| Err(Duration::from_millis(ms));
        assert_eq!(taken, [Ok(()), Ok(()), wait(2_000), wait(1), Ok(()), wait(1_999)]);
    }

    /// CH-69
    #[test]
    fn zero_is_no_limit() {
        let mut bucket = bucket(0, 0);

        assert!((0..10_000).all(|_| bucket.take(START).is_ok()));
    }

    #[test]
    fn a_burst_of_zero_lets_one_through() {
        let mut bucket = bucket(60, 0);

        let taken = [0, 0, 1_000].map(|ms| bucket.take(Timestamp(START.0 + ms)));

        assert_eq!(taken, [Ok(()), Err(Duration::from_secs(1)), Ok(())]);
    }

    #[test]
    fn a_clock_that_is_set_back_stops_no_one_for_long() {
        let mut bucket = bucket(60, 1);
        bucket.take(START).unwrap();

        let taken = [0, 1_000].map(|ms| bucket.take(Timestamp(ms)));

        assert_eq!(taken, [Err(Duration::from_secs(1)), Ok(())]);
    }

    #[test]
    fn a_rested_bucket_is_full_again() {
        let mut bucket = bucket(60, 3);
        bucket.take(START).unwrap();

        assert!(!bucket.is_full(START + Duration::from_millis(999)));
        assert!(bucket.is_full(START + Duration::from_secs(1)));
        assert!(bucket.is_full(Timestamp(u64::MAX)));
    }

    proptest! {
        /// CH-69
        #[test]
        fn the_stated_wait_is_exactly_enough(
            per_minute in 1_u32..=u32::MAX, burst: u32, steps in prop::collection::vec(0_u64..5_000, 1..50)
        ) {
            let mut bucket = bucket(per_minute, burst % 5);
            let mut now = START;
            for step in steps {
                now = Timestamp(now.0 + step);
                if let Err(wait) = bucket.take(now) {
                    prop_assert!(!wait.is_zero());
                    let (mut early, mut late) = (bucket, bucket);
                    prop_assert!(early.take(now + wait - Duration::from_millis(1)).is_err());
                    prop_assert!(late.take(now + wait).is_ok());
                }
            }
        }
    }
}
