//! Port to the vault: where the secrets of a team go that is about to be made.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use hivewright_actors::{ids::TeamKey, store::records::Alongside, tool::Stow};
use serde_json::Value;

use crate::{
    tools::contract::Redaction,
    vault::{aside::Origin, audit::Actor, error::VaultError},
};

/// Keeps values from the moment a call was let through until it has its result, and makes them
/// secrets of the new team. Nothing of a value is ever written in the clear.
pub trait Credentials: Send + Sync + 'static {
    /// Says why values cannot be secrets, if they cannot.
    fn check(&self, values: &BTreeMap<String, String>) -> Result<(), VaultError>;

    /// Takes the values of a call, all or none. They are kept once the answer is durable.
    fn put_aside(&self, of: &Origin, values: &BTreeMap<String, String>)
    -> Result<Stow, VaultError>;

    /// What makes the values of a call secrets of a team, and forgets them where they were. An error
    /// if there is none for one of the keys.
    fn hand_over(
        &self,
        of: &Origin,
        keys: Vec<String>,
        team: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>>;

    /// What makes values secrets of a team.
    fn give(
        &self,
        values: BTreeMap<String, String>,
        team: TeamKey,
        by: Actor,
    ) -> BoxFuture<'static, Result<Alongside, String>>;

    /// Nobody comes for the values of a call any more.
    fn release(&self, of: &Origin);
}

/// The argument that holds them.
const FIELD: &str = "credentials";
/// Shorter values are not looked for in other texts: too many words would be taken for them.
const SHORTEST: usize = 4;

/// The most secrets that a new team is given.
pub(crate) const MOST: usize = 50;

/// A text with references in place of the values that stand in it.
pub(crate) fn masked(text: &str, values: &BTreeMap<String, String>) -> String {
    match cleaned(&Value::from(text), &longest_first(values)) {
        Value::String(text) => text,
        _ => String::new(),
    }
}

/// A value that holds another must go first.
fn longest_first(values: &BTreeMap<String, String>) -> Vec<(&String, &String)> {
    let mut longest: Vec<(&String, &String)> = values.iter().collect();
    longest.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    longest
}

/// The reference that stands for a secret of the new team.
pub(super) fn reference(key: &str) -> String {
    format!("${{vault:{key}}}")
}

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
    let mut values = BTreeMap::new();
    // What is no text is refused by its kind; what is in it is nobody's business.
    let mut hidden = BTreeMap::new();
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
    let all: BTreeMap<String, String> = values.clone().into_iter().chain(hidden).collect();
    let longest = longest_first(&all);
    let fields = args.iter().map(|(field, value)| match field.as_str() {
        FIELD => {
            let entries = given.iter().map(|(key, value)| {
                let shown = match value {
                    Value::String(_) => Value::String(reference(key)),
                    Value::Object(_) => Value::Object(serde_json::Map::new()),
                    Value::Array(_) => Value::Array(Vec::new()),
                    Value::Number(_) => Value::from(0),
                    Value::Bool(_) => Value::Bool(false),
                    Value::Null => Value::Null,
                };
                (key.clone(), shown)
            });
            (field.clone(), Value::Object(entries.collect()))
        }
        _ => (field.clone(), cleaned(value, &longest)),
    });
    Some(Redaction { args: Value::Object(fields.collect()), values })
}

fn cleaned(value: &Value, secrets: &[(&String, &String)]) -> Value {
    match value {
        Value::String(text) => {
            let mut text = text.clone();
            for (key, secret) in secrets {
                if secret.chars().count() >= SHORTEST {
                    text = text.replace(secret.as_str(), &reference(key));
                }
            }
            Value::String(text)
        }
        Value::Array(items) => items.iter().map(|item| cleaned(item, secrets)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), cleaned(field, secrets))).collect()
        }
        other => other.clone(),
    }
}
