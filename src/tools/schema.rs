//! Validation of a tool's arguments: all that does not fit, by a walk over the tool's JSON Schema.
//!
//! Arguments come here after they did not fit. The deserializer stops at the first error; the walk finds the others. It
//! knows what schemas of argument types use, and stays silent where one says more.

use std::fmt;

use serde_json::{Map, Value};

use crate::text::did_you_mean;

/// How many errors a model is told at once.
const MOST: usize = 20;

/// An error of the arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// As in `env.A` or `rows[2]`; empty for the whole.
    path: String,
    reason: String,
}

impl Misfit {
    /// What the deserializer stopped at.
    pub(super) fn of(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let path = error.path().to_string();
        Self {
            path: if path == "." { String::new() } else { path },
            reason: with_hint(error.into_inner().to_string()),
        }
    }

    /// Both are about the same thing, in other words.
    fn is_same(&self, other: &Self) -> bool {
        let is_missing = |misfit: &Self| misfit.reason.starts_with("missing field");
        self.path == other.path
            && (self.reason == other.reason || !is_missing(self) && !is_missing(other))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "`{path}`: {}", self.reason),
        }
    }
}

/// All that does not fit, beginning with what is known, as one text.
pub(super) fn misfits(schema: &Value, args: &Value, first: Misfit) -> String {
    let mut walk = Walk { root: schema, found: vec![first] };
    walk.check(schema, args, "");
    let left = walk.found.len().saturating_sub(MOST);
    let told = walk.found.iter().take(MOST).map(ToString::to_string);
    let mut text = told.collect::<Vec<_>>().join("; ");
    if left > 0 {
        text.push_str(&format!("; and {left} more"));
    }
    text
}

struct Walk<'a> {
    root: &'a Value,
    found: Vec<Misfit>,
}

impl<'a> Walk<'a> {
    fn complain(&mut self, path: &str, reason: String) {
        let path = path.to_owned();
        let misfit = Misfit { path, reason };
        if !self.found.iter().any(|known| known.is_same(&misfit)) {
            self.found.push(misfit);
        }
    }

    fn check(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let Some(schema) = self.resolved(schema) else {
            return;
        };
        if let Some(expected) = expected_types(schema)
            && !expected.iter().any(|name| is_of(value, name))
        {
            let named = expected.into_iter().filter(|name| *name != "null");
            let named = named.collect::<Vec<_>>().join(" or ");
            let reason = format!("expected {named}, found {}", type_of(value));
            return self.complain(path, reason);
        }
        if let Some(words) = expected_words(schema)
            && !words.contains(&value)
        {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            return self.complain(path, format!("expected one of {}", words.join(", ")));
        }
        if let Some(least) = schema.get("minimum").and_then(Value::as_f64)
            && value.as_f64().is_some_and(|number| number < least)
        {
            self.complain(path, format!("must be at least {least}"));
        }
        match value {
            Value::Object(fields) => self.check_fields(schema, fields, path),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = schema.get("items") {
                        self.check(schema, item, &format!("{path}[{index}]"));
                    }
                }
            }
            _ => {}
        }
    }

    fn check_fields(&mut self, schema: &'a Value, fields: &Map<String, Value>, path: &str) {
        let none = Map::new();
        let known = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                self.complain(path, format!("missing field `{name}`"));
            }
        }
        for (name, value) in fields {
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            match (known.and_then(|known| known.get(name)), schema.get("additionalProperties")) {
                (Some(schema), _) => self.check(schema, value, &path),
                (None, Some(Value::Bool(false))) => {
                    let names = known.unwrap_or(&none).keys();
                    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
                    let reason =
                        format!("unknown field `{name}`, expected one of {}", names.join(", "));
                    self.complain(&path, with_hint(reason));
                }
                (None, Some(schema)) => self.check(schema, value, &path),
                (None, None) => {}
            }
        }
    }

    /// The schema itself, where it is named or may be null. None: it says something else.
    fn resolved(&self, schema: &'a Value) -> Option<&'a Value> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.root.pointer(name.strip_prefix('#')?);
        }
        // Which one of several is meant, nobody knows.
        schema.get("anyOf").is_none().then_some(schema)
    }
}

fn expected_types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// The values that a schema lists.
fn expected_words(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(listed) = schema.get("enum").and_then(Value::as_array) {
        return Some(listed.iter().collect());
    }
    let one_of = schema.get("oneOf")?.as_array()?;
    one_of.iter().map(|one| one.get("const")).collect()
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        name => type_of(value) == name,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The complaint about an unknown field, with the one that may be meant.
fn with_hint(reason: String) -> String {
    let Some(words) = reason.strip_prefix("unknown field `") else {
        return reason;
    };
    let mut words = words.split('`').step_by(2);
    let unknown = words.next().unwrap_or_default();
    match did_you_mean(unknown, words) {
        Some(known) => format!("unknown field `{unknown}` (did you mean `{known}`?)"),
        None => reason,
    }
}
