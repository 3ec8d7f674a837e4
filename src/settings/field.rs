//! A value in a settings file, read as the type that it should have.

use std::{fmt::Display, ops::RangeInclusive};

use hivewright_actors::text::{Text, Words};
use serde_json::Value as Json;

use super::{
    document::{Document, join},
    home::Home,
    references::{self, ReferenceError, References},
    secret::Secret,
    yaml::{Node, Value},
};

#[derive(Clone)]
pub(crate) struct Field<'a> {
    pub(super) document: &'a Document,
    pub(super) path: String,
    pub(super) node: &'a Node,
}

impl<'a> Field<'a> {
    pub(super) fn new(document: &'a Document, path: String, node: &'a Node) -> Self {
        Self { document, path, node }
    }

    pub(super) fn home(&self) -> Option<&'a Home> {
        self.document.home.as_ref()
    }

    /// Reports the value as wrong.
    pub(crate) fn reject<T>(&self, reason: impl Into<String>) -> Option<T> {
        self.document.report(self.node.at, &self.path, reason);
        None
    }

    /// Reports something that works and should not stay.
    pub(crate) fn warn(&self, reason: impl Into<String>) {
        self.document.warn(self.node.at, &self.path, reason);
    }

    /// A map whose keys are names.
    pub(crate) fn members(&self) -> Option<Vec<(&'a str, Field<'a>)>> {
        let Value::Map(entries) = &self.node.value else {
            return self.expected("a map");
        };
        Some(
            entries
                .iter()
                .map(|entry| {
                    let path = join(&self.path, &entry.key);
                    (&*entry.key, Field::new(self.document, path, &entry.value))
                })
                .collect(),
        )
    }

    /// A list. Wrong items are reported and left out.
    pub(crate) fn list<T>(&self, mut read: impl FnMut(Field<'a>) -> Option<T>) -> Option<Vec<T>> {
        let Value::List(items) = &self.node.value else {
            return self.expected("a list");
        };
        let fields = items.iter().enumerate().map(|(index, node)| {
            let path = format!("{}[{index}]", self.path);
            Field::new(self.document, path, node)
        });
        Some(fields.filter_map(&mut read).collect())
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    /// Text, references expanded.
    pub(crate) fn text(&self) -> Option<String> {
        self.expand().map(|(text, _)| text)
    }

    /// Text that must not be shown, and whether it stands in the file itself.
    pub(crate) fn secret(&self) -> Option<(Secret, bool)> {
        self.expand().map(|(text, literal)| (Secret::new(text), literal))
    }

    fn expand(&self) -> Option<(String, bool)> {
        let text = match &self.node.value {
            Value::Scalar { text, quoted: true } => text,
            Value::Scalar { text, .. } if kind(text) == "text" => text,
            _ => return self.expected("text"),
        };
        let Some(references) = &self.document.references else {
            let Some(text) = references::unescaped(text) else {
                return self.reject("`${env:` and `${file:` are not allowed in this file");
            };
            return Some((text, true));
        };
        match references.expand(text) {
            Ok(expanded) => {
                for warning in expanded.warnings {
                    self.warn(warning);
                }
                (!expanded.unknown).then_some((expanded.text, expanded.literal))
            }
            Err(ReferenceError::Malformed(reason)) => self.reject(reason),
            Err(ReferenceError::Unresolved(reason)) => {
                self.document.report_unresolved(self.node.at, &self.path, reason);
                None
            }
        }
    }

    pub(crate) fn json(&self) -> Option<Json> {
        json(self.node).or_else(|| self.expected("a value"))
    }

    pub(crate) fn choice<T: Words>(&self) -> Option<T> {
        let found = self.text()?.parse().ok();
        found.or_else(|| self.reject(format!("expected one of {}", T::WORDS.join(", "))))
    }

    /// Text of a certain form; `read` says what is wrong with it, and may quote it. So nothing that it
    /// says is told of a value that a reference led to.
    pub(crate) fn parse<T, E: Display>(
        &self,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let (text, literal) = self.expand()?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(reason) if literal => self.reject(reason.to_string()),
            Err(_) => self.reject("what its reference stands for does not fit here"),
        }
    }

    /// It holds a reference that is not followed, so that nobody knows what it says.
    pub(crate) fn is_unknown(&self) -> bool {
        let followed = self.document.references.as_ref().map(References::are_followed);
        followed == Some(false) && refers(self.node)
    }

    pub(crate) fn integer<T: TryFrom<u64>>(&self, range: RangeInclusive<u64>) -> Option<T> {
        let (low, high) = (range.start(), range.end());
        let expected = format!("a whole number from {low} to {high}");
        let Value::Scalar { text, quoted: false } = &self.node.value else {
            return self.expected(&expected);
        };
        match text.parse::<i128>() {
            Ok(number) => u64::try_from(number)
                .ok()
                .filter(|number| range.contains(number))
                .and_then(|number| T::try_from(number).ok())
                .or_else(|| self.reject(format!("{number} is not {expected}"))),
            Err(_) => self.expected(&expected),
        }
    }

    pub(crate) fn amount(&self) -> Option<f64> {
        match &self.node.value {
            Value::Scalar { text, quoted: false } => text.parse().ok(),
            _ => None,
        }
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .or_else(|| self.expected("a number of 0 or more"))
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match &self.node.value {
            Value::Scalar { text, quoted: false } => match &**text {
                "true" | "True" | "TRUE" => Some(true),
                "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            _ => None,
        }
        .or_else(|| self.expected("true or false"))
    }

    /// A number with a unit, in a range.
    pub(crate) fn measure<T: Text + PartialOrd>(
        &self,
        expected: &str,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let Value::Scalar { text, .. } = &self.node.value else {
            return self.expected(expected);
        };
        match text.parse() {
            Ok(found) if range.contains(&found) => Some(found),
            Ok(_) => {
                let (low, high) = (range.start(), range.end());
                self.reject(format!("{text} is not from {low} to {high}"))
            }
            Err(_) => self.expected(expected),
        }
    }

    pub(super) fn expected<T>(&self, expected: &str) -> Option<T> {
        let found = match &self.node.value {
            Value::Null => "nothing",
            Value::Scalar { quoted: true, .. } => "text",
            Value::Scalar { text, .. } => kind(text),
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        };
        let quotes = expected == "text" && matches!(self.node.value, Value::Scalar { .. });
        let hint = if quotes { "; put it in quotes" } else { "" };
        self.reject(format!("expected {expected}, found {found}{hint}"))
    }
}

fn refers(node: &Node) -> bool {
    match &node.value {
        Value::Null => false,
        Value::Scalar { text, .. } => text.contains("${"),
        Value::List(items) => items.iter().any(refers),
        Value::Map(entries) => entries.iter().any(|entry| refers(&entry.value)),
    }
}

/// As JSON; none for a number that is none.
pub(super) fn json(node: &Node) -> Option<Json> {
    Some(match &node.value {
        Value::Null => Json::Null,
        Value::Scalar { text, quoted: true } => Json::from(&**text),
        Value::Scalar { text, .. } => match kind(text) {
            "true or false" => Json::from(text.eq_ignore_ascii_case("true")),
            "a number" => match text.parse::<i64>() {
                Ok(number) => Json::from(number),
                Err(_) => Json::from(text.parse::<f64>().ok().filter(|found| found.is_finite())?),
            },
            _ => Json::from(&**text),
        },
        Value::List(items) => Json::Array(items.iter().map(json).collect::<Option<_>>()?),
        Value::Map(entries) => {
            let fields = entries.iter().map(|entry| {
                let value = json(&entry.value)?;
                Some((entry.key.clone(), value))
            });
            Json::Object(fields.collect::<Option<_>>()?)
        }
    })
}

/// What a word without quotes means.
fn kind(text: &str) -> &'static str {
    let numeric = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    match text {
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => "true or false",
        _ if numeric && text.parse::<f64>().is_ok() => "a number",
        _ => "text",
    }
}
