//! Rows: what the store holds of the vault. No value and no key is among it in the clear.

use std::{collections::BTreeMap, ops::ControlFlow};

use hivewright_actors::{
    clock::Timestamp,
    live::event::{Event, Kind},
    storage::{Order, Storage, StorageError},
    store::{
        keys::{Beginning, Key, KeyReader, KeyWriter, Parts},
        reads::{Range, parse, scan, scan_keyed},
        records::Record,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{entry::Row, scope::Scope, seal::Sealed};

hivewright_actors::records! {
    CheckRow: "edge\0vault-check", String;
    KeyRow: "edge\0vault-key", Scope;
    UsedRow: "edge\0vault-used", EntryKey;
    ToRedact: "edge\0vault-redact", EntryKey;
    RedactedRow: "edge\0vault-last-redaction", String;
    SpentRow: "edge\0vault-spent", Scope;
}

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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryKey(pub(super) Scope, pub(super) String);

impl EntryKey {
    pub(super) fn new(scope: &Scope, key: &str) -> Self {
        Self(scope.clone(), key.to_owned())
    }

    pub(super) fn text(&self) -> String {
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
pub(super) struct UsedRow {
    pub(super) at: Timestamp,
}

/// The mark of an entry whose value is to be looked for in what was written before: its version, which marks of former
/// programs lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ToRedact(pub(super) Option<u64>);

/// The last redaction: something was taken out of what was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RedactedRow {
    /// When it ended, or began.
    pub(super) at: Timestamp,
    /// It was begun, and nobody has seen its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_under_way: bool,
}

impl RedactedRow {
    /// A backup of this moment may hold what was taken out.
    pub(crate) fn is_behind(&self, backup: Timestamp) -> bool {
        self.is_under_way || backup <= self.at
    }
}

/// The highest version of all entries of a scope that are gone.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpentRow {
    pub(super) version: u64,
}

/// What whoever watches learns of an entry: that it is another, never what it is.
pub(super) fn told(EntryKey(scope, key): &EntryKey, action: &str) -> Option<Event> {
    let data = json!({ "scope": scope.to_string(), "key": key, "action": action });
    let event = Event::new(Kind::VaultChanged, data);
    match scope {
        Scope::Team(team) => Some(event.of_team(&team.name)),
        Scope::System => Some(event),
        Scope::Escrow(_) => None,
    }
}

/// All that is stored, but for the audit.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) check: Option<CheckRow>,
    pub(super) data_keys: BTreeMap<Scope, KeyRow>,
    pub(super) spent: Vec<(Scope, SpentRow)>,
    /// Of one whose record cannot even be read, only that it is there.
    pub(super) entries: Vec<(EntryKey, Option<Row>)>,
}

/// Reads all of it. Blocks.
pub(super) fn read(storage: &dyn Storage) -> Result<Stored, StorageError> {
    let mut stored = Stored {
        check: scan(storage, Range::all())?.pop(),
        data_keys: scan_keyed(storage, Range::all())?.into_iter().collect(),
        spent: scan_keyed(storage, Range::all())?,
        entries: Vec::new(),
    };
    let used: BTreeMap<EntryKey, UsedRow> =
        scan_keyed(storage, Range::all())?.into_iter().collect();
    Range::<Row>::all().walk(storage, Order::Rising, &mut |key, row| {
        if let Some(place) = parse::<Row>(key) {
            let row = row.ok().map(|mut row| {
                row.entry.key.clone_from(&place.1);
                row.entry.last_used_at = used.get(&place).map(|used| used.at);
                row
            });
            stored.entries.push((place, row));
        }
        ControlFlow::Continue(())
    })?;
    Ok(stored)
}

/// Entries whose values are still to be looked for in what was written before. Blocks.
pub(super) fn to_redact(
    storage: &dyn Storage,
) -> Result<BTreeMap<EntryKey, ToRedact>, StorageError> {
    let mut marked = BTreeMap::new();
    Range::<ToRedact>::all().walk(storage, Order::Rising, &mut |key, mark| {
        // One that is damaged counts all the same.
        let mark = mark.unwrap_or(ToRedact(None));
        marked.extend(parse::<ToRedact>(key).map(|entry| (entry, mark)));
        ControlFlow::Continue(())
    })?;
    Ok(marked)
}

/// The last redaction: older backups hold what it took out. Blocks.
pub(crate) fn last_redaction(storage: &dyn Storage) -> Result<Option<RedactedRow>, StorageError> {
    Ok(scan(storage, Range::all())?.pop())
}

/// The keys of a scope's entries. Blocks.
pub(crate) fn keys(storage: &dyn Storage, scope: &Scope) -> Result<Vec<String>, StorageError> {
    let of_scope = EntryKey::new(scope, "").text();
    let keys = Range::<Row>::under(&Beginning(&of_scope)).keys(storage)?;
    Ok(keys.iter().filter_map(|key| parse::<Row>(key)).map(|EntryKey(_, key)| key).collect())
}
