//! Redaction: records without values that became secrets after they were thought of.
//!
//! The store takes such values out of every record that it writes, so that what an actor still has in
//! memory cannot bring one back. What was written before is looked through once, whenever a value
//! becomes a secret.

use std::{ops::ControlFlow, sync::Arc};

use serde_json::Value;

use super::keys::{after_prefix, prefix_of};
use crate::{
    ids::{MAIN, TeamName},
    storage::{Order, Storage, StorageError},
};

#[cfg(test)]
mod tests;

/// Port: knows what has become a secret.
pub trait Redactor: Send + Sync + 'static {
    /// Reads what whose secrets concern whom follows from, as it is now. Blocks.
    fn learn(&self, storage: &dyn Storage) -> Result<(), StorageError>;

    /// A record may hold a secret somewhere, be it escaped. Cheap: it is asked of everything that is
    /// written.
    fn suspects(&self, text: &str) -> bool;

    /// A text of a team without the secrets of itself and of all teams above and below it; none if it
    /// holds none.
    fn clean(&self, team: &TeamName, text: &str) -> Option<String>;

    /// The same of a name that was made of the words of a text.
    fn clean_name(&self, team: &TeamName, name: &str) -> Option<String>;
}

/// Where in the records of a kind there are words of people, models and tools. All else is left alone:
/// a value may be the same as a name that records are found by.
#[derive(Debug, PartialEq, Eq)]
pub struct Texts {
    /// What their keys begin with.
    pub kind: &'static str,
    pub owner: Owner,
    /// The fields, as pointers; `*` stands for every item of a list.
    pub fields: &'static [&'static str],
    /// The same of names that were made of such words.
    pub names: &'static [&'static str],
}

/// Whose words a record holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Owner {
    /// The team that its key names after the kind.
    Key,
    /// The team that it names itself, at this pointer.
    At(&'static str),
    /// The main team: it is who people talk to.
    Main,
}

/// The provider's own form of a thought is signed: it is whole, or it is nothing.
const SIGNED: &str = "block";
/// Set in events that were changed.
const MARK: &str = "redacted";

