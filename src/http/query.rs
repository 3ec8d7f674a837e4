//! Queries: what stands behind the question mark of a path, checked field by field.

use actix_web::{HttpRequest, web};
use hivewright_actors::clock::Timestamp;

use super::{error::ApiError, json};
use crate::settings::units;

/// How many rows a list shows unless told otherwise.
const USUAL: usize = 50;
/// The most rows of one answer.
const MOST: usize = 200;
/// No list is paged through further than this.
const FURTHEST: usize = 10_000;

/// The fields of a query.
pub(super) struct Query(Vec<(String, String)>);

/// The part of a list that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) limit: usize,
    pub(super) offset: usize,
}

impl Query {
    /// Reads a query that may have these fields, and no others. One that is empty counts as absent.
    pub(super) fn read(request: &HttpRequest, known: &[&str]) -> Result<Self, ApiError> {
        let fields = web::Query::<Vec<(String, String)>>::from_query(request.query_string())
            .map_err(|_| ApiError::invalid("the query cannot be read"))?
            .into_inner();
        for (place, (name, _)) in fields.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(json::unknown_field(name, known));
            }
            if fields
                .iter()
                .take(place)
                .any(|(earlier, _)| earlier == name)
            {
                return Err(ApiError::invalid_field(name.as_str(), "given twice"));
            }
        }
        Ok(Self(fields))
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, text) = self.0.iter().find(|(field, _)| field == name)?;
        Some(text.as_str()).filter(|text| !text.is_empty())
    }

    /// A moment: a date such as `2026-01-31T12:00:00Z`, milliseconds since 1970, or how long ago
    /// it was, such as `24h`.
    pub(super) fn moment(&self, name: &str, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        if let Some(ago) = units::duration(text) {
            return Ok(Some(now - ago));
        }
        let millis = text.parse::<u64>().ok().or_else(|| {
            let date: jiff::Timestamp = text.parse().ok()?;
            u64::try_from(date.as_millisecond()).ok()
        });
        millis.map(Timestamp).map(Some).ok_or_else(|| {
            ApiError::invalid_field(
                name,
                "expected a date such as 2026-01-31T12:00:00Z, or a time ago such as 24h",
            )
        })
    }

    /// `limit` and `offset`.
    pub(super) fn page(&self) -> Result<Page, ApiError> {
        Ok(Page {
            limit: self.number("limit", 1, MOST)?.unwrap_or(USUAL),
            offset: self.number("offset", 0, FURTHEST)?.unwrap_or(0),
        })
    }

    /// A place in an order that begins with 1.
    pub(super) fn place(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| *number < u64::MAX);
        number.map(Some).ok_or_else(|| {
            ApiError::invalid_field(name, "expected a whole number that is not negative")
        })
    }

    fn number(&self, name: &str, low: usize, high: usize) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
            _ => Err(ApiError::invalid_field(
                name,
                format!("expected a whole number from {low} to {high}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use actix_web::test::TestRequest;

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn query(text: &str) -> Result<Query, ApiError> {
        let request = TestRequest::with_uri(&format!("/x?{text}")).to_http_request();
        Query::read(&request, &["since", "sender", "limit", "offset"])
    }

    fn refusal<T>(outcome: Result<T, ApiError>) -> String {
        outcome.err().unwrap().body("r").to_string()
    }

    /// OP-01
    #[test]
    fn a_field_that_nobody_knows_is_refused_with_the_one_that_was_meant() {
        let unknown = refusal(query("sendr=ann"));

        assert!(unknown.contains("did you mean `sender`?"), "{unknown}");
        assert!(refusal(query("sender=a&sender=b")).contains("given twice"));
        assert_eq!(query("sender=a%20b").unwrap().text("sender"), Some("a b"));
        assert_eq!(query("sender=").unwrap().text("sender"), None);
        assert_eq!(query("").unwrap().text("sender"), None);
    }

    /// OP-02
    #[test]
    fn a_page_is_kept_within_its_bounds() {
        let page = |text| query(text).unwrap().page();

        assert_eq!(
            page("").unwrap(),
            Page {
                limit: 50,
                offset: 0
            }
        );
        assert_eq!(
            page("limit=200&offset=10000").unwrap(),
            Page {
                limit: 200,
                offset: 10_000
            }
        );
        for text in [
            "limit=0",
            "limit=201",
            "limit=-1",
            "limit=x",
            "offset=10001",
        ] {
            assert!(
                refusal(page(text)).contains("expected a whole number"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_moment_is_a_date_or_a_time_ago() {
        let moment = |text: &str| {
            query(&format!("since={text}"))
                .unwrap()
                .moment("since", NOW)
        };

        assert_eq!(
            moment("2h").unwrap(),
            Some(NOW - Duration::from_secs(7_200))
        );
        assert_eq!(
            moment("1699999999000").unwrap(),
            Some(Timestamp(1_699_999_999_000))
        );
        assert_eq!(
            moment("2023-11-14T22:13:20Z").unwrap(),
            Some(Timestamp(1_700_000_000_000))
        );
        assert_eq!(query("").unwrap().moment("since", NOW).unwrap(), None);
        assert!(refusal(moment("yesterday")).contains("a date such as"));
    }
}
