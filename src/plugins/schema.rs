//! Settings schema of a plugin: the part of JSON Schema 2020-12 that its settings are checked by, and that forms are made from.
//!
//! A keyword that would bind and is not known here makes the schema unusable: one that was passed over in silence would
//! let through what its author refused.

use regex::RegexBuilder;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    mcp::{
        arguments::{escaped, misfits},
        definition::is_type,
    },
    settings::plugins::PARTS,
};

/// The largest schema, in bytes of JSON.
const LARGEST: usize = 64 << 10;
/// How deep schemas lie in each other at most, references followed.
const DEEPEST: usize = 24;
/// The most parts that a schema has, references followed.
const MOST_PARTS: usize = 4_000;
/// The most memory that a pattern takes, in bytes.
const LARGEST_PATTERN: usize = 1 << 18;
/// The most that is told to be wrong with settings.
const MOST_MISMATCHES: usize = 20;

/// Keywords that only tell.
const TELLING: [&str; 13] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "definitions",
];

/// What is wrong with a value. It never repeats the value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// A JSON pointer.
    pub pointer: String,
    pub message: String,
}

/// All that is wrong with a value, in one line.
pub fn listed(wrong: &[Mismatch]) -> String {
    let words = wrong.iter().map(|it| format!("`{}`: {}", it.pointer, it.message));
    words.collect::<Vec<_>>().join("; ")
}

/// A schema that was looked over.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    json: Value,
    secrets: Vec<String>,
}

/// Why a schema cannot be used, with a pointer to the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}{}{reason}", if pointer.is_empty() { "" } else { ": " })]
pub struct SchemaError {
    pub pointer: String,
    pub reason: String,
}

impl Default for Schema {
    /// The schema of a plugin that has no settings.
    fn default() -> Self {
        let json = json!({"type": "object", "properties": {}, "additionalProperties": false});
        Self { json, secrets: Vec::new() }
    }
}

impl Schema {
    /// Looks over the schema of a plugin's settings: an object with nothing but `tools`, `channel` and `hooks`.
    pub fn new(mut json: Value) -> Result<Self, SchemaError> {
        let wrong = |pointer: &str, reason: &str| {
            Err(SchemaError { pointer: pointer.to_owned(), reason: reason.to_owned() })
        };
        if json.to_string().len() > LARGEST {
            return wrong("", "it is larger than 64 KiB");
        }
        if json["type"] != "object" {
            return wrong("/type", "expected `object`");
        }
        let none = Map::new();
        let parts = json["properties"].as_object().unwrap_or(&none);
        if let Some(other) = parts.keys().find(|name| !PARTS.contains(&name.as_str())) {
            let reason = format!("`{other}` is none of `tools`, `channel`, `hooks`");
            return wrong("/properties", &reason);
        }
        json["additionalProperties"] = Value::Bool(false);
        let mut survey = Survey { root: &json, seen: 0, secrets: Vec::new() };
        survey.visit(&json, Place { at: "", of: Some(""), depth: 0 })?;
        let secrets = survey.secrets;
        Ok(Self { json, secrets })
    }

    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Pointers to the secret fields of settings; `*` stands for each item of a list.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// What is wrong with settings; nothing if they fit.
    pub fn check(&self, value: &Value) -> Vec<Mismatch> {
        let found = misfits(&self.json, value, MOST_MISMATCHES, LARGEST_PATTERN).into_iter();
        found.map(|it| Mismatch { pointer: it.pointer, message: it.reason }).collect()
    }
}

/// A walk over a schema, references followed, that finds what cannot be used.
struct Survey<'a> {
    root: &'a Value,
    /// How many parts were looked at.
    seen: usize,
    secrets: Vec<String>,
}

/// Where a schema stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// A pointer to it.
    at: &'a str,
    /// A pointer to the settings that it is about, if that can be told.
    of: Option<&'a str>,
    /// How many others it lies in.
    depth: usize,
}

