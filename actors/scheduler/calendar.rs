//! Port: patterns of recurring times, and the time zones they are read in.

use crate::clock::Timestamp;

/// Knows cron patterns and time zones. Nothing in it depends on the present time.
pub trait Calendar: Send + Sync + 'static {
    /// Why a pattern cannot be used, naming its field. One that has no occurrence in the five years
    /// after `now`, or two within ten seconds, cannot.
    fn check_cron(&self, pattern: &str, now: Timestamp) -> Result<(), String>;

    /// Why a time zone cannot be used, with the names nearest to it.
    fn check_zone(&self, zone: &str) -> Result<(), String>;

    /// The first occurrence after a moment.
    ///
    /// A local time that does not exist is the first moment after the gap, one that exists twice is
    /// its first pass. Patterns whose hour is `*` or a step follow the real time instead: nothing in
    /// a gap, both passes of a repeated hour.
    fn next(&self, pattern: &str, zone: &str, after: Timestamp) -> Option<Timestamp>;

    /// The local minute of a moment fits the pattern.
    fn matches(&self, pattern: &str, zone: &str, at: Timestamp) -> bool;

    /// Reads an RFC 3339 time, or a local time of the zone.
    fn moment(&self, text: &str, zone: &str) -> Result<Timestamp, String>;

    /// How many minutes the local clock shows since midnight.
    fn minute_of_day(&self, zone: &str, at: Timestamp) -> u32;

    /// The next moment at which the local clock shows this many minutes since midnight.
    fn next_minute_of_day(&self, minute: u32, zone: &str, after: Timestamp) -> Option<Timestamp>;

    /// A moment in the words of its zone: `Sun 2025-03-30 03:00:00 CEST`.
    fn show(&self, zone: &str, at: Timestamp) -> String;
}
