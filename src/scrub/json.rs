//! Texts in JSON, wherever in a value they stand.

use serde_json::Value;

/// The texts of a value, without the names of its fields.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The texts of a value and the names of its fields.
pub(crate) fn texts_and_names(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts_and_names).collect(),
        Value::Object(fields) => {
            let said =
                |(name, field)| [String::as_str(name)].into_iter().chain(texts_and_names(field));
            fields.iter().flat_map(said).collect()
        }
        value => texts(value),
    }
}

/// The value with its texts and the names of its fields replaced.
pub(crate) fn replaced(value: &Value, replace: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => replace(text).into(),
        Value::Array(items) => items.iter().map(|item| replaced(item, replace)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(name, field)| (replace(name), replaced(field, replace))).collect()
        }
        other => other.clone(),
    }
}
