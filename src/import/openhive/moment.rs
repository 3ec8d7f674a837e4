//! Times as OpenHive writes them.

use hivewright_actors::clock::Timestamp;
use jiff::{civil::DateTime, tz::TimeZone};

use crate::memory::date;

/// The moment that a text names: RFC 3339, or SQLite's form of it without a zone, which is UTC.
pub(super) fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    date::read(text).or_else(|| {
        let local: DateTime = text.parse().ok()?;
        let at = local.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
        u64::try_from(at).ok().map(Timestamp)
    })
}

pub(super) fn rfc3339(at: Timestamp) -> String {
    date::show(at).unwrap_or_else(|| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_a_time_are_read() {
        let expected = Some(Timestamp(1_767_225_600_123));

        assert_eq!(moment("2026-01-01T00:00:00.123Z"), expected);
        assert_eq!(moment("2026-01-01 00:00:00.123"), expected);
        assert_eq!(moment("2026-01-01T02:00:00.123+02:00"), expected);
        assert_eq!(moment("yesterday"), None);
        assert_eq!(moment("1912-01-01T00:00:00Z"), None);
        assert_eq!(rfc3339(Timestamp(1_767_225_600_123)), "2026-01-01T00:00:00.123Z");
    }
}
