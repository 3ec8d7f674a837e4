//! Rows: what the store holds of the vault. No value and no key is among it in the clear.

use std::{collections::BTreeMap, ops::ControlFlow};

use hivewright_actors::{
    clock::Timestamp,
    live::event::{Event, Kind},
    storage::{Batch, Order, Storage, StorageError},
    store::{
        damage::{one, readable, row},
        records::{EdgeKey, Writes, after_prefix},
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    audit::AuditRow,
    entry::{Entry, Row},
    scope::Scope,
    seal::Sealed,
};

const CHECK: &str = "vault-check";
const DATA_KEY: &str = "vault-key";
const ENTRY: &str = "vault";
const USED: &str = "vault-used";
const SPENT: &str = "vault-spent";
const REDACT: &str = "vault-redact";
pub(super) const AUDIT: &str = "vault-audit";

/// What only the right master key opens.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckRow {
    pub(super) check: Sealed,
}

/// The data key of a scope, wrapped by the master key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeyRow {
    pub(super) version: u32,
    pub(super) wrapped: Sealed,
}

/// When a reference to an entry was last expanded.
#[derive(Debug, Serialize, Deserialize)]
struct UsedRow {
    at: Timestamp,
}

/// The highest version of all entries of a scope that are gone.
#[derive(Debug, Serialize, Deserialize)]
struct SpentRow {
    version: u64,
}

/// Changes that become durable together, for the running store or for a storage at rest.
#[derive(Debug, Default)]
pub(super) struct Change(Writes);

/// What whoever watches learns of an entry: that it is another, never what it is.
fn told(scope: &Scope, key: &str, action: &str) -> Option<Event> {
    let data = json!({ "scope": scope.to_string(), "key": key, "action": action });
    let event = Event::new(Kind::VaultChanged, data);
    match scope {
        Scope::Team(team) => Some(event.of_team(&team.name)),
        Scope::System => Some(event),
        Scope::Aside(_) => None,
    }
}

impl Change {
    pub(super) fn entry(&mut self, scope: &Scope, key: &str, row: &Row) {
        self.put(entry_key(ENTRY, scope, key), row);
        self.tell(told(scope, key, "set"));
    }

    pub(super) fn drop_entry(&mut self, scope: &Scope, key: &str) {
        for kind in [ENTRY, USED, REDACT] {
            self.drop(&entry_key(kind, scope, key));
        }
        self.tell(told(scope, key, "removed"));
    }

    /// No entry of the scope gets this version any more.
    pub(super) fn spent(&mut self, scope: &Scope, version: u64) {
        self.put(EdgeKey::new(SPENT, scope.tag()), &SpentRow { version });
    }

    pub(super) fn drop_spent(&mut self, scope: &Scope) {
        self.drop(&EdgeKey::new(SPENT, scope.tag()));
    }

    /// What was written before is to be looked through for its value.
    pub(super) fn redact(&mut self, scope: &Scope, key: &str) {
        self.put(entry_key(REDACT, scope, key), &());
    }

    /// That is done.
    pub(super) fn redacted(&mut self, scope: &Scope, key: &str) {
        self.drop(&entry_key(REDACT, scope, key));
    }

    pub(super) fn used(&mut self, scope: &Scope, key: &str, at: Timestamp) {
        self.put(entry_key(USED, scope, key), &UsedRow { at });
    }

    pub(super) fn data_key(&mut self, scope: &Scope, row: &KeyRow) {
        self.put(EdgeKey::new(DATA_KEY, scope.tag()), row);
    }

    pub(super) fn drop_data_key(&mut self, scope: &Scope) {
        self.drop(&EdgeKey::new(DATA_KEY, scope.tag()));
    }

    pub(super) fn check(&mut self, row: &CheckRow) {
        self.put(EdgeKey::new(CHECK, "master"), row);
    }

    pub(super) fn audit(&mut self, name: String, row: &AuditRow) {
        self.put(EdgeKey::new(AUDIT, name), row);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.add(|writes| writes.and(other.0));
    }

    fn put(&mut self, key: EdgeKey, row: &impl Serialize) {
        self.add(|writes| writes.edge(&key, row));
    }

    fn drop(&mut self, key: &EdgeKey) {
        self.add(|writes| writes.drop_edge(key));
    }

    fn tell(&mut self, event: Option<Event>) {
        self.add(|writes| event.into_iter().fold(writes, Writes::tell));
    }

    fn add(&mut self, more: impl FnOnce(Writes) -> Writes) {
        self.0 = more(std::mem::take(&mut self.0));
    }

    /// For the running store.
    pub(super) fn writes(self) -> Writes {
        self.0
    }

    /// For a storage that no store is running on.
    pub(super) fn batch(self) -> Result<Batch, StorageError> {
        self.0.batch()
    }
}

fn entry_key(kind: &'static str, scope: &Scope, key: &str) -> EdgeKey {
    EdgeKey::new(kind, format!("{}/{key}", scope.tag()))
}

/// All that is stored, but for the audit.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) check: Option<CheckRow>,
    pub(super) data_keys: BTreeMap<Scope, KeyRow>,
    pub(super) entries: BTreeMap<Scope, BTreeMap<String, Row>>,
    /// The highest versions of entries that are gone.
    pub(super) spent: BTreeMap<Scope, u64>,
    /// Entries whose record cannot even be read.
    pub(super) damaged: Vec<(Scope, String)>,
}

