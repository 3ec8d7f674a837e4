//! Moments as people and programs write them.

use hivewright_actors::clock::Timestamp;

/// A moment in UTC, such as `2026-11-14T22:13:20.000Z`.
pub fn show(at: Timestamp) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
    Some(format!("{at:.3}"))
}

/// Reads a moment with its offset, such as `2026-11-14T23:13:20+01:00`.
pub fn read(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_in_utc_and_read_with_any_offset() {
        let at = Timestamp(1_700_000_000_000);

        assert_eq!(show(at).as_deref(), Some("2023-11-14T22:13:20.000Z"));
        for text in ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20.000+01:00"] {
            assert_eq!(read(text), Some(at), "{text}");
        }
        for text in ["", "tomorrow", "2023-11-14", "2023-11-14T22:13:20", "1969-01-01T00:00:00Z"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
