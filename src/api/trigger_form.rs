//! The form of a trigger: the schema of its definition as bodies and tools name its fields.
//!
//! A definition is one of five objects, by its type. Model APIs take no such choice at the top of a
//! schema, and a change names no type at all: here `config` has the fields of all types.

use std::{borrow::Cow, sync::LazyLock};

use hivewright_actors::{
    scheduler::trigger::{config::TriggerType, definition::Definition},
    text::quoted,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{check::has_type, input::Reader};

/// Reads definitions.
pub static DEFINITIONS: LazyLock<Reader<Definition>> = LazyLock::new(Reader::default);

/// What a team must not set, and so is not told of.
const OF_OPERATORS: &str = "allow_untrusted";

/// What a model is told of `config`: the fields by name, since every request carries it. Their meaning is in
/// [`config_in_words`].
const CONFIG: &str = "schedule: cron (5 or 6 fields), at (RFC 3339 or local) or every (30m); timezone. \
    keyword: pattern (text or /regex/flags), channels, sender. \
    message: pattern (regex), flags, channels, sender. \
    window: watch (cron), or open (cron) with close (cron) or duration; tick_interval, stop_on (first_hit), \
    backoff, max_ticks_per_window, max_tokens_per_window, max_usd_per_window, timezone. \
    webhook: secret (${vault:KEY}), scheme (standard, github or an object), filter, rate, max_body, \
    content_types, pass_headers, tolerance. A refusal says what each field means.";

/// What a model is told of the fields of a new trigger, in fewer words than people. The names of those that
/// are not here say enough.
const TOLD: [(&str, &str); 10] = [
    ("config", CONFIG),
    ("cooldown", "Such as `10m`."),
    ("deadline", "Left out: 6h."),
    ("failure_threshold", "Failures in a row that switch it off. Left out: 3."),
    ("missed", "Times that passed unserved."),
    ("name", "Lower-case words joined by `-`."),
    ("notify_channel", "Channel id, or `source`: where this comes from."),
    ("overlap_policy", "While its last task is unfinished."),
    ("quiet", "`from` and `to` as HH:MM."),
    ("task", "What the team does, complete in itself."),
];

/// The fields of a form. Those of a new trigger are needed as far as its definition needs them; a model is told
/// of a change only that it has the same ones.
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
        if MODEL && !NEW {
            return schemars::json_schema!({
                "type": "object", "properties": { "config": { "type": ["object", "null"] } },
            });
        }
        let definition = DEFINITIONS.schema();
        let mut properties = definition["properties"].as_object().cloned().unwrap_or_default();
        let mut required = definition["required"].as_array().cloned().unwrap_or_default();
        let types = types(definition);
        let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
        properties.insert("type".to_owned(), json!({"type": "string", "enum": names}));
        required.push("type".into());
        let config = if MODEL { json!({"type": "object"}) } else { of_all(&types) };
        properties.insert("config".to_owned(), config);
        required.push("config".into());
        if MODEL {
            properties.remove(OF_OPERATORS);
            properties.iter_mut().for_each(|(name, schema)| retell(name, schema));
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
    let named = types.iter().map(|(name, fields)| format!("`{name}`: {}", quoted(fields.keys())));
    let description = format!("When it fires, by type. {}.", named.collect::<Vec<_>>().join("; "));
    json!({"type": "object", "description": description, "properties": fields})
}

/// What the fields of `config` mean for a type, a line each.
pub fn config_in_words(kind: TriggerType) -> String {
    let types = types(DEFINITIONS.schema());
    let of_type = types.into_iter().filter(|(name, _)| *name == kind.as_str());
    let lines = of_type.flat_map(|(_, fields)| fields).map(|(field, schema)| {
        let about = schema["description"].as_str().unwrap_or_default();
        format!("- `{field}`: {}", about.replace('\n', " "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Puts what a model is told of a field in the place of what people read of it.
fn retell(name: &str, schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    // Where a limit is, a refusal says.
    for keyword in ["description", "minimum", "maximum", "x-minimum", "x-maximum"] {
        keywords.remove(keyword);
    }
    let inner = keywords.get_mut("properties").and_then(Value::as_object_mut);
    for field in inner.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        field.remove("description");
    }
    if let Some((_, words)) = TOLD.iter().find(|(told, _)| *told == name) {
        keywords.insert("description".to_owned(), (*words).into());
    }
}

fn may_be_null(schema: &Value) -> bool {
    let is_null = |schema: &Value| has_type(schema, "null");
    is_null(schema) || schema["anyOf"].as_array().is_some_and(|any| any.iter().any(is_null))
}

#[cfg(test)]
mod tests {
    use hivewright_actors::text::Span;
    use regex::Regex;

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

        // A former secret is for those who know of it: operators.
        let is_told = |field: &&String| field.as_str() != "secret_previous";
        let config = form["properties"]["config"]["description"].as_str().unwrap();
        for (kind, fields) in types(DEFINITIONS.schema()) {
            let part = config.split(&format!("{kind}: ")).nth(1).unwrap();
            let part = part.split(". ").next().unwrap();
            for field in fields.keys().filter(is_told) {
                assert!(part.contains(field.as_str()), "{kind}: {field}");
            }
        }
        for (name, words) in TOLD {
            let told = &form["properties"][name];
            let found = [&told["description"], &told["anyOf"][0]["description"]];
            assert!(found.contains(&&json!(words)), "{name}: {told}");
        }
        assert_eq!(form["properties"].get("allow_untrusted"), None);
        assert!(form.get("oneOf").is_none());
    }

    #[test]
    fn a_model_is_told_of_a_change_that_it_may_have_any_field() {
        let form = schema::<Fields<false, true>>();

        assert_eq!(form["properties"], json!({"config": {"type": ["object", "null"]}}));
        assert_eq!(form.get("required"), None);
    }

    /// TR-07: what is said of a field is what is checked.
    #[test]
    fn limits_and_defaults_are_said_as_they_are() {
        let definition = DEFINITIONS.schema();
        let of_all = definition["properties"].as_object().unwrap().iter();
        let of_types = types(definition).into_iter().flat_map(|(_, fields)| fields);
        let mut bounds = 0;

        for (name, schema) in of_all.chain(of_types) {
            let about = schema["description"].as_str().unwrap_or_default().replace(',', "");
            for keyword in ["maximum", "x-minimum", "x-maximum"] {
                let Some(bound) = schema.get(keyword) else { continue };
                let bound = bound.as_str().map_or_else(|| bound.to_string(), str::to_owned);
                assert!(about.contains(&bound), "{name}, {keyword} {bound}: {about}");
                bounds += 1;
            }
            let said = about.split("Left out: ").nth(1).and_then(|said| said.strip_suffix('.'));
            let is_value = said.is_some_and(|said| said.starts_with(|c: char| c.is_ascii_digit()));
            if is_value {
                let usual = &schema["default"];
                let usual = usual.as_str().map_or_else(|| usual.to_string(), str::to_owned);
                assert_eq!(said, Some(usual.as_str()), "{name}");
            }
        }

        assert!(bounds > 12, "{bounds}");
    }

    /// Each field that the web page asks for is one of the type, by its name and with its default.
    #[test]
    fn the_form_of_the_page_has_fields_of_the_definition() {
        let page = include_str!("../http/ui/views/triggers/form.js");
        let definition = DEFINITIONS.schema();
        let (fields, more) = page.split_once("\nconst MORE = [").unwrap();
        let fields = fields.split_once("\nconst FIELDS = {").unwrap().1;
        let more = more.split_once("\n];").unwrap().0;
        let entry = Regex::new(r#"\[\s*"[^"]*",\s*"([^"]+)",\s*"([^"]*)""#).unwrap();
        let asked = |part: &str| -> Vec<(String, String)> {
            let found = entry.captures_iter(part);
            found.map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
        };

        for (kind, known) in types(definition) {
            let part = fields.split_once(&format!("\n  {kind}: [")).unwrap().1;
            let part = part.split_once("\n  ],").unwrap().0;
            for (name, _) in asked(part) {
                assert!(known.contains_key(&name), "{kind}: {name}");
            }
        }
        let asked = asked(more);
        for (name, example) in &asked {
            let name = name.split('.').next().unwrap();
            let known = &definition["properties"][name];
            assert!(known.is_object(), "{name}");
            let usual = known["default"].as_str().map(str::to_owned);
            let usual = usual.or_else(|| Some(known["default"].as_u64()?.to_string()));
            if let Some(usual) = usual.filter(|_| !example.is_empty()) {
                // A duration may be written in several units.
                let spans = (example.parse::<Span>(), usual.parse::<Span>());
                let is_same = matches!(spans, (Ok(one), Ok(other)) if one == other);
                assert!(is_same || *example == usual, "{name}: {example}, {usual}");
            }
        }
        assert!(asked.len() > 8, "{asked:?}");
    }

    #[test]
    fn the_fields_of_a_type_have_words() {
        for kind in TriggerType::ALL {
            let words = config_in_words(*kind);

            assert!(!words.is_empty(), "{kind}");
            assert!(words.lines().all(|line| !line.ends_with(": ")), "{words}");
        }
    }
}
