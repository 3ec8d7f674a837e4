//! Queries: what stands behind the question mark of a path, and the part of a list that it names.

use actix_web::web;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hivewright_actors::{storage::Order, store::records::digest};
use serde_json::{Value, json};

use super::error::{ApiError, ApiResult};
use crate::api::page::{PageQuery, Sort, USUAL_LIMIT};

/// The part of a list that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct Page {
    /// Tells the list from others.
    pub(in crate::http) list: String,
    pub(in crate::http) limit: usize,
    pub(in crate::http) offset: usize,
    pub(in crate::http) sort: Sort,
    /// The place of the last row that was seen.
    pub(in crate::http) after: Option<Value>,
}

impl Page {
    /// The part of the list under a path. A cursor is good for the path that it was got from.
    pub(in crate::http) fn new(
        path: &str,
        query: &PageQuery,
        sorts: &'static [&'static str],
        usual: &'static str,
    ) -> ApiResult<Self> {
        let named = query.sort.as_deref().and_then(|name| Sort::named(name, sorts));
        let (list, sort) = (list(path), named.unwrap_or(Sort::of(usual)));
        if query.cursor.is_some() && query.offset.is_some() {
            let reason = "give either `cursor` or `offset`";
            return Err(ApiError::invalid_field("cursor", reason));
        }
        let cursor = query.cursor.as_deref();
        Ok(Self {
            limit: query.limit.unwrap_or(USUAL_LIMIT),
            offset: query.offset.unwrap_or_default(),
            sort,
            after: cursor.map(|cursor| place(cursor, &list, sort)).transpose()?,
            list,
        })
    }

    /// The part behind this one.
    pub(in crate::http) fn behind(&self, cursor: &str) -> ApiResult<Self> {
        let after = Some(place(cursor, &self.list, self.sort)?);
        Ok(Self { offset: 0, after, ..self.clone() })
    }

    pub(in crate::http) fn order(&self) -> Order {
        if self.sort.falling { Order::Falling } else { Order::Rising }
    }

    /// For `next_cursor`: where the rows go on after one at this place.
    pub(in crate::http) fn cursor(&self, place: Value) -> String {
        let text = json!({"list": self.list, "sort": self.sort.name(), "after": place}).to_string();
        URL_SAFE_NO_PAD.encode(text)
    }
}

/// The fields of a query.
pub(in crate::http) fn pairs(text: &str) -> ApiResult<Vec<(String, String)>> {
    let fields = web::Query::<Vec<(String, String)>>::from_query(text);
    fields.map(web::Query::into_inner).map_err(|_| ApiError::invalid("the query cannot be read"))
}

/// Tells the list under a path from others.
fn list(path: &str) -> String {
    format!("{:016x}", digest(path))
}

fn place(cursor: &str, list: &str, sort: Sort) -> ApiResult<Value> {
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

#[cfg(test)]
mod tests {

    use std::time::Duration;

    use hivewright_actors::{clock::Timestamp, words};
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::api::{
        endpoint::{Empty, Endpoint, get},
        input::convert,
        reply::Rows,
        scope::Scope,
        when::When,
    };

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    const LIST: Endpoint<Rows<String>, Empty, Filter> =
        get("/rows", Scope::Read, "Lists.").sorted(&["-at", "name"]);

    words! {
        enum Standing { On = "on", Off = "off" }
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Filter {
        since: Option<When>,
        sender: Option<String>,
        unread: Option<bool>,
        state: Option<Standing>,
    }

    fn query(text: &str) -> ApiResult<Filter> {
        Ok(convert(LIST.query().query(pairs(text)?)?)?)
    }

    fn page_at(path: &str, text: &str) -> ApiResult<Page> {
        let fields = LIST.query().query(pairs(text)?)?;
        Page::new(path, &convert(fields)?, LIST.sorts, "-at")
    }

    fn page(text: &str) -> ApiResult<Page> {
        page_at("/rows", text)
    }

    fn refusal<T>(outcome: ApiResult<T>) -> String {
        outcome.err().unwrap().body("r").to_string()
    }

    /// OP-01
    #[test]
    fn a_field_that_nobody_knows_is_refused_with_the_one_that_was_meant() {
        let unknown = refusal(query("sendr=ann"));

        assert!(unknown.contains("did you mean `sender`?"), "{unknown}");
        assert!(refusal(query("sender=a&sender=b")).contains("given twice"));
        assert_eq!(query("sender=a%20b").unwrap().sender.as_deref(), Some("a b"));
        assert_eq!(query("sender=").unwrap(), Filter::default());
        assert_eq!(query("").unwrap(), Filter::default());
    }

    /// OP-02
    #[test]
    fn a_page_is_kept_within_its_bounds() {
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
        let cursor = page_at("/rows", "").unwrap().cursor(json!([5, "x"]));
        let own = format!("cursor={cursor}");

        assert!(page_at("/rows", &own).is_ok());
        assert!(refusal(page_at("/others", &own)).contains("of this list"));
    }

    #[test]
    fn a_value_of_another_form_is_refused() {
        for empty in ["unread=", "state=", "since=", "limit=", "sort="] {
            assert!(refusal(query(empty)).contains("expected"), "{empty}");
        }
        assert!(refusal(query("unread=yes")).contains("`true` or `false`"));
        assert!(refusal(query("state=of")).contains("`on`, `off`"));
        let fine = query("unread=true&state=off").unwrap();
        assert_eq!(fine.unread, Some(true));
        assert_eq!(fine.state, Some(Standing::Off));
    }

    #[test]
    fn a_moment_is_a_date_or_a_time_ago() {
        let moment = |text: &str| {
            let query = query(&format!("since={text}")).unwrap();
            query.since.map(|since| since.from(NOW))
        };

        assert_eq!(moment("2h"), Some(NOW - Duration::from_secs(7_200)));
        assert_eq!(moment("1699999999000"), Some(Timestamp(1_699_999_999_000)));
        assert_eq!(moment("2023-11-14T22:13:20Z"), Some(Timestamp(1_700_000_000_000)));
        assert_eq!(query("").unwrap().since, None);
        assert!(refusal(query("since=yesterday")).contains("a date such as"));
    }
}
