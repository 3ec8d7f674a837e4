//! Compact schema: as much of the schema of a tool's arguments as a model is told to write a call.
//!
//! Every request carries the schemas of all tools, so this is the one place where they become short. Arguments
//! are checked by the whole schema: what is refused, and the bound that a refusal names, do not depend on what
//! was told.

use schemars::Schema;
use serde_json::{Map, Value};

use crate::{
    api::check::{leave_out_null, words},
    system::sha256,
};

/// Marks a field that is taken without being told: calls are good without it.
const UNTOLD: &str = "x-untold";

/// The schema of arguments as a model is told of it.
pub(super) fn schema(checked: &Value) -> Value {
    let mut told = checked.clone();
    shorten(&mut told);
    // What the arguments are for, the tool's own description says.
    if let Some(keywords) = told.as_object_mut() {
        keywords.remove("description");
    }
    told
}

/// Digest of the form of arguments, by which grants know a tool: of what is checked, without the words about it.
/// So a sentence that is put in another way ends no grant.
pub(super) fn form(checked: &Value) -> String {
    let mut bare = checked.clone();
    without_words(&mut bare);
    sha256(bare.to_string().as_bytes())
}

/// Transform of a field whose name says enough: what its type says of itself is not told.
pub(super) fn unsaid(schema: &mut Schema) {
    schema.remove("description");
    let variants = schema.get_mut("anyOf").and_then(Value::as_array_mut);
    for variant in variants.into_iter().flatten().filter_map(Value::as_object_mut) {
        variant.remove("description");
    }
}

fn shorten(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    if let Some(Value::Object(fields)) = keywords.get_mut("properties") {
        fields.retain(|_, field| field[UNTOLD] != true);
    }
    for_each_inner(keywords, shorten);
    leave_out_null(keywords);
    list_words(keywords);
    keywords.retain(|keyword, value| is_told(keyword, value));
    if let Some(Value::String(text)) = keywords.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// Whether a model needs a keyword to write a value that fits, as a rule. What surprises is said in words.
fn is_told(keyword: &str, value: &Value) -> bool {
    match keyword {
        "$schema" | "title" | "default" | "examples" | "format" | "pattern" | "minLength"
        | "maxLength" => false,
        "additionalProperties" | "unevaluatedProperties" => !value.is_boolean(),
        "minimum" | "minItems" => value.as_u64().is_none_or(|least| least > 1),
        "required" => value.as_array().is_none_or(|names| !names.is_empty()),
        _ => !keyword.starts_with("x-"),
    }
}

/// Words that are documented one by one become a plain list.
fn list_words(keywords: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = keywords.get("oneOf") else { return };
    if variants.iter().any(|variant| words(variant).is_empty()) {
        return;
    }
    let list: Vec<Value> = variants.iter().flat_map(words).map(Value::from).collect();
    keywords.remove("oneOf");
    keywords.insert("enum".to_owned(), Value::Array(list));
    keywords.insert("type".to_owned(), "string".into());
}

fn without_words(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    let said = ["title", "description", "examples", UNTOLD];
    keywords.retain(|keyword, _| !said.contains(&keyword.as_str()));
    for_each_inner(keywords, without_words);
}

/// Visits the schemas right inside another. A field may have the name of a keyword, so that not every object is
/// a schema.
fn for_each_inner(keywords: &mut Map<String, Value>, visit: fn(&mut Value)) {
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "$defs", Value::Object(named)) => {
                named.values_mut().for_each(visit);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(variants)) => {
                variants.iter_mut().for_each(visit);
            }
            ("items" | "additionalProperties" | "not", inner) => visit(inner),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(checked: Value) -> Value {
        schema(&json!({ "properties": { "a": checked } }))["properties"]["a"].clone()
    }

    /// SE-46
    #[test]
    fn what_a_model_does_not_need_is_not_told() {
        let table = [
            (json!({"type": ["string", "null"]}), json!({"type": "string"})),
            (json!({"type": ["string", "array", "null"]}), json!({"type": ["string", "array"]})),
            (
                json!({"type": ["integer", "null"], "format": "uint32", "minimum": 0,
                    "default": null}),
                json!({"type": "integer"}),
            ),
            (
                json!({"type": "integer", "minimum": 5, "maximum": 9, "default": 7}),
                json!({"type": "integer", "minimum": 5, "maximum": 9}),
            ),
            (
                json!({"type": "string", "format": "span", "pattern": "^a$", "examples": ["a"],
                    "minLength": 1, "maxLength": 9, "x-minimum": "1m", "title": "Span"}),
                json!({"type": "string"}),
            ),
            (
                json!({"oneOf": [
                    {"const": "on", "description": "It runs.", "type": "string"},
                    {"enum": ["off", "out"], "type": "string"},
                ]}),
                json!({"enum": ["on", "off", "out"], "type": "string"}),
            ),
            (
                json!({"enum": ["on", "off", null], "type": ["string", "null"]}),
                json!({"enum": ["on", "off"], "type": "string"}),
            ),
            (
                json!({"description": "Of the\nfield.", "anyOf": [
                    {"type": "string", "description": "Of the type."}, {"type": "null"},
                ]}),
                json!({"type": "string", "description": "Of the field."}),
            ),
            (
                json!({"anyOf": [
                    {"type": "string", "description": "Of the type."}, {"type": "null"},
                ]}),
                json!({"type": "string", "description": "Of the type."}),
            ),
            (
                json!({"anyOf": [
                    {"type": "string"}, {"type": "integer", "format": "int8"}, {"type": "null"},
                ]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            ),
            (
                json!({"type": "array", "minItems": 1, "maxItems": 5,
                    "items": {"type": "string", "maxLength": 3}}),
                json!({"type": "array", "items": {"type": "string"}, "maxItems": 5}),
            ),
            (
                json!({"type": "object",
                    "additionalProperties": {"type": "string", "minLength": 1}}),
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
            ),
            (
                json!({"type": "object", "additionalProperties": false, "required": []}),
                json!({"type": "object"}),
            ),
        ];

        for (checked, told) in table {
            assert_eq!(field(checked.clone()), told, "{checked}");
        }
    }

    #[test]
    fn a_field_is_told_by_its_name_also_if_that_is_a_keyword() {
        let names = ["default", "description", "format", "pattern", "title", "x-a"];
        let fields: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        let checked = json!({
            "type": "object", "title": "Args", "description": "Arguments.",
            "additionalProperties": false, "properties": fields, "required": names,
        });

        let told = schema(&checked);

        assert_eq!(told, json!({"type": "object", "properties": fields, "required": names}));
    }

    #[test]
    fn a_field_that_is_marked_is_not_told() {
        let checked = json!({"properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"], "x-untold": true},
        }});

        assert_eq!(schema(&checked), json!({"properties": {"a": {"type": "string"}}}));
    }

    #[test]
    fn a_form_is_what_is_checked_and_not_what_is_said_of_it() {
        let of = |bound: u32, words: &str, name: &str| {
            form(&json!({"description": words, "properties": {
                name: {"type": "string", "maxLength": bound, "title": words},
                "list": {"items": {"anyOf": [{"const": "a", "description": words}]}},
            }}))
        };

        let known = of(9, "Some words.", "text");

        assert_eq!(known, of(9, "Others.", "text"));
        assert_ne!(known, of(8, "Some words.", "text"));
        assert_ne!(known, of(9, "Some words.", "description"));
        assert_ne!(of(9, "Some words.", "title"), of(9, "Some words.", "description"));
    }
}
