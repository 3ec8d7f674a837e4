//! Queries: what stands behind the question mark of a path, checked field by field.

use actix_web::web;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hivewright_actors::{clock::Timestamp, excerpt, store::records::digest};
use serde_json::{Value, json};

use super::{
    error::ApiError,
    operation::{Field, Form, Operation, Paging},
};
use crate::{
    api::{
        page::{self, PageQuery, Sort, USUAL_LIMIT},
        when::When,
    },
    text::{did_you_mean, unknown_field},
};

/// The field that names the order.
pub(super) const SORT: &str = "sort";
/// What every list takes beside it. A cursor goes on where no offset reaches.
pub(super) static OF_PAGES: [Field; 3] = [
    Field::number("limit", 1, 200, "The most rows; 50 if it is not given."),
    Field::number("offset", 0, 10_000, "How many rows to leave out before them."),
    Field::text("cursor", "The `next_cursor` of the rows before, instead of `offset`."),
];

/// The fields of a query.
#[derive(Default)]
pub(super) struct Query {
    fields: Vec<(String, String)>,
    paging: Option<Paging>,
    list: String,
}

/// The part of a list that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page {
    /// Tells the list from others.
    pub(super) list: String,
    pub(super) limit: usize,
    pub(super) offset: usize,
    pub(super) sort: Sort,
    /// The place of the last row that was seen.
    pub(super) after: Option<Value>,
}

impl Page {
    /// The part of the list under a path. A cursor is good for the path that it was got from.
    pub(super) fn new(
        path: &str,
        query: &PageQuery,
        sorts: &'static [&'static str],
        usual: &'static str,
    ) -> Result<Self, ApiError> {
        let named = query.sort.as_deref().and_then(|name| Sort::named(name, sorts));
        Self::sorted(&list(path), query, named.unwrap_or(Sort::of(usual)))
    }

    fn sorted(list: &str, query: &PageQuery, sort: Sort) -> Result<Self, ApiError> {
        if query.cursor.is_some() && query.offset.is_some() {
            let reason = "give either `cursor` or `offset`";
            return Err(ApiError::invalid_field("cursor", reason));
        }
        let cursor = query.cursor.as_deref();
        Ok(Self {
            list: list.to_owned(),
            limit: query.limit.unwrap_or(USUAL_LIMIT),
            offset: query.offset.unwrap_or_default(),
            sort,
            after: cursor.map(|cursor| place(cursor, list, sort)).transpose()?,
        })
    }

    /// For `next_cursor`: where the rows go on after one at this place.
    pub(super) fn cursor(&self, place: Value) -> String {
        let text = json!({"list": self.list, "sort": self.sort.name(), "after": place}).to_string();
        URL_SAFE_NO_PAD.encode(text)
    }
}

/// The fields of a query.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let fields = web::Query::<Vec<(String, String)>>::from_query(text);
    fields.map(web::Query::into_inner).map_err(|_| ApiError::invalid("the query cannot be read"))
}

/// Tells the list under a path from others.
fn list(path: &str) -> String {
    format!("{:016x}", digest(path))
}

fn unknown_sort(paging: Paging) -> ApiError {
    let known = page::names(paging.sorts).join("`, `");
    ApiError::invalid_field(SORT, format!("expected one of `{known}`"))
}

fn place(cursor: &str, list: &str, sort: Sort) -> Result<Value, ApiError> {
    let unknown = || ApiError::invalid_field("cursor", "not a `next_cursor` of this list");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| unknown())?;
    let mut cursor: Value = serde_json::from_slice(&bytes).map_err(|_| unknown())?;
    if cursor["list"] != list {
        return Err(unknown());
    }
    if cursor["sort"] != sort.name() {
        let reason = "its list was sorted otherwise; begin without a cursor";
        return Err(ApiError::invalid_field("cursor", reason));
    }
    match cursor["after"].take() {
        Value::Null => Err(unknown()),
        place => Ok(place),
    }
}

fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    text.parse::<When>().ok().map(|when| when.from(now))
}

impl Query {
    /// Reads a query with the fields that are described, and no others. A text that is empty counts
    /// as absent. A cursor is good for the path that it was got from.
    pub(super) fn read(path: &str, text: &str, operation: &Operation) -> Result<Self, ApiError> {
        let fields = pairs(text)?;
        let of_pages = OF_PAGES.iter().filter(|_| operation.paging.is_some());
        let described: Vec<&Field> = operation.query.iter().chain(of_pages).collect();
        let mut known: Vec<&str> = described.iter().map(|field| field.name).collect();
        known.extend(operation.paging.map(|_| SORT));
        for (place, (name, value)) in fields.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let refusal =
                    ApiError::invalid_field(excerpt::line(name, 64), unknown_field(name, &known));
                return Err(match did_you_mean(name, known.iter().copied()) {
                    Some(meant) => refusal.hint(format!("use `{meant}`")),
                    None => refusal,
                });
            }
            let mut earlier = fields.iter().take(place);
            if earlier.any(|(earlier, _)| earlier == name) {
                return Err(ApiError::invalid_field(name.as_str(), "given twice"));
            }
            let field = described.iter().find(|field| field.name == name);
            if let Some(field) = field {
                check(name, value, &field.form)?;
            } else if value.is_empty() {
                return Err(ApiError::invalid_field(SORT, "expected the name of a field"));
            }
        }
        Ok(Self { fields, paging: operation.paging, list: list(path) })
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, text) = self.fields.iter().find(|(field, _)| field == name)?;
        Some(text.as_str()).filter(|text| !text.is_empty())
    }

    /// Whether something is wanted.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|text| text == "true")
    }

    /// What a word stands for.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning)
    }

    /// A moment: a date such as `2026-01-31T12:00:00Z`, milliseconds since 1970, or how long ago
    /// it was, such as `24h`.
    pub(super) fn moment(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.text(name).and_then(|text| moment(text, now))
    }

    /// `limit`, `offset` or `cursor`, and `sort`.
    pub(super) fn page(&self) -> Result<Page, ApiError> {
        let sorts = self.paging.map_or(&[] as &[_], |paging| paging.sorts);
        self.page_by(sorts.first().copied().unwrap_or("id"))
    }

    /// The same with another usual order.
    pub(super) fn page_by(&self, usual: &'static str) -> Result<Page, ApiError> {
        let paging = self.paging.unwrap_or(Paging { sorts: &[] });
        let sort = match self.text(SORT) {
            Some(name) => Sort::named(name, paging.sorts).ok_or_else(|| unknown_sort(paging))?,
            None => Sort::of(usual),
        };
        let number = |name| self.text(name).and_then(|text| text.parse().ok());
        let query = PageQuery {
            limit: number("limit"),
            offset: number("offset"),
            cursor: self.text("cursor").map(str::to_owned),
            sort: None,
        };
        Page::sorted(&self.list, &query, sort)
    }
}

fn number(name: &str, text: &str, low: u64, high: u64) -> Result<u64, ApiError> {
    match text.parse() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(ApiError::invalid_field(
            name,
            format!("expected a whole number from {low} to {high}"),
        )),
    }
}

