//! Rows: what the store holds of the vault. No value and no key is among it in the clear.

use std::{collections::BTreeMap, ops::ControlFlow};

use hivewright_actors::{
    clock::Timestamp,
    live::event::{Event, Kind},
    storage::{Batch, Order, Storage, StorageError},
    store::records::{EdgeKey, Writes, after_prefix, decode},
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
pub(super) struct Change {
    rows: Vec<(EdgeKey, Option<serde_json::Value>)>,
    told: Vec<Event>,
}

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
        self.told.extend(told(scope, key, "set"));
    }

    pub(super) fn drop_entry(&mut self, scope: &Scope, key: &str) {
        for kind in [ENTRY, USED, REDACT] {
            self.rows.push((entry_key(kind, scope, key), None));
        }
        self.told.extend(told(scope, key, "removed"));
    }

    /// No entry of the scope gets this version any more.
    pub(super) fn spent(&mut self, scope: &Scope, version: u64) {
        self.put(EdgeKey::new(SPENT, scope.tag()), &SpentRow { version });
    }

    pub(super) fn drop_spent(&mut self, scope: &Scope) {
        let key = EdgeKey::new(SPENT, scope.tag());
        self.rows.push((key, None));
    }

    /// What was written before is to be looked through for its value.
    pub(super) fn redact(&mut self, scope: &Scope, key: &str) {
        self.put(entry_key(REDACT, scope, key), &());
    }

    /// That is done.
    pub(super) fn redacted(&mut self, scope: &Scope, key: &str) {
        self.rows.push((entry_key(REDACT, scope, key), None));
    }

    pub(super) fn used(&mut self, scope: &Scope, key: &str, at: Timestamp) {
        self.put(entry_key(USED, scope, key), &UsedRow { at });
    }

    pub(super) fn data_key(&mut self, scope: &Scope, row: &KeyRow) {
        self.put(EdgeKey::new(DATA_KEY, scope.tag()), row);
    }

    pub(super) fn drop_data_key(&mut self, scope: &Scope) {
        let key = EdgeKey::new(DATA_KEY, scope.tag());
        self.rows.push((key, None));
    }

    pub(super) fn check(&mut self, row: &CheckRow) {
        self.put(EdgeKey::new(CHECK, "master"), row);
    }

    pub(super) fn audit(&mut self, name: String, row: &AuditRow) {
        self.put(EdgeKey::new(AUDIT, name), row);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.told.extend(other.told);
    }

    fn put(&mut self, key: EdgeKey, row: &impl Serialize) {
        // Nothing here has a key or value that JSON cannot hold.
        let row = serde_json::to_value(row).unwrap_or_default();
        self.rows.push((key, Some(row)));
    }

    /// For the running store.
    pub(super) fn writes(self) -> Writes {
        let rows = self.rows.into_iter();
        let writes = rows.fold(Writes::new(), |writes, (key, row)| match row {
            Some(row) => writes.edge(&key, &row),
            None => writes.drop_edge(&key),
        });
        self.told.into_iter().fold(writes, Writes::tell)
    }

    /// For a storage that no store is running on.
    pub(super) fn batch(self) -> Batch {
        let rows = self.rows.into_iter();
        let changes = rows.map(|(key, row)| (key.bytes(), row.map(|row| row.to_string().into())));
        Batch {
            changes: changes.collect(),
        }
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
    match storage.get(&name)? {
        Some(value) => decode(&name, &value).map(Some),
        None => Ok(None),
    }
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
        let row = value.and_then(|value| decode::<Row>(key, value));
        match split(&name) {
            None | Some((Scope::Aside(_), _)) => {}
            Some((scope, key)) if key.starts_with(beginning) => {
                visit(scope, entry_of(key, row.ok()))
            }
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
    let Some(value) = storage.get(&name)? else {
        return Ok(None);
    };
    let mut entry = entry_of(key, decode(&name, &value).ok());
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
    let value = storage.get(&name)?;
    let used = value.and_then(|value| decode::<UsedRow>(&name, &value).ok());
    Ok(used.map(|used| used.at))
}

/// What a record says of its entry; of one that cannot be read, that it is there.
fn entry_of(key: &str, row: Option<Row>) -> Entry {
    match row {
        Some(row) => Entry {
            key: key.to_owned(),
            ..row.entry
        },
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
        let row = value.and_then(|value| decode(key, value));
        if let Err(error) = &row {
            tracing::error!(%error, "a record of the vault cannot be read");
        }
        visit(&name, row.ok());
        ControlFlow::Continue(())
    })
}