impl Texts {
    /// The words of a kind of record, of which no names were made.
    pub const fn of(kind: &'static str, owner: Owner, fields: &'static [&'static str]) -> Self {
        Self { kind, owner, fields, names: &[] }
    }

    /// The same with names that were.
    pub const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    /// A record without any of its words, if it is of one of these kinds and can be read.
    pub(super) fn emptied(all: &[Self], key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let texts = all.iter().find(|texts| texts.covers(key))?;
        let mut record: Value = serde_json::from_slice(value).ok()?;
        for field in texts.fields.iter().chain(texts.names) {
            clean_field(&mut record, field, &|_| Some(String::new()));
        }
        Some(record.to_string().into_bytes())
    }

    fn prefix(&self) -> Vec<u8> {
        prefix_of(self.kind, &())
    }

    fn covers(&self, key: &[u8]) -> bool {
        let rest = key.strip_prefix(self.kind.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn owner(&self, key: &[u8], record: &Value) -> Option<TeamName> {
        match self.owner {
            Owner::Main => Some(MAIN.into()),
            Owner::At(pointer) => record.pointer(pointer)?.as_str().map(Into::into),
            Owner::Key => {
                let name = key.get(self.prefix().len()..)?.split(|byte| *byte == 0).next()?;
                let name = std::str::from_utf8(name).ok()?;
                // A later life of the team.
                Some(name.split_once('~').map_or(name, |(name, _)| name).into())
            }
        }
    }
}

/// What is taken out of which records.
#[derive(Clone)]
pub struct Redaction {
    pub(super) redactor: Arc<dyn Redactor>,
    texts: Arc<[&'static Texts]>,
}

impl Redaction {
    pub fn new(
        redactor: Arc<dyn Redactor>,
        texts: impl IntoIterator<Item = &'static [Texts]>,
    ) -> Self {
        Self { redactor, texts: texts.into_iter().flatten().collect() }
    }

    /// A record without secrets; none if it is to stay as it is.
    pub(super) fn redacted(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let redactor = &self.redactor;
        let texts = self.texts.iter().find(|texts| texts.covers(key))?;
        let text = std::str::from_utf8(value).ok()?;
        if !redactor.suspects(text) {
            return None;
        }
        let mut record: Value = serde_json::from_str(text).ok()?;
        let team = texts.owner(key, &record)?;
        let clean = |text: &str| redactor.clean(&team, text);
        let mut changed = false;
        for field in texts.fields {
            match (field.strip_prefix("*/"), &mut record) {
                (Some(field), Value::Array(events)) => {
                    for event in events {
                        changed |= clean_event(event, field, &clean);
                    }
                }
                _ => changed |= clean_field(&mut record, field, &clean),
            }
        }
        let clean_name = |name: &str| redactor.clean_name(&team, name);
        for field in texts.names {
            changed |= clean_field(&mut record, field, &clean_name);
        }
        changed.then(|| record.to_string().into_bytes())
    }

    /// The keys of all records that hold a secret, and whether all could be looked at. Blocks.
    pub(super) fn held(&self, storage: &dyn Storage) -> Result<Held, StorageError> {
        self.redactor.learn(storage)?;
        let (mut held, mut left) = (Vec::new(), Ok(()));
        for texts in &*self.texts {
            let prefix = texts.prefix();
            storage.scan(&prefix, &after_prefix(&prefix), Order::Rising, &mut |key, value| {
                match value {
                    Ok(value) if self.redacted(key, value).is_some() => held.push(key.to_vec()),
                    Ok(_) => {}
                    // Nobody will read it again.
                    Err(error @ StorageError::Damaged { .. }) => {
                        tracing::error!(%error, "a damaged record is not looked through for secrets");
                    }
                    Err(error) => left = Err(error),
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok((held, left))
    }
}

/// Keys, and why a record could not be looked at.
type Held = (Vec<Vec<u8>>, Result<(), StorageError>);

type Clean<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn clean_event(event: &mut Value, field: &str, clean: &Clean<'_>) -> bool {
    let changed = clean_field(event, field, clean);
    if changed && let Value::Object(fields) = event {
        if field == SIGNED {
            fields.remove(SIGNED);
        }
        fields.insert(MARK.to_owned(), true.into());
    }
    changed
}

/// Returns whether something was taken out.
fn clean_field(value: &mut Value, field: &str, clean: &Clean<'_>) -> bool {
    let (first, rest) = field.split_once('/').unwrap_or((field, ""));
    match (first, value) {
        ("", value) => clean_value(value, clean),
        ("*", Value::Array(items)) => {
            items.iter_mut().fold(false, |changed, item| clean_field(item, rest, clean) | changed)
        }
        (first, Value::Object(fields)) => {
            fields.get_mut(first).is_some_and(|found| clean_field(found, rest, clean))
        }
        _ => false,
    }
}

/// Everything below this may be words, numbers too.
fn clean_value(value: &mut Value, clean: &Clean<'_>) -> bool {
    match value {
        Value::String(text) => replace(text, clean),
        Value::Number(number) => match clean(&number.to_string()) {
            Some(text) => {
                *value = text.into();
                true
            }
            None => false,
        },
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| clean_value(item, clean) | changed)
        }
        Value::Object(fields) => {
            let mut changed = false;
            let renamed = std::mem::take(fields).into_iter().map(|(mut name, mut field)| {
                changed |= replace(&mut name, clean);
                changed |= clean_value(&mut field, clean);
                (name, field)
            });
            *fields = renamed.collect();
            changed
        }
        Value::Null | Value::Bool(_) => false,
    }
}

fn replace(text: &mut String, clean: &Clean<'_>) -> bool {
    match clean(text) {
        Some(cleaned) => {
            *text = cleaned;
            true
        }
        None => false,
    }
}
