//! Idempotency keys: for how long it is known that something was done under one, so that it is not done again.

use std::time::Duration;

use crate::clock::Timestamp;

/// A key is known for this long after it was used.
pub const KNOWN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether a key that was used at a moment is still known. One that is not may be forgotten.
pub fn is_known(used_at: Timestamp, now: Timestamp) -> bool {
    now.since(used_at) < KNOWN_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_for_a_day_and_while_the_clock_is_set_back() {
        let used_at = Timestamp(1_000);

        let known = [0, 1_000, 86_400_999, 86_401_000].map(|now| is_known(used_at, Timestamp(now)));

        assert_eq!(known, [true, true, true, false]);
    }
}
