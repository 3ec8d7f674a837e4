//! Rows: what the store holds of the vault. No value and no key is among it in the clear.

use std::{collections::BTreeMap, ops::ControlFlow};

use hivewright_actors::{
    clock::Timestamp,
    live::event::{Event, Kind},
    storage::{Batch, Order, Storage, StorageError},
    store::{
        keys::{Beginning, Key, KeyReader, KeyWriter, Parts},
        reads::{Range, get, get_readable, parse, scan, scan_keyed},
        records::{Record, Writes},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    audit::AuditRow,
    entry::{Entry, Row},
    scope::Scope,
    seal::Sealed,
};

hivewright_actors::records! {
    CheckRow: "edge\0vault-check", String;
    KeyRow: "edge\0vault-key", Scope;
    UsedRow: "edge\0vault-used", EntryKey;
    ToRedact: "edge\0vault-redact", EntryKey;
    SpentRow: "edge\0vault-spent", Scope;
}

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

impl Parts for Scope {
    fn write(&self, key: &mut KeyWriter) {
        key.text(&self.tag());
    }
}

impl Key for Scope {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        Self::of_tag(key.text()?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryKey(Scope, String);

impl EntryKey {
    fn new(scope: &Scope, key: &str) -> Self {
        Self(scope.clone(), key.to_owned())
    }

    fn text(&self) -> String {
        format!("{}/{}", self.0.tag(), self.1)
    }
}

impl Parts for EntryKey {
    fn write(&self, key: &mut KeyWriter) {
        key.text(&self.text());
    }
}

impl Key for EntryKey {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        let (tag, key) = key.text()?.split_once('/')?;
        Some(Self(Scope::of_tag(tag)?, key.to_owned()))
    }
}

impl Record for Row {
    const KIND: &'static str = "edge\0vault";
    type Key = EntryKey;

    fn told(&self, key: &EntryKey) -> Option<Event> {
        told(key, "set")
    }
}

/// When a reference to an entry was last expanded.
#[derive(Debug, Serialize, Deserialize)]
struct UsedRow {
    at: Timestamp,
}

/// The mark of an entry whose value is to be looked for in what was written before.
#[derive(Debug, Serialize, Deserialize)]
struct ToRedact;

/// The highest version of all entries of a scope that are gone.
#[derive(Debug, Serialize, Deserialize)]
struct SpentRow {
    version: u64,
}

/// Changes that become durable together, for the running store or for a storage at rest.
#[derive(Debug, Default)]
pub(super) struct Change(Writes);

/// What whoever watches learns of an entry: that it is another, never what it is.
fn told(EntryKey(scope, key): &EntryKey, action: &str) -> Option<Event> {
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
        self.put(&EntryKey::new(scope, key), row);
    }

    pub(super) fn drop_entry(&mut self, scope: &Scope, key: &str) {
        let key = EntryKey::new(scope, key);
        self.add(|writes| {
            let writes = writes.delete::<Row>(&key).delete::<UsedRow>(&key);
            writes.delete::<ToRedact>(&key).tell_all(told(&key, "removed"))
        });
    }

    /// No entry of the scope gets this version any more.
    pub(super) fn spent(&mut self, scope: &Scope, version: u64) {
        self.put(scope, &SpentRow { version });
    }

    pub(super) fn drop_spent(&mut self, scope: &Scope) {
        self.add(|writes| writes.delete::<SpentRow>(scope));
    }

    /// What was written before is to be looked through for its value.
    pub(super) fn redact(&mut self, scope: &Scope, key: &str) {
        self.put(&EntryKey::new(scope, key), &ToRedact);
    }

    /// That is done.
    pub(super) fn redacted(&mut self, scope: &Scope, key: &str) {
        self.add(|writes| writes.delete::<ToRedact>(&EntryKey::new(scope, key)));
    }

    pub(super) fn used(&mut self, scope: &Scope, key: &str, at: Timestamp) {
        self.put(&EntryKey::new(scope, key), &UsedRow { at });
    }

    pub(super) fn data_key(&mut self, scope: &Scope, row: &KeyRow) {
        self.put(scope, row);
    }

    pub(super) fn drop_data_key(&mut self, scope: &Scope) {
        self.add(|writes| writes.delete::<KeyRow>(scope));
    }

    pub(super) fn check(&mut self, row: &CheckRow) {
        self.put(&"master".to_owned(), row);
    }

    pub(super) fn audit(&mut self, name: String, row: &AuditRow) {
        self.put(&name, row);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.add(|writes| writes.and(other.0));
    }

    fn put<R: Record + Serialize>(&mut self, key: &R::Key, row: &R) {
        self.add(|writes| writes.put_at(key, row));
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
    let mut stored = Stored {
        check: scan(storage, Range::all())?.pop(),
        data_keys: scan_keyed(storage, Range::all())?.into_iter().collect(),
        ..Stored::default()
    };
    for (scope, SpentRow { version }) in scan_keyed(storage, Range::all())? {
        stored.spent.insert(scope, version);
    }
    Range::<Row>::all().walk(storage, Order::Rising, &mut |key, row| {
        match (parse::<Row>(key), row) {
            (Some(EntryKey(scope, key)), Ok(mut row)) => {
                row.entry.key = key.clone();
                stored.entries.entry(scope).or_default().insert(key, row);
            }
            (Some(EntryKey(scope, key)), Err(_)) => stored.damaged.push((scope, key)),
            (None, _) => {}
        }
        ControlFlow::Continue(())
    })?;
    for (EntryKey(scope, key), UsedRow { at }) in scan_keyed(storage, Range::all())? {
        let entries = stored.entries.get_mut(&scope);
        if let Some(found) = entries.and_then(|entries| entries.get_mut(&key)) {
            found.entry.last_used_at = Some(at);
        }
    }
    Ok(stored)
}

/// One entry, as it is stored now. Blocks.
pub(super) fn read_entry(
    storage: &dyn Storage,
    scope: &Scope,
    key: &str,
) -> Result<Option<Row>, StorageError> {
    get(storage, &EntryKey::new(scope, key))
}

/// Shows the entries of a scope, or of the service and all teams, whose keys begin so. Blocks.
pub(super) fn each_entry(
    storage: &dyn Storage,
    scope: Option<&Scope>,
    beginning: &str,
    visit: &mut dyn FnMut(Scope, Entry),
) -> Result<(), StorageError> {
    let range = match scope {
        Some(scope) => Range::<Row>::under(&Beginning(&EntryKey::new(scope, beginning).text())),
        None => Range::all(),
    };
    range.walk(storage, Order::Rising, &mut |key, row| {
        match parse::<Row>(key) {
            None | Some(EntryKey(Scope::Aside(_), _)) => {}
            Some(EntryKey(scope, key)) if key.starts_with(beginning) => {
                visit(scope, entry_of(&key, row.ok()));
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
    let row = match get(storage, &EntryKey::new(scope, key)) {
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
    let used = get_readable::<UsedRow>(storage, &EntryKey::new(scope, key))?;
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
    let keys = Range::<ToRedact>::all().keys(storage)?;
    let marked = keys.iter().filter_map(|key| parse::<ToRedact>(key));
    Ok(marked.map(|EntryKey(scope, key)| (scope, key)).collect())
}

/// The keys of a scope's entries. Blocks.
pub(crate) fn keys(storage: &dyn Storage, scope: &Scope) -> Result<Vec<String>, StorageError> {
    let of_scope = EntryKey::new(scope, "").text();
    let keys = Range::<Row>::under(&Beginning(&of_scope)).keys(storage)?;
    Ok(keys.iter().filter_map(|key| parse::<Row>(key)).map(|EntryKey(_, key)| key).collect())
}

#[cfg(test)]
mod tests {

    use std::collections::HashMap;

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
        change.redact(&Scope::System, "KEY");
        change.put(&"bad".to_owned(), &Odd(HashMap::from([((1, 2), 3)])));

        assert!(matches!(change.batch(), Err(StorageError::Write(_))));
    }
}
