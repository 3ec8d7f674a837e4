//! Reading the fields of a form, each with its place in what is said about it.

use std::time::Duration;

use hivewright_actors::{excerpt, scheduler::trigger::Problem};
use serde_json::{Map, Value};

use crate::{settings::units, text::unknown_field};

/// The fields of an object, under a path.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of an object that may have these, and no others.
    pub(super) fn new(
        map: &'a Map<String, Value>,
        path: &str,
        known: &[&str],
    ) -> Result<Self, Problem> {
        let fields = Self { map, path: path.to_owned() };
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(fields.problem(unknown, unknown_field(unknown, known))),
            None => Ok(fields),
        }
    }

    /// Something is wrong with a field.
    pub(super) fn problem(&self, name: &str, reason: impl Into<String>) -> Problem {
        let name = excerpt::line(name, 64);
        Problem::new(
            match self.path.as_str() {
                "" => name,
                path => format!("{path}.{name}"),
            },
            reason,
        )
    }

    /// The field is there, be it null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// A value that is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        self.maybe(name, "expected text", Value::as_str)
    }

    pub(super) fn needed(&self, name: &str) -> Result<&'a str, Problem> {
        self.text(name)?.ok_or_else(|| self.problem(name, "is missing"))
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        self.maybe(name, "expected true or false", Value::as_bool)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        self.maybe(name, "expected a whole number", Value::as_u64)
    }

    pub(super) fn small(&self, name: &str) -> Result<Option<u32>, Problem> {
        match self.number(name)?.map(u32::try_from) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(self.problem(name, "is too large")),
        }
    }

    pub(super) fn amount(&self, name: &str) -> Result<Option<f64>, Problem> {
        self.maybe(name, "expected a number", Value::as_f64)
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Problem> {
        self.maybe(name, "expected an object", Value::as_object)
    }

    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        self.maybe(name, "expected a duration such as 30s, 15m, 6h or 2d", |value| {
            value.as_str().and_then(units::duration)
        })
    }

    pub(super) fn size(&self, name: &str) -> Result<Option<u64>, Problem> {
        self.maybe(name, "expected a size such as 64KiB or 1MiB", |value| {
            value.as_str().and_then(units::size)
        })
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Problem> {
        self.maybe(name, "expected a list of texts", |value| {
            let items = value.as_array()?.iter();
            items.map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let found = choices.iter().find(|(word, _)| *word == text);
        found.map(|(_, choice)| Some(*choice)).ok_or_else(|| {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.problem(name, format!("expected one of {}", words.join(", ")))
        })
    }

    fn maybe<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.problem(name, expected)),
        }
    }
}
