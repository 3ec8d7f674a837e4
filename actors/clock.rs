//! Wall time: for dates in rows and frames. Limits and pauses use the runtime's own monotonic time.
#![warn(missing_docs)]

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long after `earlier` this is; nothing if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// As a date in UTC, such as `2026-01-31T12:00:00.000Z`.
    pub fn date(self) -> String {
        let (days, ms) = (self.0 / DAY_MS, self.0 % DAY_MS);
        let (year, month, day) = civil(days);
        let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
        let (second, rest) = (ms / 1_000 % 60, ms % 1_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:03}Z")
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A duration in whole milliseconds, as rows and frames hold it.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The pause after so many others: each is twice as long as the one before, up to the longest.
pub fn doubling(first: Duration, longest: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}

/// How long what died is left alone before it is started again, after so many deaths lately.
pub(crate) fn restart_pause(deaths: usize) -> Duration {
    Duration::from_secs([1, 2, 4, 8, 30][deaths.clamp(1, 5) - 1])
}

/// A sleep is never longer: a clock that was set forward must not delay what is due until then.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// How long an alarm sleeps before it looks at the clock again, for what is due then.
pub(crate) fn pause_until(due: Timestamp, now: Timestamp) -> Duration {
    due.since(now).clamp(Duration::from_millis(1), LONGEST_SLEEP)
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Year, month and day of a day since 1970, by counting eras of 400 years from a first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_in_utc() {
        let dates = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ];

        for (at, date) in dates {
            assert_eq!(Timestamp(at).date(), date);
        }
    }
}
