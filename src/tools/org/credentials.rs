//! Credentials in the arguments of a call: taken out before it is written down.

use serde_json::Value;

use crate::{
    scrub::json,
    teams::credentials::{masked, reference},
    tools::contract::Redaction,
    vault::escrow::SecretValues,
};

const FIELD: &str = "credentials";

/// Takes the values out of the arguments of a call, wherever in them they are.
pub(super) fn redact(args: &Value) -> Option<Redaction> {
    let Some(args) = args.as_object() else {
        // Nobody knows what is in it.
        return Some(Redaction::of(Value::Object(serde_json::Map::new())));
    };
    let given = args.get(FIELD)?;
    let Some(given) = given.as_object() else {
        let mut args = args.clone();
        args.insert(FIELD.to_owned(), Value::String("[REDACTED]".to_owned()));
        return Some(Redaction::of(Value::Object(args)));
    };
    let mut values = SecretValues::new();
    // What is no text is refused by its kind; what is in it is nobody's business.
    let mut hidden = SecretValues::new();
    for (key, value) in given {
        match value {
            Value::String(text) if *text == reference(key) => {}
            Value::String(text) => {
                values.insert(key.clone(), text.clone());
            }
            other => {
                hidden.insert(key.clone(), other.to_string());
            }
        }
    }
    if values.is_empty() && hidden.is_empty() {
        return None;
    }
    let all: SecretValues = values.clone().into_iter().chain(hidden).collect();
    let fields = args.iter().map(|(field, value)| match field.as_str() {
        FIELD => {
            let entries = given.iter().map(|(key, value)| {
                let shown = match value {
                    Value::String(_) => Value::String(reference(key)),
                    other => emptied(other),
                };
                (key.clone(), shown)
            });
            (field.clone(), Value::Object(entries.collect()))
        }
        _ => (field.clone(), json::replaced(value, &|text| masked(text, &all))),
    });
    Some(Redaction { args: Value::Object(fields.collect()), values })
}

/// A value of the same kind that says nothing.
pub(crate) fn emptied(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Object(_) => Value::Object(serde_json::Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Number(_) => Value::from(0),
        Value::Bool(_) => Value::Bool(false),
        Value::Null => Value::Null,
    }
}
