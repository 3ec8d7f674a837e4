//! Plans: what a change would do, decided from what is known and not yet durable.

use hivewright_actors::clock::Timestamp;

use super::{
    audit::Actor,
    entry::{self, Entry, Limit, Put, Row},
    error::VaultError,
    rows::{Change, KeyRow},
    scope::Scope,
    seal::{Binding, Key, Plain},
    state::{Content, Effect, Item, State},
};

/// What is to be stored, and what it means once it is.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) change: Change,
    pub(super) effects: Vec<Effect>,
}

impl Plan {
    /// The data key of a scope; made if there is none.
    pub(super) fn data_key(&mut self, state: &State, scope: &Scope) -> Result<Key, VaultError> {
        if let Some(key) = state.data_key(scope) {
            return Ok(key);
        }
        let key = Key::random()?;
        let row = wrap(state.unlocked()?, scope, &key)?;
        self.change.data_key(scope, &row);
        let effect = Effect::DataKey(scope.clone(), key.clone());
        self.effects.push(effect);
        Ok(key)
    }

    /// Takes another plan's steps, which count for those after it.
    pub(super) fn follow(&mut self, state: &mut State, step: Self) {
        self.change.extend(step.change);
        for effect in step.effects {
            state.apply(effect.clone());
            self.effects.push(effect);
        }
    }

    /// An entry with its value.
    pub(super) fn put(
        &mut self,
        scope: &Scope,
        data_key: &Key,
        entry: Entry,
        value: Plain,
    ) -> Result<(), VaultError> {
        let binding = Binding::value(scope, &entry.key, entry.version);
        let row = Row { sealed: data_key.seal(&binding, value.bytes())?, entry };
        self.change.entry(scope, &row.entry.key, &row);
        let item = Item {
            content: if row.entry.secret { Content::Secret(value) } else { Content::Public },
            entry: row.entry,
        };
        self.effects.push(Effect::Put(scope.clone(), item));
        Ok(())
    }
}

/// A data key as the master key keeps it.
pub(super) fn wrap(master: &Key, scope: &Scope, key: &Key) -> Result<KeyRow, VaultError> {
    let version = 1;
    let wrapped = master.seal(&Binding::data_key(scope, version), key.bytes())?;
    Ok(KeyRow { version, wrapped })
}

/// Sets an entry. `value` is the one it will have, be it new or the one it has.
pub(super) fn set(
    state: &State,
    scope: &Scope,
    key: &str,
    put: &Put,
    value: Option<Plain>,
    actor: &Actor,
    now: Timestamp,
) -> Result<(Plan, Entry), VaultError> {
    state.unlocked()?;
    entry::check(key, put)?;
    let before = state.find(scope, key).map(|item| &item.entry);
    if put.create && before.is_some() {
        let key = key.to_owned();
        return Err(VaultError::Exists { key });
    }
    let lowered = put.secret == Some(false);
    if before.is_some_and(|entry| entry.secret) && (actor.is_team() || lowered) {
        return Err(is_secret(scope, key, actor));
    }
    let most = entry::most_entries(scope);
    if before.is_none() && state.entries(scope).count() >= most {
        let scope = scope.clone();
        return Err(Limit::Entries { scope, most }.into());
    }
    let Some(value) = value else {
        state.get(scope, key)?;
        return Err(corrupt(scope, key));
    };
    let mut entry = entry::merge(key, put, before, value.bytes().len(), &actor.name(), now)?;
    if put.value.is_some() {
        entry.version = entry.version.max(state.spent(scope) + 1);
    }
    let mut plan = Plan::default();
    let was_secret = before.is_some_and(|entry| entry.secret);
    let becomes_secret = entry.secret && (put.value.is_some() || !was_secret);
    if becomes_secret {
        plan.change.redact(scope, key);
    }
    let data_key = plan.data_key(state, scope)?;
    plan.put(scope, &data_key, entry.clone(), value)?;
    Ok((plan, entry))
}

/// Deletes an entry; none if there is none.
pub(super) fn delete(
    state: &State,
    scope: &Scope,
    key: &str,
    actor: &Actor,
) -> Result<Option<Plan>, VaultError> {
    state.unlocked()?;
    match state.find(scope, key) {
        None => Ok(None),
        Some(item) if item.entry.secret && actor.is_team() => Err(is_secret(scope, key, actor)),
        Some(item) => {
            let mut plan = Plan::default();
            plan.change.drop_entry(scope, key);
            let effect = Effect::Drop(scope.clone(), key.to_owned());
            plan.effects.push(effect);
            let spent = state.spent(scope).max(item.entry.version);
            plan.change.spent(scope, spent);
            plan.effects.push(Effect::Spent(scope.clone(), spent));
            Ok(Some(plan))
        }
    }
}

pub(super) fn corrupt(scope: &Scope, key: &str) -> VaultError {
    VaultError::Corrupt { scope: scope.clone(), key: key.to_owned() }
}

fn is_secret(scope: &Scope, key: &str, actor: &Actor) -> VaultError {
    let flag = scope.flag();
    let way_out = if actor.is_team() {
        format!(
            "an operator can change it with `hivewright vault set {key} {flag}`, or delete it with `hivewright vault delete {key} {flag}`"
        )
    } else {
        format!(
            "it cannot become public: delete it with `hivewright vault delete {key} {flag}` and set it anew"
        )
    };
    VaultError::IsSecret { key: key.to_owned(), way_out }
}
