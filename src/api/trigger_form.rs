//! The form of a trigger: the schema of its definition as bodies and tools name its fields.
//!
//! A definition is one of five objects, by its type. Model APIs take no such choice at the top of a
//! schema, and a change names no type at all: here `config` has the fields of all types.

use std::{borrow::Cow, sync::LazyLock};

use hivewright_actors::scheduler::trigger::definition::Definition;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::input::Reader;

/// Reads definitions.
pub static DEFINITIONS: LazyLock<Reader<Definition>> = LazyLock::new(Reader::default);

/// What a team must not set, and so is not told of.
const OF_OPERATORS: &str = "allow_untrusted";

/// The fields of a form. Those of a new trigger are needed as far as its definition needs them; a model
/// is told of `config` in words, which are shorter than its schema.
#[derive(Debug)]
pub struct Fields<const NEW: bool, const MODEL: bool>;

impl<const NEW: bool, const MODEL: bool> JsonSchema for Fields<NEW, MODEL> {
    fn schema_name() -> Cow<'static, str> {
        "TriggerFields".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let definition = DEFINITIONS.schema();
        let mut properties = definition["properties"].as_object().cloned().unwrap_or_default();
        let mut required = definition["required"].as_array().cloned().unwrap_or_default();
        let types = types(definition);
        let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
        properties.insert("type".to_owned(), json!({"type": "string", "enum": names}));
        required.push("type".into());
        let config = if MODEL { in_words(&types) } else { of_all(&types) };
        properties.insert("config".to_owned(), config);
        required.push("config".into());
        if MODEL {
            properties.remove(OF_OPERATORS);
        }
        if !NEW {
            required.clear();
        }
        for (name, schema) in &mut properties {
            // Null clears, or stands for nothing.
            if !required.contains(&json!(name)) && !may_be_null(schema) {
                *schema = json!({"anyOf": [schema.take(), {"type": "null"}]});
            }
        }
        schemars::json_schema!({
            "type": "object", "properties": properties, "required": required,
        })
    }
}

/// The types of triggers, with the fields of `config`.
fn types(definition: &Value) -> Vec<(&str, &Map<String, Value>)> {
    let variants = definition["oneOf"].as_array().into_iter().flatten();
    let types = variants.filter_map(|variant| {
        let fields = &variant["properties"];
        Some((fields["type"]["const"].as_str()?, fields["config"]["properties"].as_object()?))
    });
    types.collect()
}

/// An object with the fields of all types. Which go together is found when it is read.
fn of_all(types: &[(&str, &Map<String, Value>)]) -> Value {
    let fields: Map<String, Value> =
        types.iter().flat_map(|(_, fields)| (*fields).clone()).collect();
    let named = types.iter().map(|(name, fields)| {
        let fields: Vec<String> = fields.keys().map(|field| format!("`{field}`")).collect();
        format!("`{name}`: {}", fields.join(", "))
    });
    let description = format!("When it fires, by type. {}.", named.collect::<Vec<_>>().join("; "));
    json!({"type": "object", "description": description, "properties": fields})
}

/// The fields of all types as a list in words.
fn in_words(types: &[(&str, &Map<String, Value>)]) -> Value {
    let mut text = "When it fires, by type.".to_owned();
    let mut told: Option<&Map<String, Value>> = None;
    for (name, fields) in types {
        if told == Some(*fields) {
            text += &format!("\n`{name}`: the same.");
            continue;
        }
        told = Some(*fields);
        text += &format!("\n`{name}`:");
        for (field, schema) in *fields {
            let about = schema["description"].as_str().unwrap_or_default();
            text += &format!("\n- `{field}`: {}", about.replace('\n', " "));
        }
    }
    json!({"type": "object", "description": text})
}

fn may_be_null(schema: &Value) -> bool {
    let is_null = |schema: &Value| {
        let types = &schema["type"];
        types == "null" || types.as_array().is_some_and(|types| types.contains(&json!("null")))
    };
    is_null(schema) || schema["anyOf"].as_array().is_some_and(|any| any.iter().any(is_null))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema<T: JsonSchema>() -> Value {
        schemars::schema_for!(T).to_value()
    }

    /// OP-07
    #[test]
    fn a_form_has_all_fields_of_a_definition() {
        let form = schema::<Fields<true, false>>();
        let sample =
            json!({"name": "a", "type": "schedule", "config": {"every": "1h"}, "task": "b"});
        let definition = DEFINITIONS.json(sample).unwrap();
        let written = json!(definition);

        for name in written.as_object().unwrap().keys() {
            assert!(form["properties"].get(name).is_some(), "{name}");
        }
        for name in ["missed", "config", "type"] {
            assert!(form["properties"].get(name).is_some(), "{name}");
        }
        assert_eq!(form["required"], json!(["name", "task", "type", "config"]));
        assert_eq!(schema::<Fields<false, false>>()["required"], json!([]));
        let config = &form["properties"]["config"]["properties"];
        for name in ["cron", "pattern", "watch", "secret"] {
            assert!(config.get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_model_is_told_of_all_types_and_not_of_what_is_for_operators() {
        let form = schema::<Fields<true, true>>();

        let config = form["properties"]["config"]["description"].as_str().unwrap();
        for name in ["`schedule`:\n- `at`", "`message`: the same", "- `watch`", "- `secret`"] {
            assert!(config.contains(name), "{name}: {config}");
        }
        assert_eq!(form["properties"].get("allow_untrusted"), None);
        assert!(form.get("oneOf").is_none());
    }
}
