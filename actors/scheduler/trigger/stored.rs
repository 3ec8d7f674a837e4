//! A definition as it is stored: its public form, and beside it what was worked out when it was
//! written. Rows of former versions, which had a form of their own, are read too.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value, json};

use super::{
    config::Config,
    definition::{Definition, TimeOfDay},
    webhook::SecretRef,
};
use crate::{
    clock::Timestamp,
    text::{Size, Span},
};

/// What is no part of the public form.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Resolved {
    /// What the `at` of a schedule means.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    /// Until when the former secret of a webhook is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_until: Option<Timestamp>,
    /// The name of the topic in which people are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_name: Option<String>,
}

impl Resolved {
    fn of(definition: &Definition) -> Self {
        let (at, previous_until) = match &definition.config {
            Config::Schedule(schedule) => (schedule.moment, None),
            Config::Webhook(webhook) => (None, webhook.previous_until),
            _ => (None, None),
        };
        let topic_name = definition.notify_topic.as_ref().map(|topic| topic.name.clone());
        Self { at, previous_until, topic_name }
    }

    fn enter(self, definition: &mut Definition) {
        match &mut definition.config {
            Config::Schedule(schedule) => schedule.moment = self.at,
            Config::Webhook(webhook) => webhook.previous_until = self.previous_until,
            _ => {}
        }
        if let (Some(topic), Some(name)) = (&mut definition.notify_topic, self.topic_name) {
            topic.name = name;
        }
    }
}

pub(super) fn serialize<S: Serializer>(
    definition: &Definition,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        definition: &'a Definition,
        resolved: Resolved,
    }
    Row { definition, resolved: Resolved::of(definition) }.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Definition, D::Error> {
    let mut row: Map<String, Value> = Map::deserialize(deserializer)?;
    upgrade(&mut row);
    let resolved = row.remove("resolved").unwrap_or_else(|| json!({}));
    let resolved = Resolved::deserialize(resolved).map_err(D::Error::custom)?;
    let mut definition = Definition::deserialize(Value::Object(row)).map_err(D::Error::custom)?;
    resolved.enter(&mut definition);
    Ok(definition)
}

/// Rewrites a row of a former version, in which the type stood inside of `config`, durations were
/// milliseconds, and times of day minutes.
fn upgrade(row: &mut Map<String, Value>) {
    let Some(Value::Object(mut config)) = row.get("config").cloned() else { return };
    let Some(kind) = config.remove("type") else { return };
    let mut resolved = Map::new();
    for field in ["deadline", "cooldown"] {
        reword(row, field, span);
    }
    if kind != "schedule" {
        row.remove("missed");
    }
    if let Some(Value::Object(quiet)) = row.get_mut("quiet") {
        for field in ["from", "to"] {
            reword(quiet, field, |minutes| {
                TimeOfDay(u32::try_from(minutes).unwrap_or(0)).to_string()
            });
        }
    }
    if let Some(Value::Object(mut topic)) = row.remove("notify_topic") {
        row.extend(topic.remove("id").map(|id| ("notify_topic".to_owned(), id)));
        resolved.extend(topic.remove("name").map(|name| ("topic_name".to_owned(), name)));
    }
    if let Some(Value::Object(mut at)) = config.get("at").cloned() {
        config.extend(at.remove("text").map(|text| ("at".to_owned(), text)));
        resolved.extend(at.remove("at").map(|at| ("at".to_owned(), at)));
    }
    if let Some(Value::Object(hours)) = config.remove("span") {
        for (way, value) in hours {
            match value {
                Value::Object(fields) => config.extend(fields),
                pattern => drop(config.insert(way, pattern)),
            }
        }
    }
    if let Some(custom) = config.get("scheme").and_then(|scheme| scheme.get("custom")).cloned() {
        config.insert("scheme".to_owned(), custom);
    }
    for field in ["every", "tick_interval", "duration", "tolerance"] {
        reword(&mut config, field, span);
    }
    reword(&mut config, "max_body", |bytes| Size(bytes).to_string());
    for field in ["secret", "secret_previous"] {
        if let Some(Value::String(key)) = config.get_mut(field) {
            *key = SecretRef::to(key).to_string();
        }
    }
    resolved.extend(config.remove_entry("previous_until"));
    if config.remove("stop_on_first_hit") == Some(Value::Bool(true)) {
        config.insert("stop_on".to_owned(), json!("first_hit"));
    }
    let names = [
        ("max_ticks", "max_ticks_per_window"),
        ("max_tokens", "max_tokens_per_window"),
        ("max_usd", "max_usd_per_window"),
        ("senders", "sender"),
    ];
    for (former, present) in names {
        if let Some(value) = config.remove(former) {
            config.insert(present.to_owned(), value);
        }
    }
    row.insert("type".to_owned(), kind);
    row.insert("config".to_owned(), Value::Object(config));
    row.insert("resolved".to_owned(), Value::Object(resolved));
}

fn span(millis: u64) -> String {
    Span(Duration::from_millis(millis)).to_string()
}

/// Puts a text in the place of a number.
fn reword(fields: &mut Map<String, Value>, name: &str, text: impl Fn(u64) -> String) {
    if let Some(value) = fields.get_mut(name)
        && let Some(number) = value.as_u64()
    {
        *value = text(number).into();
    }
}

#[cfg(test)]
#[path = "../tests/stored.rs"]
mod tests;
