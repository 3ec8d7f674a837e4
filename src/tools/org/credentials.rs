//! Port to the vault: where the secrets of a team go that is about to be made.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use hivewright_actors::{ids::TeamKey, org::Alongside, store::records::Writes};
use serde_json::Value;

use crate::tools::contract::Redaction;

/// Keeps values aside between the moment a call is journalled and the moment it runs, and makes
/// them secrets of the new team then. Nothing of a value is ever written in the clear.
pub trait Credentials: Send + Sync + 'static {
    /// What keeps these values aside under a name. An error says why they cannot be kept.
    fn put_aside(&self, name: &str, values: &BTreeMap<String, String>) -> Result<Writes, String>;

    /// What makes the values that were put aside under a name secrets of a team, and forgets what
    /// was put aside. An error if there is none for one of the keys.
    fn hand_over(
        &self,
        name: &str,
        keys: Vec<String>,
        team: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>>;
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
pub(super) fn redact(args: &Value, name: &str, vault: &dyn Credentials) -> Option<Redaction> {
    let Some(args) = args.as_object() else {
        // Nobody knows what is in it.
        return Some(Redaction {
            args: Value::Object(serde_json::Map::new()),
            beside: None,
        });
    };
    let given = args.get(FIELD)?;
    let mut values = BTreeMap::new();
    let Some(given) = given.as_object() else {
        let mut args = args.clone();
        args.insert(FIELD.to_owned(), Value::String("[REDACTED]".to_owned()));
        return Some(Redaction {
            args: Value::Object(args),
            beside: None,
        });
    };
    for (key, value) in given {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if text != reference(key) {
            values.insert(key.clone(), text);
        }
    }
    if values.is_empty() {
        return None;
    }
    let beside = match vault.put_aside(name, &values) {
        Ok(writes) => Some(writes),
        Err(error) => {
            tracing::warn!(%error, "credentials of a new team cannot be kept");
            None
        }
    };
    let longest = longest_first(&values);
    let fields = args.iter().map(|(field, value)| match field.as_str() {
        FIELD => {
            let keys = given.keys();
            let references = keys.map(|key| (key.clone(), Value::String(reference(key))));
            (field.clone(), Value::Object(references.collect()))
        }
        _ => (field.clone(), cleaned(value, &longest)),
    });
    Some(Redaction {
        args: Value::Object(fields.collect()),
        beside,
    })
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
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), cleaned(field, secrets)))
            .collect(),
        other => other.clone(),
    }
}

/// Without a vault there is no place for secrets.
pub struct NoVault;

impl Credentials for NoVault {
    fn put_aside(&self, _: &str, _: &BTreeMap<String, String>) -> Result<Writes, String> {
        Err("there is no vault".to_owned())
    }

    fn hand_over(
        &self,
        _: &str,
        _: Vec<String>,
        _: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        Box::pin(std::future::ready(Err("there is no vault".to_owned())))
    }
}