/// Reads all of it. Blocks.
pub(super) fn read(storage: &dyn Storage) -> Result<Stored, StorageError> {
    let mut stored = Stored::default();
    each::<CheckRow>(storage, CHECK, &mut |_, row| stored.check = row)?;
    each::<KeyRow>(storage, DATA_KEY, &mut |name, row| {
        if let (Some(scope), Some(row)) = (Scope::of_tag(name), row) {
            stored.data_keys.insert(scope, row);
        }
    })?;
    each::<SpentRow>(storage, SPENT, &mut |name, row| {
        if let (Some(scope), Some(row)) = (Scope::of_tag(name), row) {
            stored.spent.insert(scope, row.version);
        }
    })?;
    each::<Row>(storage, ENTRY, &mut |name, row| {
        let Some((scope, key)) = split(name) else {
            return;
        };
        match row {
            Some(mut row) => {
                row.entry.key = key.to_owned();
                let entries = stored.entries.entry(scope).or_default();
                entries.insert(key.to_owned(), row);
            }
            None => stored.damaged.push((scope, key.to_owned())),
        }
    })?;
    each::<UsedRow>(storage, USED, &mut |name, row| {
        let place = split(name).and_then(|(scope, key)| {
            let entries = stored.entries.get_mut(&scope)?;
            entries.get_mut(key)
        });
        if let (Some(found), Some(used)) = (place, row) {
            found.entry.last_used_at = Some(used.at);
        }
    })?;
    Ok(stored)
}

/// One entry, as it is stored now. Blocks.
pub(super) fn read_entry(
    storage: &dyn Storage,
    scope: &Scope,
    key: &str,
) -> Result<Option<Row>, StorageError> {
    let name = entry_key(ENTRY, scope, key).bytes();
    one(storage, &name)
}

/// Shows the entries of a scope, or of the service and all teams, whose keys begin so. Blocks.
pub(super) fn each_entry(
    storage: &dyn Storage,
    scope: Option<&Scope>,
    beginning: &str,
    visit: &mut dyn FnMut(Scope, Entry),
) -> Result<(), StorageError> {
    let all = EdgeKey::prefix(ENTRY);
    let start = match scope {
        Some(scope) => entry_key(ENTRY, scope, beginning).bytes(),
        None => all.clone(),
    };
    let end = after_prefix(&start);
    storage.scan(&start, &end, Order::Rising, &mut |key, value| {
        let name = String::from_utf8_lossy(&key[all.len()..]);
        let row = row::<Row>(storage, key, value);
        match split(&name) {
            None | Some((Scope::Aside(_), _)) => {}
            Some((scope, key)) if key.starts_with(beginning) => visit(scope, entry_of(key, row)),
            Some(_) => {}
        }
        ControlFlow::Continue(())
    })
}

/// One entry without its value, with when it was last used. Blocks.
pub(super) fn entry(
    storage: &dyn Storage,
    scope: &Scope,
    key: &str,
) -> Result<Option<Entry>, StorageError> {
    let name = entry_key(ENTRY, scope, key).bytes();
    let row = match one(storage, &name) {
        Ok(None) => return Ok(None),
        Ok(row) => row,
        Err(StorageError::Damaged { .. }) => None,
        Err(error) => return Err(error),
    };
    let mut entry = entry_of(key, row);
    entry.last_used_at = last_used(storage, scope, key)?;
    Ok(Some(entry))
}

/// When a reference to an entry was last expanded. Blocks.
pub(super) fn last_used(
    storage: &dyn Storage,
    scope: &Scope,
    key: &str,
) -> Result<Option<Timestamp>, StorageError> {
    let name = entry_key(USED, scope, key).bytes();
    let used: Option<UsedRow> = readable(storage, &name)?;
    Ok(used.map(|used| used.at))
}

/// What a record says of its entry; of one that cannot be read, that it is there.
fn entry_of(key: &str, row: Option<Row>) -> Entry {
    match row {
        Some(row) => Entry { key: key.to_owned(), ..row.entry },
        None => Entry::damaged(key),
    }
}

/// Entries whose values are still to be looked for in what was written before. Blocks.
pub(super) fn to_redact(storage: &dyn Storage) -> Result<Vec<(Scope, String)>, StorageError> {
    let mut marked = Vec::new();
    each::<()>(storage, REDACT, &mut |name, _| {
        marked.extend(split(name).map(|(scope, key)| (scope, key.to_owned())));
    })?;
    Ok(marked)
}

/// The keys of a scope's entries. Blocks.
pub(super) fn keys(storage: &dyn Storage, scope: &Scope) -> Result<Vec<String>, StorageError> {
    let prefix = entry_key(ENTRY, scope, "").bytes();
    let end = after_prefix(&prefix);
    let mut keys = Vec::new();
    storage.scan(&prefix, &end, Order::Rising, &mut |key, _| {
        keys.push(String::from_utf8_lossy(&key[prefix.len()..]).into_owned());
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

fn split(name: &str) -> Option<(Scope, &str)> {
    let (tag, key) = name.split_once('/')?;
    Some((Scope::of_tag(tag)?, key))
}

/// Shows each row of a kind with its name; none is one that cannot be read, and stays where it is.
fn each<T: DeserializeOwned>(
    storage: &dyn Storage,
    kind: &str,
    visit: &mut dyn FnMut(&str, Option<T>),
) -> Result<(), StorageError> {
    let prefix = EdgeKey::prefix(kind);
    let end = after_prefix(&prefix);
    storage.scan(&prefix, &end, Order::Rising, &mut |key, value| {
        let name = String::from_utf8_lossy(&key[prefix.len()..]);
        visit(&name, row(storage, key, value));
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {

    use std::collections::HashMap;

    use super::*;

    /// SC-101
    #[test]
    fn a_row_that_does_not_serialise_refuses_the_change() {
        let mut change = Change::default();
        change.redact(&Scope::System, "KEY");
        change.put(EdgeKey::new(ENTRY, "bad"), &HashMap::from([((1, 2), 3)]));

        assert!(matches!(change.batch(), Err(StorageError::Write(_))));
    }
}
