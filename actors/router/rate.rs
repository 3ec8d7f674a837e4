//! A token bucket: so many at once, so many in the long run after that.

use std::time::Duration;

use crate::{
    clock::{Timestamp, millis},
    frame::ErrorBody,
};

/// What one message takes. A millisecond gives back so much that all sums are whole, also where a bucket fills in weeks.
const MESSAGE: u64 = 60_000_000_000;

/// How much one sender may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Messages a minute in the long run; 0 is no limit.
    pub per_minute: u32,
    /// Messages at once; at least one.
    pub burst: u32,
}

/// How much a bucket holds, and what a millisecond gives back; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    capacity: u64,
    gain: u64,
}

impl From<Rate> for Pace {
    fn from(Rate { per_minute, burst }: Rate) -> Self {
        Self {
            capacity: u64::from(burst.max(1)).saturating_mul(MESSAGE),
            gain: u64::from(per_minute) * (MESSAGE / 60_000),
        }
    }
}

impl Pace {
    /// So many at once, and so many a second in the long run: there always is a limit.
    pub fn per_second(rate: f64, burst: u32) -> Self {
        let gain = (rate * (MESSAGE / 1_000) as f64) as u64;
        Self { gain: gain.max(1), ..Rate { per_minute: 0, burst }.into() }
    }
}

/// What is left to one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pace: Pace,
    level: u64,
    at: Timestamp,
}

impl Bucket {
    /// A full one.
    pub fn new(pace: impl Into<Pace>, now: Timestamp) -> Self {
        let pace = pace.into();
        Self { pace, level: pace.capacity, at: now }
    }

    /// Goes on at another pace with what is left, as far as there is room for it.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Takes one message out, or says after which time there will be one. An empty bucket stays as it is.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        if self.pace.gain == 0 {
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
                let wait = missing.div_ceil(self.pace.gain);
                Err(Duration::from_millis(wait))
            }
        }
    }

    /// Nothing is missing: a new bucket would be the same.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.level_at(now) == self.pace.capacity
    }

    fn level_at(&self, now: Timestamp) -> u64 {
        let elapsed = now.0.saturating_sub(self.at.0);
        self.level.saturating_add(elapsed.saturating_mul(self.pace.gain)).min(self.pace.capacity)
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

    /// TO-79
    #[test]
    fn a_bucket_fills_again_and_never_above_its_burst() {
        let mut bucket = Bucket::new(Pace::per_second(4.0, 2), START);

        let taken = [0, 0, 0, 100, 250, 251, 60_000, 60_000, 60_000]
            .map(|ms| bucket.take(Timestamp(START.0 + ms)));

        let wait = |ms| Err(Duration::from_millis(ms));
        let expected = [Ok(()), Ok(()), wait(250), wait(150), Ok(()), wait(249)];
        assert_eq!(taken[..6], expected);
        assert_eq!(taken[6..], [Ok(()), Ok(()), wait(250)]);
    }

    #[test]
    fn another_pace_leaves_what_is_left_as_far_as_there_is_room() {
        let of = |burst| Pace::per_second(1.0, burst);
        let mut bucket = Bucket::new(of(2), START);
        bucket.take(START).unwrap();

        bucket.set_pace(of(5));
        let of_two = [0, 0].map(|ms| bucket.take(Timestamp(START.0 + ms)).is_ok());
        let rested = Timestamp(START.0 + 60_000);
        bucket.set_pace(of(1));
        let of_one = [0, 0].map(|ms| bucket.take(Timestamp(rested.0 + ms)).is_ok());

        assert_eq!((of_two, of_one), ([true, false], [true, false]));
    }

    #[test]
    fn the_slowest_rate_is_still_a_limit() {
        let mut bucket = Bucket::new(Pace::per_second(f64::MIN_POSITIVE, 1), START);

        assert_eq!(bucket.take(START), Ok(()));
        assert!(bucket.take(START).is_err());
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
