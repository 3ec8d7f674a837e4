//! Ports: patterns of recurring times with the zones they are read in, and expressions.
#![warn(missing_docs)]

use std::sync::Arc;

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

/// Where and when a schedule or a window is looked at.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names say it")]
pub struct View<'a> {
    /// The zone of the settings.
    pub zone: &'a str,
    pub calendar: &'a dyn Calendar,
    pub now: Timestamp,
    /// When the service came up: what was due before is not made up.
    pub since: Timestamp,
}

/// What an expression is for, which decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A text that is looked for without regard to case, or `/body/flags`.
    Keyword,
    /// A regular expression, with flags beside it.
    Message,
}

/// Reads expressions. They take time in proportion to the text, whatever they say.
pub trait Expressions: Send + Sync + 'static {
    /// Reads one. The error says what is wrong, for the person who wrote it.
    fn read(
        &self,
        language: Language,
        pattern: &str,
        flags: Option<&str>,
    ) -> Result<Arc<dyn Matcher>, String>;
}

/// An expression that has been read. It remembers nothing from one text to the next.
pub trait Matcher: Send + Sync {
    /// What a text holds under the names in the expression; none if it does not fit.
    fn find(&self, text: &str) -> Option<Vec<(String, String)>>;
}
