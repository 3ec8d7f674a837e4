//! Times as people write them: a moment in a filter, how long a token is good.

use std::{fmt, str::FromStr, time::Duration};

use clap::Args;
use hivewright_actors::{
    budget::Days,
    clock::Timestamp,
    text,
    text::{Expected, Span, Text},
};
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time;

/// A moment in answers and bodies: it reads with any offset, and writes in UTC, such as `2026-01-31T12:00:00.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Timestamp);

text!(Moment);

impl Text for Moment {
    const FORMAT: &'static str = "date-time";
    const PATTERN: &'static str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T.*$";
    const EXAMPLES: &'static [&'static str] = &["2026-01-31T12:00:00Z"];
}

impl FromStr for Moment {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        time::read(text).map(Self)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.date())
    }
}

/// A moment that can be read again; none past the year 9999.
pub fn date(at: Timestamp) -> Option<Moment> {
    time::instant(at).map(|_| Moment(at))
}

/// A moment that counts from the time of reading, unless it is a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    Ago(Span),
}

text!(When);

impl Text for When {
    const FORMAT: &'static str = "moment";
    const PATTERN: &'static str =
        r"^([0-9]{1,15}|[0-9]{1,6}(ms|s|m|h|d)|[0-9]{4}-[0-9]{2}-[0-9]{2}T.*)$";
    const EXAMPLES: &'static [&'static str] = &["2026-01-31T12:00:00Z", "24h"];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a date such as 2026-01-31T12:00:00Z, or a time ago such as 24h")]
pub struct NotAMoment;

impl When {
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now - span.0,
        }
    }
}

/// A date, milliseconds since 1970, or a time ago.
impl FromStr for When {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        if let Ok(ago) = text.parse() {
            return Ok(Self::Ago(ago));
        }
        let millis = text.parse().map(Timestamp).ok();
        millis.or_else(|| time::parse(text)).map(Self::At).ok_or(NotAMoment)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "{}", at.0),
            Self::Ago(span) => span.fmt(f),
        }
    }
}

// A doc comment here would become that of every command that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct Period {
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<When>,
    /// Only until such a moment.
    #[arg(long, value_name = "WHEN")]
    pub until: Option<When>,
}

/// A day: a date such as `2026-01-31`, or that of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDay {
    Date(Date),
    Of(When),
}

text!(OnDay);

impl Text for OnDay {
    const FORMAT: &'static str = "day";
    const PATTERN: &'static str =
        r"^([0-9]{1,15}|[0-9]{1,6}(ms|s|m|h|d)|[0-9]{4}-[0-9]{2}-[0-9]{2}(T.*)?)$";
    const EXAMPLES: &'static [&'static str] = &["2026-01-31", "7d"];
}

impl OnDay {
    /// Its number, as budgets count it.
    pub fn from(self, now: Timestamp, days: &dyn Days) -> u32 {
        match self {
            Self::Date(date) => time::number(date),
            Self::Of(when) => days.day_of(when.from(now)).number,
        }
    }
}

impl FromStr for OnDay {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        // A moment has a date in it too, which is not that of the operator's time zone.
        let date = text.parse().ok().filter(|_| text.len() == 10).map(Self::Date);
        date.or_else(|| text.parse().ok().map(Self::Of))
            .ok_or(Expected("a day such as 2026-01-31, or a time ago such as 7d"))
    }
}

impl fmt::Display for OnDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Date(date) => date.fmt(f),
            Self::Of(when) => when.fmt(f),
        }
    }
}

/// How long a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    After(Span),
}

impl Default for Expiry {
    fn default() -> Self {
        Self::After(Span(Duration::from_secs(90 * 24 * 60 * 60)))
    }
}

impl Expiry {
    /// None is for ever.
    pub fn span(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(span) => Some(span.0),
        }
    }
}

text!(Expiry);

impl Text for Expiry {
    const FORMAT: &'static str = "expiry";
    const PATTERN: &'static str = "^(never|[0-9]+(ms|s|m|h|d))$";
    const EXAMPLES: &'static [&'static str] = &["30d", "never"];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration such as 90d, or `never`")]
pub struct NotAnExpiry;

impl FromStr for Expiry {
    type Err = NotAnExpiry;

    fn from_str(text: &str) -> Result<Self, NotAnExpiry> {
        match text {
            "never" => Ok(Self::Never),
            text => text.parse().map(Self::After).map_err(|_| NotAnExpiry),
        }
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::After(span) => span.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    #[test]
    fn a_moment_reads_with_any_offset_and_writes_in_utc() {
        let text = |at| date(Timestamp(at)).map(|at| serde_json::to_string(&at).unwrap());

        assert_eq!(text(1_700_000_000_123).unwrap(), r#""2023-11-14T22:13:20.123Z""#);
        assert_eq!(text(1_700_000_000_000).unwrap(), r#""2023-11-14T22:13:20.000Z""#);
        assert_eq!(text(u64::MAX), None);
        let there = serde_json::from_str::<Moment>(r#""2023-11-14T23:13:20+01:00""#);
        assert_eq!(there.unwrap(), Moment(NOW));
        assert!("tomorrow".parse::<Moment>().is_err());
        assert_eq!(schemars::schema_for!(Moment).to_value()["format"], "date-time");
    }

    #[test]
    fn a_moment_is_a_date_or_a_time_ago() {
        let moment = |text: &str| text.parse::<When>().map(|when| when.from(NOW));

        assert_eq!(moment("2h"), Ok(NOW - Duration::from_secs(7_200)));
        assert_eq!(moment("1699999999000"), Ok(Timestamp(1_699_999_999_000)));
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(Timestamp(1_700_000_000_000)));
        assert_eq!(moment("yesterday"), Err(NotAMoment));
        let shown = "2023-11-14T22:13:20Z".parse::<When>().unwrap().to_string();
        assert_eq!(moment(&shown), Ok(Timestamp(1_700_000_000_000)));
    }

    #[test]
    fn a_day_is_a_date_or_that_of_a_moment() {
        let day = |text: &str| text.parse::<OnDay>().ok();

        assert_eq!(day("2026-01-31"), "2026-01-31".parse().ok().map(OnDay::Date));
        assert_eq!(day("7d"), "7d".parse().ok().map(OnDay::Of));
        assert_eq!(day("2023-11-14T22:13:20Z"), Some(OnDay::Of(When::At(NOW))));
        assert_eq!(time::number("2026-01-31".parse().unwrap()), 20_260_131);
        for text in ["", "someday", "2026-01-32", "2026-1-31"] {
            assert_eq!(day(text), None, "{text}");
        }
        for text in ["2026-01-31", "7d", "1700000000000"] {
            assert_eq!(day(text).map(|day| day.to_string()).as_deref(), Some(text));
        }
    }
}
