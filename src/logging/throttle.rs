//! Throttle of a log line that others can cause as often as they like: once a minute, with how often there was reason to.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const PAUSE: Duration = Duration::from_secs(60);

/// When a line was last written, and how often it was left out since.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<(Option<Instant>, u64)>);

impl Throttle {
    pub const fn new() -> Self {
        Self(Mutex::new((None, 0)))
    }

    /// How often there was reason to write it, if it is to be written now.
    pub fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_once_a_minute_with_its_count() {
        let (seldom, start) = (Throttle::new(), Instant::now());
        assert_eq!(seldom.due_at(start), Some(1));
        assert_eq!(seldom.due_at(start + Duration::from_secs(1)), None);
        assert_eq!(seldom.due_at(start + Duration::from_secs(59)), None);
        assert_eq!(seldom.due_at(start + Duration::from_secs(60)), Some(3));
        assert_eq!(seldom.due_at(start + Duration::from_secs(61)), None);
    }
}