fn check(name: &str, text: &str, form: &Form) -> Result<(), ApiError> {
    let refused = |reason: String| Err(ApiError::invalid_field(name, reason));
    match form {
        Form::Text => Ok(()),
        Form::Flag => match text {
            "true" | "false" => Ok(()),
            _ => refused("expected `true` or `false`".to_owned()),
        },
        Form::Number(low, high) => number(name, text, *low, *high).map(drop),
        Form::Moment => match moment(text, Timestamp::default()) {
            Some(_) => Ok(()),
            None => refused(
                "expected a date such as 2026-01-31T12:00:00Z, or a time ago such as 24h"
                    .to_owned(),
            ),
        },
        Form::Word(words) => {
            let words = words();
            if words.contains(&text) {
                Ok(())
            } else {
                refused(format!("expected one of `{}`", words.join("`, `")))
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn query(text: &str) -> Result<Query, ApiError> {
        let operation = Operation::new("Lists.")
            .query(
                const {
                    &[
                        Field::moment("since", "Not before."),
                        Field::text("sender", "From whom."),
                        Field::flag("unread", "Not yet read."),
                        Field::word("state", || vec!["on", "off"], "How it is."),
                    ]
                },
            )
            .pages(&["-at", "name"]);
        Query::read("/rows", text, &operation)
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
        let page = |text| query(text).and_then(|query| query.page());
        let bounds = |text| page(text).map(|page| (page.limit, page.offset)).unwrap();

        assert_eq!(bounds(""), (50, 0));
        assert_eq!(bounds("limit=200&offset=10000"), (200, 10_000));
        for text in ["limit=0", "limit=201", "limit=-1", "limit=x", "offset=10001"] {
            assert!(refusal(page(text)).contains("expected a whole number"), "{text}");
        }
    }

    /// OP-02
    #[test]
    fn a_cursor_belongs_to_the_sort_it_was_made_under() {
        let page = |text: &str| query(text).unwrap().page();
        let sort = |text| page(text).map(|page| page.sort.name());
        assert_eq!(sort("").unwrap(), "-at");
        assert_eq!(sort("sort=at").unwrap(), "at");
        assert_eq!(sort("sort=-name").unwrap(), "-name");
        assert!(refusal(page("sort=size")).contains("`-at`, `at`, `name`, `-name`"));

        let cursor = page("").unwrap().cursor(json!([5, "x"]));

        let after = |text: String| page(&text).map(|page| page.after);
        assert_eq!(after(format!("cursor={cursor}")).unwrap(), Some(json!([5, "x"])));
        assert!(refusal(after(format!("cursor={cursor}&sort=name"))).contains("sorted otherwise"));
        assert!(refusal(after(format!("cursor={cursor}&offset=1"))).contains("either"));
        assert!(refusal(after("cursor=x".to_owned())).contains("next_cursor"));
    }

    /// OP-02: a cursor of another list would begin this one anew.
    #[test]
    fn a_cursor_belongs_to_its_list() {
        let operation = Operation::new("Lists.").pages(&["-at"]);
        let page = |path: &str, text: &str| Query::read(path, text, &operation)?.page();
        let cursor = page("/rows", "").unwrap().cursor(json!([5, "x"]));
        let own = format!("cursor={cursor}");

        assert!(page("/rows", &own).is_ok());
        assert!(refusal(page("/others", &own)).contains("of this list"));
    }

    #[test]
    fn a_value_of_another_form_is_refused() {
        for empty in ["unread=", "state=", "since=", "limit=", "sort="] {
            assert!(refusal(query(empty)).contains("expected"), "{empty}");
        }
        assert!(refusal(query("unread=yes")).contains("`true` or `false`"));
        assert!(refusal(query("state=of")).contains("`on`, `off`"));
        let fine = query("unread=true&state=off").unwrap();
        assert_eq!(fine.flag("unread"), Some(true));
        assert_eq!(fine.word("state", &[("on", 1), ("off", 2)]), Some(2));
    }

    #[test]
    fn a_moment_is_a_date_or_a_time_ago() {
        let moment = |text: &str| {
            let query = query(&format!("since={text}")).unwrap();
            query.moment("since", NOW)
        };

        assert_eq!(moment("2h"), Some(NOW - Duration::from_secs(7_200)));
        assert_eq!(moment("1699999999000"), Some(Timestamp(1_699_999_999_000)));
        assert_eq!(moment("2023-11-14T22:13:20Z"), Some(Timestamp(1_700_000_000_000)));
        assert_eq!(query("").unwrap().moment("since", NOW), None);
        assert!(refusal(query("since=yesterday")).contains("a date such as"));
    }
}
