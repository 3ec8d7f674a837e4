//! How often a team may save.

use std::time::Duration;

use hivewright_actors::{clock::Timestamp, sliding_window::SlidingWindow};

/// How often a team may save …
const MOST: usize = 60;
/// … within this time.
const SPAN: Duration = Duration::from_secs(60);

/// The saves of the last minute.
#[derive(Debug)]
pub(super) struct Rate(SlidingWindow<Timestamp>);

impl Default for Rate {
    fn default() -> Self {
        Self(SlidingWindow::new(SPAN))
    }
}

impl Rate {
    /// Whether one more save is fine; if not, when it will be.
    pub(super) fn check(&mut self, now: Timestamp) -> Result<(), Duration> {
        match self.0.full_until(MOST, now) {
            Some(free) => Err(free.since(now)),
            None => Ok(()),
        }
    }

    pub(super) fn count(&mut self, now: Timestamp) {
        self.0.push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MV-02
    #[test]
    fn sixty_saves_fit_into_any_minute() {
        let mut rate = Rate::default();
        for number in 0..60 {
            let now = Timestamp(1_000 + number * 10);
            assert_eq!(rate.check(now), Ok(()));
            rate.count(now);
        }

        let early = rate.check(Timestamp(2_000));
        let just_early = rate.check(Timestamp(60_999));
        let due = rate.check(Timestamp(61_000));

        assert_eq!(early, Err(Duration::from_secs(59)));
        assert_eq!(just_early, Err(Duration::from_millis(1)));
        assert_eq!(due, Ok(()));
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out() {
        let mut rate = Rate::default();
        for _ in 0..60 {
            rate.count(Timestamp(10_000_000));
        }

        assert_eq!(rate.check(Timestamp(5_000)), Ok(()));
    }
}
