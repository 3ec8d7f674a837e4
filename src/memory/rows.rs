//! The rows of memory: each version of an entry, and where to find it by its id.

use std::{collections::BTreeSet, ops::ControlFlow};

use hivewright_actors::{
    ids::{MemoryId, TaskId, TeamKey},
    live::event::{self, Event},
    storage::{Order, Storage, StorageError},
    store::{
        damage::{one, row},
        records::{EdgeKey, Writes, after_prefix, decode},
        redact::{Owner, Texts},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    chain::{Chain, Change},
    entry::{Entry, Key},
};

/// Where entries hold words.
pub(crate) const TEXTS: &[Texts] = &[Texts {
    kind: "edge\0memory",
    owner: Owner::At("/team/name"),
    fields: &["content", "supersede_reason", "sources", "reviewed/note", "ended/note"],
    names: &[],
}];

const ENTRIES: &str = "memory";
const PLACES: &str = "memory_id";

/// Where a version is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) team: TeamKey,
    pub(super) key: Key,
}

/// No key holds a `|`, so the versions of one stand together and apart from those of any other.
fn entry_key(team: &TeamKey, key: &Key, version: u32) -> EdgeKey {
    EdgeKey::new(ENTRIES, format!("{team}/{key}|{version:010}"))
}

fn chain_prefix(team: &TeamKey, key: &Key) -> Vec<u8> {
    EdgeKey::new(ENTRIES, format!("{team}/{key}|")).bytes()
}

fn team_prefix(team: &TeamKey) -> Vec<u8> {
    EdgeKey::new(ENTRIES, format!("{team}/")).bytes()
}

fn place_key(id: &MemoryId) -> EdgeKey {
    EdgeKey::new(PLACES, id.as_str())
}

/// What the keys of all versions of all teams begin with.
pub(crate) fn prefix() -> Vec<u8> {
    EdgeKey::prefix(ENTRIES)
}

/// The task by which a version came to be.
pub(crate) fn told_by(key: &[u8], value: &[u8]) -> Option<TaskId> {
    let entry: Entry = decode(key, value).ok()?;
    entry.provenance.task_id
}

/// A version as it is, for a storage that no store is running on.
pub(crate) fn put(entry: &Entry) -> Writes {
    let place = Place { team: entry.team.clone(), key: entry.key.clone() };
    Writes::new()
        .edge(&entry_key(&entry.team, &entry.key, entry.version), entry)
        .edge(&place_key(&entry.id), &place)
        .tell(told(entry, "stored"))
}

/// What whoever watches learns of a version: not what it says.
fn told(entry: &Entry, action: &str) -> Event {
    let data = json!({
        "id": entry.id,
        "key": entry.key.to_string(),
        "type": entry.kind,
        "review": entry.review,
        "active": entry.active,
        "action": action,
    });
    Event::new(event::Kind::MemoryChanged, data).of_team(&entry.team.name)
}

/// A change as one commit.
pub(super) fn writes(change: &Change) -> Writes {
    let mut writes = Writes::new();
    for entry in &change.put {
        writes = writes.and(put(entry));
    }
    for entry in &change.removed {
        writes = writes
            .drop_edge(&entry_key(&entry.team, &entry.key, entry.version))
            .drop_edge(&place_key(&entry.id))
            .tell(told(entry, "removed"));
    }
    writes
}

/// Where a version is found.
pub(super) fn place(storage: &dyn Storage, id: &MemoryId) -> Result<Option<Place>, StorageError> {
    one(storage, &place_key(id).bytes())
}

/// One version.
pub(super) fn entry(
    storage: &dyn Storage,
    team: &TeamKey,
    key: &Key,
    version: u32,
) -> Result<Option<Entry>, StorageError> {
    one(storage, &entry_key(team, key, version).bytes())
}

/// All versions of a key.
pub(super) fn chain(
    storage: &dyn Storage,
    team: &TeamKey,
    key: &Key,
) -> Result<Chain, StorageError> {
    let mut versions = Vec::new();
    each(storage, &chain_prefix(team, key), &mut |entry| {
        versions.push(entry);
    })?;
    Ok(Chain(versions))
}

/// All versions of all keys of a team, one after another.
pub(super) fn of_team(
    storage: &dyn Storage,
    team: &TeamKey,
    visit: &mut dyn FnMut(Entry),
) -> Result<(), StorageError> {
    each(storage, &team_prefix(team), visit)
}

/// A damaged row is left out and left alone: the others are no worse for it.
fn each(
    storage: &dyn Storage,
    prefix: &[u8],
    visit: &mut dyn FnMut(Entry),
) -> Result<(), StorageError> {
    let end = after_prefix(prefix);
    storage.scan(prefix, &end, Order::Rising, &mut |key, value| {
        if let Some(entry) = row(storage, key, value) {
            visit(entry);
        }
        ControlFlow::Continue(())
    })
}

/// The teams that have anything here, by name.
pub(super) fn teams(storage: &dyn Storage) -> Result<BTreeSet<TeamKey>, StorageError> {
    let mut teams = BTreeSet::new();
    let mut start = EdgeKey::prefix(ENTRIES);
    let (skipped, end) = (start.len(), after_prefix(&start));
    loop {
        let mut found = None;
        storage.scan(&start, &end, Order::Rising, &mut |key, _| {
            found = Some(key[skipped..].to_vec());
            ControlFlow::Break(())
        })?;
        let Some(found) = found else {
            return Ok(teams);
        };
        let name = String::from_utf8_lossy(&found);
        let name = name.split_once('/').map_or(&*name, |(team, _)| team);
        // On to the first row of another team.
        start.truncate(skipped);
        start.extend_from_slice(name.as_bytes());
        start.push(b'/' + 1);
        let team = name.rsplit_once('~').and_then(|(name, generation)| {
            Some(TeamKey { name: name.into(), generation: generation.parse().ok()? })
        });
        teams.extend(team);
    }
}

/// The keys of all rows of a team.
pub(super) fn keys(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    let prefix = team_prefix(team);
    let end = after_prefix(&prefix);
    storage.scan(&prefix, &end, Order::Rising, &mut |key, value| {
        keys.push(key.to_vec());
        let entry = row::<Entry>(storage, key, value);
        keys.extend(entry.map(|entry| place_key(&entry.id).bytes()));
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}
