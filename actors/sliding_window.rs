//! Sliding window: how often something happened lately, for limits of so many in so long.

use std::{collections::VecDeque, ops::Add, time::Duration};

/// Moments within a span of time that ends now, on the wall clock or on a monotonic one.
#[derive(Clone, Debug)]
pub struct SlidingWindow<T> {
    span: Duration,
    /// Oldest first.
    moments: VecDeque<T>,
}

impl<T: Copy + Ord + Add<Duration, Output = T>> SlidingWindow<T> {
    pub fn new(span: Duration) -> Self {
        Self { span, moments: VecDeque::new() }
    }

    /// Notes that it happened, in any order.
    pub fn push(&mut self, at: T) {
        let place = self.moments.partition_point(|earlier| *earlier <= at);
        self.moments.insert(place, at);
    }

    /// How often it happened within the span.
    pub fn count(&mut self, now: T) -> usize {
        while self.moments.front().is_some_and(|oldest| *oldest + self.span <= now) {
            self.moments.pop_front();
        }
        // A clock that was set back must not lock anybody out.
        self.moments.truncate(self.moments.partition_point(|at| *at <= now));
        self.moments.len()
    }

    /// Until when it may not happen again, where it may `limit` times within the span.
    pub fn full_until(&mut self, limit: usize, now: T) -> Option<T> {
        let surplus = self.count(now).checked_sub(limit.max(1))?;
        self.moments.get(surplus).map(|last| *last + self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    const SPAN: Duration = Duration::from_millis(100);

    fn window(moments: impl IntoIterator<Item = u64>) -> SlidingWindow<Timestamp> {
        let mut window = SlidingWindow::new(SPAN);
        moments.into_iter().for_each(|at| window.push(Timestamp(at)));
        window
    }

    #[test]
    fn a_moment_counts_until_the_span_is_over() {
        let mut window = window([30, 10, 20]);

        let counts = [30, 109, 110, 129, 130].map(|now| window.count(Timestamp(now)));

        assert_eq!(counts, [3, 3, 2, 1, 0]);
    }

    #[test]
    fn a_full_window_says_when_there_is_room_again() {
        let full = |limit, now| window([10, 20, 30]).full_until(limit, Timestamp(now));

        assert_eq!(full(4, 30), None);
        assert_eq!(full(3, 30), Some(Timestamp(110)));
        assert_eq!(full(2, 30), Some(Timestamp(120)));
        assert_eq!(full(3, 110), None);
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out() {
        let mut window = window([10_000; 60]);

        assert_eq!(window.full_until(60, Timestamp(5_000)), None);
    }
}
