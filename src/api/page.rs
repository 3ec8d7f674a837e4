//! The part of a list that is wanted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::input::Reader;

/// The fields of every list, in the order in which they are documented.
pub const FIELDS: [&str; 4] = ["limit", "offset", "cursor", "sort"];
/// How many rows a list shows unless told otherwise.
pub const USUAL_LIMIT: usize = 50;
/// The most rows of one answer.
pub const MOST_ROWS: usize = 200;

/// What every list takes beside its filter. A cursor goes on where no offset reaches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PageQuery {
    /// The most rows; 50 if it is not given.
    #[schemars(range(min = 1, max = MOST_ROWS))]
    pub limit: Option<usize>,
    /// How many rows to leave out before them.
    #[schemars(range(min = 0, max = 10_000))]
    pub offset: Option<usize>,
    /// The `next_cursor` of the rows before, instead of `offset`.
    pub cursor: Option<String>,
    /// By which field; `-` falls.
    pub sort: Option<String>,
}

/// By what the rows of a list are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub field: &'static str,
    pub falling: bool,
}

impl Sort {
    /// As a query names it.
    pub fn name(self) -> String {
        let sign = if self.falling { "-" } else { "" };
        format!("{sign}{}", self.field)
    }

    /// As an endpoint names it: `-` falls.
    pub fn of(text: &'static str) -> Self {
        match text.strip_prefix('-') {
            Some(field) => Self { field, falling: true },
            None => Self { field: text, falling: false },
        }
    }

    /// As a query names it, among those that a list has.
    pub fn named(name: &str, sorts: &'static [&'static str]) -> Option<Self> {
        let field = name.strip_prefix('-').unwrap_or(name);
        let sort = sorts.iter().map(|text| Self::of(text)).find(|sort| sort.field == field)?;
        Some(Self { falling: name.starts_with('-'), ..sort })
    }
}

/// All that `sort` may be in a list that is sorted by these fields, the usual one first.
pub fn names(sorts: &'static [&'static str]) -> Vec<String> {
    let both = sorts.iter().flat_map(|text| {
        let sort = Sort::of(text);
        [sort.name(), Sort { falling: !sort.falling, ..sort }.name()]
    });
    both.collect()
}

/// The schemas of [`FIELDS`] for a list that is sorted by these fields; none for what is no list.
pub fn fields(sorts: &'static [&'static str]) -> Map<String, Value> {
    if sorts.is_empty() {
        return Map::new();
    }
    let schema = Reader::<PageQuery>::default().schema().clone();
    let mut fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let names = names(sorts);
    let about = fields["sort"]["description"].take();
    let sort =
        json!({"type": "string", "description": about, "default": names.first(), "enum": names});
    fields.insert("sort".to_owned(), sort);
    fields
}