impl Place<'_> {
    fn wrong(self, reason: impl Into<String>) -> SchemaError {
        SchemaError { pointer: self.at.to_owned(), reason: reason.into() }
    }
}

impl Survey<'_> {
    fn visit(&mut self, schema: &Value, place: Place<'_>) -> Result<(), SchemaError> {
        let keywords = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(keywords) => keywords,
            _ => return Err(place.wrong("expected a schema")),
        };
        self.seen += 1;
        if place.depth > DEEPEST {
            let reason = format!("is nested more than {DEEPEST} deep, or leads to itself");
            return Err(place.wrong(reason));
        }
        if self.seen > MOST_PARTS {
            let reason = format!("has more than {MOST_PARTS} parts, references followed");
            return Err(place.wrong(reason));
        }
        for (keyword, value) in keywords {
            let at = format!("{}/{}", place.at, escaped(keyword));
            let place = Place { at: &at, ..place };
            let is_known = match keyword.as_str() {
                "x-secret" => self.note_secret(value, keywords, place)?,
                keyword => {
                    TELLING.contains(&keyword)
                        || self.visit_parts(keyword, value, place)?
                        || is_bound(keyword, value).map_err(|error| place.wrong(error))?
                }
            };
            if !is_known {
                return Err(place.wrong("it is wrong, or not a keyword that is known here"));
            }
        }
        Ok(())
    }

    /// Looks over the schemas in a keyword. Returns whether it is one that has schemas in it.
    fn visit_parts(
        &mut self,
        keyword: &str,
        value: &Value,
        place: Place<'_>,
    ) -> Result<bool, SchemaError> {
        let below = Place { depth: place.depth + 1, ..place };
        match (keyword, value) {
            ("$ref", Value::String(target)) => {
                let inner = target.strip_prefix('#').and_then(|at| self.root.pointer(at));
                let nowhere = || place.wrong("it leads out of the schema, or nowhere");
                self.visit(inner.ok_or_else(nowhere)?, below)?;
            }
            ("properties", Value::Object(fields)) => {
                for (name, inner) in fields {
                    let name = escaped(name);
                    let at = format!("{}/{name}", place.at);
                    let of = place.of.map(|of| format!("{of}/{name}"));
                    self.visit(inner, Place { at: &at, of: of.as_deref(), ..below })?;
                }
            }
            ("items" | "additionalProperties", inner) => {
                let of = place.of.map(|of| format!("{of}/*"));
                self.visit(inner, Place { of: of.as_deref(), ..below })?;
            }
            ("not", inner) => self.visit(inner, Place { of: None, ..below })?,
            ("anyOf" | "oneOf" | "allOf", Value::Array(inner)) if !inner.is_empty() => {
                for (index, inner) in inner.iter().enumerate() {
                    let at = format!("{}/{index}", place.at);
                    self.visit(inner, Place { at: &at, ..below })?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes down a secret field. Returns whether the keyword says if it is one.
    fn note_secret(
        &mut self,
        value: &Value,
        keywords: &Map<String, Value>,
        place: Place<'_>,
    ) -> Result<bool, SchemaError> {
        match value {
            Value::Bool(true) => {}
            Value::Bool(false) => return Ok(true),
            _ => return Ok(false),
        }
        if keywords.get("type").is_none_or(|kind| kind != "string") {
            return Err(place.wrong("only a field of the type `string` is a secret"));
        }
        let of = place.of.ok_or_else(|| place.wrong("no secret can stand here"))?;
        if !self.secrets.iter().any(|known| known == of) {
            self.secrets.push(of.to_owned());
        }
        Ok(true)
    }
}

/// Whether a keyword without schemas in it binds values and is as it should be.
fn is_bound(keyword: &str, value: &Value) -> Result<bool, String> {
    Ok(match (keyword, value) {
        ("type", Value::Array(kinds)) => kinds.iter().all(is_type),
        ("type", kind) => is_type(kind),
        ("pattern", Value::String(pattern)) => {
            let compiled = RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build();
            compiled.map(|_| true).map_err(|error| error.to_string())?
        }
        ("required", Value::Array(names)) => names.iter().all(Value::is_string),
        ("enum", Value::Array(_)) | ("const", _) | ("uniqueItems", Value::Bool(_)) => true,
        (
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "minLength"
            | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties",
            Value::Number(_),
        ) => true,
        ("multipleOf", Value::Number(step)) => step.as_f64().is_some_and(|step| step > 0.0),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(tools: Value) -> Result<Schema, SchemaError> {
        let mut definitions = json!({
            "host": { "type": "string", "pattern": "^[a-z.]+$" },
            "loop": { "properties": { "x": { "$ref": "#/$defs/loop" } } },
            "bomb20": true,
        });
        for level in 0..20 {
            let next = json!({ "$ref": format!("#/$defs/bomb{}", level + 1) });
            definitions[format!("bomb{level}")] = json!({ "allOf": [next, next] });
        }
        Schema::new(json!({
            "type": "object",
            "properties": { "tools": tools },
            "$defs": definitions,
        }))
    }

    #[test]
    fn settings_are_checked_and_their_values_not_repeated() {
        let schema = schema(json!({
            "type": "object",
            "required": ["allow"],
            "additionalProperties": false,
            "properties": {
                "allow": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/host" } },
                "most": { "type": "integer", "minimum": 1, "maximum": 9 },
                "mode": { "enum": ["a", "b"] },
                "either": { "oneOf": [{ "type": "string" }, { "type": "null" }] },
                "headers": { "type": "array", "items": {
                    "type": "object",
                    "properties": { "value": { "type": "string", "x-secret": true } },
                } },
            },
        }));
        let schema = schema.unwrap();
        let problems = |tools: Value| {
            let found = schema.check(&json!({ "tools": tools }));
            let found = found.iter().map(|one| format!("{}: {}", one.pointer, one.message));
            found.collect::<Vec<_>>()
        };

        assert_eq!(problems(json!({"allow": ["a.b"], "most": 9, "either": null})), [""; 0]);
        assert_eq!(problems(json!({})), ["/tools/allow: is missing"]);
        assert_eq!(
            problems(json!({"allow": [], "most": 10, "mode": "SECRET", "either": 1, "more": 1})),
            [
                "/tools/allow: expected at least 1 items",
                "/tools/either: fits none of `oneOf`",
                "/tools/mode: expected one of \"a\", \"b\"",
                "/tools/more: there is no such field",
                "/tools/most: expected at most 9",
            ]
        );
        assert_eq!(
            problems(json!({"allow": ["SECRET", 5]})),
            ["/tools/allow/0: does not match `^[a-z.]+$`", "/tools/allow/1: expected \"string\""]
        );
        assert_eq!(schema.secrets(), ["/tools/headers/*/value"]);
        assert_eq!(schema.check(&json!({"channel": {}})).len(), 1);
    }

    #[test]
    fn a_schema_that_cannot_be_held_to_is_refused() {
        let refused = [
            json!({ "$ref": "https://example.org/schema" }),
            json!({ "$ref": "#/$defs/none" }),
            json!({ "$ref": "#/$defs/loop" }),
            json!({ "$ref": "#/$defs/bomb0" }),
            json!({ "type": "thing" }),
            json!({ "pattern": "(" }),
            json!({ "pattern": "((a{100}){100}){100}" }),
            json!({ "if": {}, "then": false }),
            json!({ "properties": { "key": { "x-secret": true } } }),
            json!({ "type": "integer", "x-secret": true }),
            json!({ "multipleOf": 0 }),
            json!("text"),
        ];

        for tools in refused {
            assert!(schema(tools.clone()).is_err(), "{tools}");
        }
        assert!(Schema::new(json!({ "properties": {} })).is_err());
        assert!(Schema::new(json!({ "type": "object", "properties": { "x": {} } })).is_err());
        assert!(Schema::default().check(&json!({})).is_empty());
        assert_eq!(Schema::default().check(&json!({ "tools": {} })).len(), 1);
    }
}
