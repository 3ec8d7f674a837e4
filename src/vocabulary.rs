//! The words of the spine in the description of the API: their own schemas, which the spine states
//! beside each type.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use utoipa::openapi::{
    RefOr,
    schema::{AnyOfBuilder, Object, Schema, Type},
};

/// The schema of a type of the spine.
pub(crate) fn of<T: JsonSchema>() -> RefOr<Schema> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let schema = plain(schema.to_value());
    // What cannot be said is left open.
    RefOr::T(serde_json::from_value(schema).unwrap_or_default())
}

/// The same, or null.
pub(crate) fn maybe<T: JsonSchema>() -> RefOr<Schema> {
    let either = AnyOfBuilder::new().item(of::<T>()).item(Object::with_type(Type::Null));
    RefOr::T(Schema::AnyOf(either.build()))
}

/// Some of them.
pub(crate) fn some<T: JsonSchema>() -> RefOr<Schema> {
    of::<Vec<T>>()
}

/// Words that are described one by one become one list of words, and what only tools for Rust read
/// goes.
fn plain(schema: Value) -> Value {
    let Value::Object(fields) = schema else {
        return anything();
    };
    if let Some(words) = words(&fields) {
        return json!({"type": "string", "enum": words});
    }
    let mut plainer = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            ("title" | "format" | "$schema", _) => continue,
            ("const", value) => {
                plainer.insert("enum".to_owned(), json!([value]));
                continue;
            }
            ("properties", Value::Object(fields)) => {
                let fields = fields.into_iter();
                fields.map(|(name, field)| (name, plain(field))).collect()
            }
            ("items", value) | ("additionalProperties", value @ Value::Object(_)) => plain(value),
            ("oneOf" | "anyOf" | "allOf", Value::Array(parts)) => {
                parts.into_iter().map(plain).collect()
            }
            (_, value) => value,
        };
        plainer.insert(name, value);
    }
    let shapes = ["type", "oneOf", "anyOf", "allOf"];
    if shapes.iter().any(|shape| plainer.contains_key(*shape)) {
        Value::Object(plainer)
    } else {
        anything()
    }
}

fn anything() -> Value {
    json!({"type": ["null", "boolean", "number", "string", "array", "object"]})
}

/// The words of an enumeration without values.
fn words(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let choices = schema.get("oneOf")?.as_array()?;
    let mut words = Vec::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum")) {
            (Some(word @ Value::String(_)), _) => words.push(word.clone()),
            (None, Some(Value::Array(some))) => words.extend(some.iter().cloned()),
            _ => return None,
        }
    }
    Some(words)
}
