//! How often a team may save: sixty times in any minute.

use std::{collections::VecDeque, time::Duration};

use hivewright_actors::clock::Timestamp;

/// The most saves …
const MOST: usize = 60;
/// … within this time.
const SPAN: Duration = Duration::from_secs(60);

/// The saves of the last minute.
#[derive(Debug, Default)]
pub(super) struct Rate(VecDeque<Timestamp>);

impl Rate {
    /// Whether one more save is fine; if not, when it will be.
    pub(super) fn check(&mut self, now: Timestamp) -> Result<(), Duration> {
        // A clock that was set back must not lock a team out.
        self.0.retain(|at| *at <= now && now.since(*at) < SPAN);
        match self.0.front() {
            Some(oldest) if self.0.len() >= MOST => Err(SPAN.saturating_sub(now.since(*oldest))),
            _ => Ok(()),
        }
    }

    /// A save was made.
    pub(super) fn count(&mut self, now: Timestamp) {
        self.0.push_back(now);
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
