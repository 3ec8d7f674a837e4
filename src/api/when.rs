//! Times as people write them: a moment in a filter, how long a token is good.

use std::{fmt, str::FromStr, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    text,
    text::{Span, Text},
};

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
        let millis = text.parse::<u64>().ok().or_else(|| {
            let date: jiff::Timestamp = text.parse().ok()?;
            u64::try_from(date.as_millisecond()).ok()
        });
        millis.map(|millis| Self::At(Timestamp(millis))).ok_or(NotAMoment)
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
    fn a_moment_is_a_date_or_a_time_ago() {
        let moment = |text: &str| text.parse::<When>().map(|when| when.from(NOW));

        assert_eq!(moment("2h"), Ok(NOW - Duration::from_secs(7_200)));
        assert_eq!(moment("1699999999000"), Ok(Timestamp(1_699_999_999_000)));
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(Timestamp(1_700_000_000_000)));
        assert_eq!(moment("yesterday"), Err(NotAMoment));
        let shown = "2023-11-14T22:13:20Z".parse::<When>().unwrap().to_string();
        assert_eq!(moment(&shown), Ok(Timestamp(1_700_000_000_000)));
    }
}
