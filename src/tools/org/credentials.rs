//! Port to the vault: where the secrets of a team go that is about to be made.

use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{ids::TeamKey, store::records::Alongside, tool::Stow};
use serde_json::Value;

use crate::{
    scrub::json,
    tools::contract::{Redaction, SecretValues},
    vault::{
        Vault,
        aside::{Aside, Origin, check_given},
        audit::Actor,
        error::VaultError,
        teams::Pending,
    },
};

/// What makes values secrets of a team, once it is committed.
pub type Handing = BoxFuture<'static, Result<Alongside, String>>;

/// Keeps values from the moment a call was let through until it has its result, and makes them
/// secrets of the new team. Nothing of a value is ever written in the clear.
pub trait Credentials: Send + Sync + 'static {
    /// Says why values cannot be secrets, if they cannot.
    fn check(&self, values: &SecretValues) -> Result<(), VaultError>;

    /// Takes the values of a call, all or none. They are kept once the answer is durable.
    fn put_aside(&self, of: &Origin, values: &SecretValues) -> Result<Stow, VaultError>;

    /// What makes the values of a call secrets of a team, and forgets them where they were. An error
    /// if there is none for one of the keys.
    fn hand_over(&self, of: &Origin, keys: Vec<String>, team: TeamKey) -> Handing;

    /// What makes values secrets of a team.
    fn give(&self, values: SecretValues, team: TeamKey, by: Actor) -> Handing;

    /// Nobody comes for the values of a call any more.
    fn release(&self, of: &Origin);
}

impl Credentials for Vault {
    fn check(&self, values: &SecretValues) -> Result<(), VaultError> {
        match self.locked() {
            Some(locked) => Err(VaultError::Locked(locked)),
            None => check_given(values),
        }
    }

    fn put_aside(&self, of: &Origin, values: &SecretValues) -> Result<Stow, VaultError> {
        Ok(stow(Self::put_aside(self, of, values)?))
    }

    fn hand_over(&self, of: &Origin, keys: Vec<String>, team: TeamKey) -> Handing {
        let (vault, of) = (self.clone(), of.clone());
        async move { alongside(vault.hand_over(&of, &keys, &team).await) }.boxed()
    }

    fn give(&self, values: SecretValues, team: TeamKey, by: Actor) -> Handing {
        let vault = self.clone();
        async move { alongside(vault.give(&values, &team, &by).await) }.boxed()
    }

    fn release(&self, of: &Origin) {
        self.release_call(of);
    }
}

/// Makes durable what was put aside, together with the call.
pub(crate) fn stow(aside: Aside) -> Stow {
    Stow::new(move || {
        let aside = aside.clone();
        async move { alongside(aside.keep().await) }.boxed()
    })
}

fn alongside(pending: Result<Pending, VaultError>) -> Result<Alongside, String> {
    let mut pending = pending.map_err(|error| error.to_string())?;
    Ok(Alongside { writes: pending.take_writes(), then: Box::pin(pending.committed()) })
}

const FIELD: &str = "credentials";
/// Shorter values are not looked for in other texts: too many words would be taken for them.
const SHORTEST: usize = 4;

/// The most secrets that a new team is given.
pub(crate) const MOST: usize = 50;

/// A text with references in place of the values that stand in it.
pub(crate) fn masked(text: &str, values: &SecretValues) -> String {
    cleaned(text, &longest_first(values))
}

/// A value that holds another must go first.
fn longest_first(values: &SecretValues) -> Vec<(&String, &String)> {
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
    let longest = longest_first(&all);
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
        _ => (field.clone(), json::replaced(value, &|text| cleaned(text, &longest))),
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

/// A text with references in place of the values that stand in it, given longest first.
fn cleaned(text: &str, secrets: &[(&String, &String)]) -> String {
    let told = secrets.iter().filter(|(_, secret)| secret.chars().count() >= SHORTEST);
    told.fold(text.to_owned(), |text, (key, secret)| text.replace(secret.as_str(), &reference(key)))
}
