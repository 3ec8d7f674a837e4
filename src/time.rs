//! Timestamps as text: RFC 3339 for people and programs, a compact form for names of files.

use std::time::SystemTime;

use hivewright_actors::{clock::Timestamp, text::Expected};
use jiff::{
    ToSpan,
    civil::{Date, DateTime},
    tz::TimeZone,
};

/// To the second and without `-`, so that it can be told from the name before it.
const COMPACT: &str = "%Y%m%dT%H%M%SZ";
/// Names of what is kept must differ, also of two that are made in one second.
const COMPACT_MICROS: &str = "%Y%m%dT%H%M%S.%6fZ";

/// The form that computes with calendars; none past the year 9999.
pub(crate) fn instant(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

/// The form that is stored; none before 1970.
pub(crate) fn timestamp(instant: jiff::Timestamp) -> Option<Timestamp> {
    u64::try_from(instant.as_millisecond()).ok().map(Timestamp)
}

/// RFC 3339 in UTC with as many digits as the time of a file has.
pub(crate) fn date_of_file(at: SystemTime) -> Option<String> {
    jiff::Timestamp::try_from(at).ok().map(|at| at.to_string())
}

/// A part of a file's name, such as `20260131T120000Z`.
pub(crate) fn compact(at: Timestamp) -> String {
    written(at, COMPACT)
}

/// The present moment as part of a file's name, such as `20260131T120000.000000Z`.
pub(crate) fn compact_now() -> String {
    jiff::Timestamp::now().strftime(COMPACT_MICROS).to_string()
}

/// The same for something newer than what has this moment in its name, also if the clock was set back since.
pub(crate) fn compact_now_behind(newest: &str) -> String {
    let now = jiff::Timestamp::now();
    let next = newest.parse::<jiff::Timestamp>().ok().filter(|newest| now <= *newest);
    let next = next.and_then(|newest| newest.checked_add(1.second()).ok());
    next.unwrap_or(now).strftime(COMPACT_MICROS).to_string()
}

/// Reads RFC 3339 with any offset, such as `2026-01-31T13:00:00+01:00`.
pub fn parse(text: &str) -> Option<Timestamp> {
    timestamp(text.parse().ok()?)
}

/// The same for what somebody wrote.
pub(crate) fn read(text: &str) -> Result<Timestamp, Expected> {
    parse(text).ok_or(Expected("a date such as 2026-01-31T12:00:00Z"))
}

/// Reads what [`compact`] writes.
pub(crate) fn parse_compact(text: &str) -> Option<Timestamp> {
    utc(DateTime::strptime(COMPACT, text).ok()?)
}

/// A date as budgets count days, such as 20260131; 0 before the year 0.
pub(crate) fn number(date: Date) -> u32 {
    let month = i32::from(date.year()) * 100 + i32::from(date.month());
    u32::try_from(month * 100 + i32::from(date.day())).unwrap_or_default()
}

/// The moment of a date and time of day in UTC.
pub(crate) fn utc(civil: DateTime) -> Option<Timestamp> {
    timestamp(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn written(at: Timestamp, format: &str) -> String {
    instant(at).map_or_else(|| at.to_string(), |at| at.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: Timestamp = Timestamp(1_700_000_000_123);

    #[test]
    fn a_date_is_read_with_any_offset() {
        let at = Timestamp(1_700_000_000_000);

        for text in ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20.000+01:00"] {
            assert_eq!(parse(text), Some(at), "{text}");
        }
        for text in ["", "tomorrow", "2023-11-14", "2023-11-14T22:13:20", "1969-01-01T00:00:00Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_s_moment_reads_back_to_the_second() {
        assert_eq!(compact(AT), "20231114T221320Z");
        assert_eq!(parse_compact(&compact(AT)), Some(Timestamp(1_700_000_000_000)));
        assert_eq!(parse_compact("20231114T221320"), None);
    }

    #[test]
    fn names_of_kept_things_have_microseconds() {
        let name = compact_now();

        let (seconds, fraction) = name.split_once('.').unwrap();
        assert!(parse_compact(&format!("{seconds}Z")).is_some(), "{name}");
        assert_eq!(fraction.len(), "000000Z".len(), "{name}");
    }

    #[test]
    fn a_name_comes_behind_one_of_a_clock_that_ran_ahead() {
        let (ahead, now) = ("20991231T235959.000007Z", compact_now());

        assert_eq!(compact_now_behind(ahead), "21000101T000000.000007Z");
        assert!(compact_now_behind("20231114T221320.000000Z") >= now);
        assert!(compact_now_behind("no moment") >= now);
    }

    #[test]
    fn a_file_s_date_has_the_digits_that_its_time_has() {
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);

        assert_eq!(date_of_file(second).as_deref(), Some("2023-11-14T22:13:20Z"));
        let later = second + Duration::from_nanos(120_000_700);
        assert_eq!(date_of_file(later).as_deref(), Some("2023-11-14T22:13:20.1200007Z"));
    }
}
