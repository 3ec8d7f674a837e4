//! Changes: what is to be stored, and what it means once that is durable.

use hivewright_actors::{
    clock::Timestamp,
    store::records::{Record, Writes},
};
use serde::Serialize;

use super::{
    audit::{self, Actor, AuditRow},
    entry::{self, Entry, Put, Row},
    error::{Result, VaultError},
    limit::Limit,
    rows::{CheckRow, EntryKey, KeyRow, RedactedRow, SpentRow, ToRedact, UsedRow, told},
    scope::Scope,
    seal::{Binding, Key, Plain},
    state::{Effect, Item, State},
};

/// What the check value is of. It says nothing; opening it does.
const CHECK: &[u8] = b"hivewright";
/// The version of data keys as they are wrapped now.
const KEY_VERSION: u32 = 1;

/// Writes that become durable together, and what they do to the state then.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) writes: Writes,
    pub(super) effects: Vec<Effect>,
}

impl Change {
    /// Sets an entry. `stored` is the value that it has, for a wish without one.
    pub(super) fn set(
        state: &State,
        scope: &Scope,
        key: &str,
        put: &Put,
        stored: Option<Plain>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(Self, Entry)> {
        state.unlocked()?;
        entry::check(key, put)?;
        let before = state.find(scope, key).map(|item| &item.entry);
        if put.create && before.is_some() {
            return Err(VaultError::Exists { key: key.to_owned() });
        }
        let was_secret = before.is_some_and(|entry| entry.secret);
        if was_secret && (actor.is_team() || put.secret == Some(false)) {
            return Err(is_secret(scope, key, actor));
        }
        let most = entry::most_entries(scope);
        if before.is_none() && state.entries(scope).count() >= most {
            return Err(Limit::Entries { scope: scope.clone(), most }.into());
        }
        let Some(value) = put.value.clone().or(stored) else {
            state.get(scope, key)?;
            return Err(VaultError::corrupt(scope, key));
        };
        let mut entry = entry::merge(key, put, before, value.bytes().len(), &actor.name(), now)?;
        if put.value.is_some() {
            entry.version = entry.version.max(state.spent(scope) + 1);
        }
        let mut change = Self::default();
        if entry.secret && (put.value.is_some() || !was_secret) {
            change.put(&EntryKey::new(scope, key), &ToRedact(Some(entry.version)));
        }
        let data_key = change.data_key(state, scope)?;
        change.entry(scope, &data_key, entry.clone(), value)?;
        Ok((change, entry))
    }

    /// Deletes an entry; none if there is none.
    pub(super) fn delete(
        state: &State,
        scope: &Scope,
        key: &str,
        actor: &Actor,
    ) -> Result<Option<Self>> {
        state.unlocked()?;
        let Some(item) = state.find(scope, key) else { return Ok(None) };
        if item.entry.secret && actor.is_team() {
            return Err(is_secret(scope, key, actor));
        }
        let mut change = Self::default();
        change.drop_entry(scope, key);
        // No entry of the scope gets this version any more.
        let version = state.spent(scope).max(item.entry.version);
        change.put(scope, &SpentRow { version });
        change.effects.push(Effect::Spent(scope.clone(), version));
        Ok(Some(change))
    }

    /// The data key of a scope; made if there is none.
    pub(super) fn data_key(&mut self, state: &State, scope: &Scope) -> Result<Key> {
        if let Some(key) = state.data_key(scope) {
            return Ok(key);
        }
        let key = Key::random()?;
        self.wrap(state.unlocked()?, scope, &key)?;
        self.effects.push(Effect::DataKey(scope.clone(), key.clone()));
        Ok(key)
    }

    /// A data key as the master key keeps it.
    pub(super) fn wrap(&mut self, master: &Key, scope: &Scope, key: &Key) -> Result<()> {
        let version = KEY_VERSION;
        let wrapped = master.seal(&Binding::data_key(scope, version), key.bytes())?;
        self.put(scope, &KeyRow { version, wrapped });
        Ok(())
    }

    /// What only this master key opens.
    pub(super) fn check(&mut self, master: &Key) -> Result<()> {
        let check = master.seal(&Binding::check(), CHECK)?;
        self.put(&"master".to_owned(), &CheckRow { check });
        Ok(())
    }

    pub(super) fn entry(
        &mut self,
        scope: &Scope,
        data_key: &Key,
        entry: Entry,
        value: Plain,
    ) -> Result<()> {
        let binding = Binding::value(scope, &entry.key, entry.version);
        let row = Row { sealed: data_key.seal(&binding, value.bytes())?, entry };
        self.put(&EntryKey::new(scope, &row.entry.key), &row);
        self.effects.push(Effect::Put(scope.clone(), Item::new(row.entry, value)));
        Ok(())
    }

    pub(super) fn drop_entry(&mut self, scope: &Scope, key: &str) {
        let row = EntryKey::new(scope, key);
        self.add(|writes| {
            let writes = writes.delete::<Row>(&row).delete::<UsedRow>(&row);
            writes.delete::<ToRedact>(&row).tell_all(told(&row, "removed"))
        });
        self.effects.push(Effect::Drop(scope.clone(), key.to_owned()));
    }

    pub(super) fn used(&mut self, scope: &Scope, key: &str, at: Timestamp) {
        self.put(&EntryKey::new(scope, key), &UsedRow { at });
        self.effects.push(Effect::Used(scope.clone(), key.to_owned(), at));
    }

    /// What was written before was looked through for the value of an entry.
    pub(super) fn redacted(&mut self, entry: &EntryKey) {
        self.add(|writes| writes.delete::<ToRedact>(entry));
    }

    /// Something is, or was, taken out of what was written before.
    pub(super) fn redaction(&mut self, row: RedactedRow) {
        self.put(&"last".to_owned(), &row);
    }

    /// A scope is gone: without its data key nothing of it can be read.
    pub(super) fn forget(&mut self, scope: &Scope) {
        self.add(|writes| writes.delete::<KeyRow>(scope).delete::<SpentRow>(scope));
        self.effects.push(Effect::Forget(scope.clone()));
    }

    pub(super) fn audit(&mut self, row: &AuditRow) {
        self.put(&audit::name(row.at), row);
    }

    /// Takes another change's steps, which count for those after it.
    pub(super) fn follow(&mut self, state: &mut State, step: Self) {
        self.add(|writes| writes.and(step.writes));
        for effect in step.effects {
            state.apply(effect.clone());
            self.effects.push(effect);
        }
    }

    fn put<R: Record + Serialize>(&mut self, key: &R::Key, row: &R) {
        self.add(|writes| writes.put_at(key, row));
    }

    fn add(&mut self, more: impl FnOnce(Writes) -> Writes) {
        self.writes = more(std::mem::take(&mut self.writes));
    }
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use hivewright_actors::storage::StorageError;

    use super::*;

    #[derive(Serialize)]
    struct Odd(HashMap<(u8, u8), u8>);

    impl Record for Odd {
        const KIND: &'static str = "edge\0odd";
        type Key = String;
    }

    /// SC-101
    #[test]
    fn a_row_that_does_not_serialise_refuses_the_change() {
        let mut change = Change::default();
        change.used(&Scope::System, "KEY", Timestamp(1));
        change.put(&"bad".to_owned(), &Odd(HashMap::from([((1, 2), 3)])));

        assert!(matches!(change.writes.batch(), Err(StorageError::Write(_))));
    }
}
