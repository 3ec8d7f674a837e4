//! The rows of memory: each version of an entry, and where to find it by its id.

use std::{collections::BTreeSet, ops::ControlFlow};

use hivewright_actors::{
    ids::{MemoryId, TaskId, TeamKey},
    live::event::{self, Event},
    storage::{Order, Storage, StorageError},
    store::{
        keys::{Beginning, key_of, prefix_of},
        reads::{Range, get, parse, scan},
        records::{Keyed, Record, Writes, decode},
        redact::{Owner, Texts},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    chain::{Chain, Change},
    entry::{Entry, Key},
};

pub(crate) const TEXTS: &[Texts] = &[Texts::of(
    Entry::KIND,
    Owner::At("/team/name"),
    &[
        "content",
        "supersede_reason",
        "sources",
        "provenance/ref",
        "provenance/urls",
        "reviewed/note",
        "ended/note",
    ],
)];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) team: TeamKey,
    pub(super) key: Key,
}

hivewright_actors::records! {
    Place: "edge\0memory_id", MemoryId;
}

impl Record for Entry {
    const KIND: &'static str = "edge\0memory";
    type Key = String;

    fn told(&self, _: &String) -> Option<Event> {
        Some(told(self, "stored"))
    }

    fn along(&self, _: &String, writes: Writes) -> Writes {
        let place = Place { team: self.team.clone(), key: self.key.clone() };
        writes.put_at(&self.id, &place)
    }
}

impl Keyed for Entry {
    fn key(&self) -> String {
        entry_key(&self.team, &self.key, self.version)
    }
}

fn entry_key(team: &TeamKey, key: &Key, version: u32) -> String {
    format!("{}{version:010}", chain_prefix(team, key))
}

/// No key holds a `|`, so the versions of one stand together and apart from those of any other.
fn chain_prefix(team: &TeamKey, key: &Key) -> String {
    format!("{team}/{key}|")
}

/// All versions of all keys of a team.
fn team_range(team: &TeamKey) -> Range<Entry> {
    Range::under(&Beginning(&format!("{team}/")))
}

/// What the keys of all versions of all teams begin with.
pub(crate) fn prefix() -> Vec<u8> {
    prefix_of(Entry::KIND, &())
}

/// The task by which a version came to be.
pub(crate) fn told_by(key: &[u8], value: &[u8]) -> Option<TaskId> {
    let entry: Entry = decode(key, value).ok()?;
    entry.provenance.task_id
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

pub(super) fn writes(change: &Change) -> Writes {
    change.removed.iter().fold(Writes::new().put_all(&change.put), |writes, entry| {
        writes.delete::<Entry>(&entry.key()).delete::<Place>(&entry.id).tell(told(entry, "removed"))
    })
}

pub(super) fn place(storage: &dyn Storage, id: &MemoryId) -> Result<Option<Place>, StorageError> {
    get(storage, id)
}

pub(super) fn entry(
    storage: &dyn Storage,
    team: &TeamKey,
    key: &Key,
    version: u32,
) -> Result<Option<Entry>, StorageError> {
    get(storage, &entry_key(team, key, version))
}

pub(super) fn chain(
    storage: &dyn Storage,
    team: &TeamKey,
    key: &Key,
) -> Result<Chain, StorageError> {
    let versions = Range::under(&Beginning(&chain_prefix(team, key)));
    Ok(Chain(scan(storage, versions)?))
}

/// All versions of all keys of a team, one after another.
pub(super) fn of_team(
    storage: &dyn Storage,
    team: &TeamKey,
    visit: &mut dyn FnMut(Entry),
) -> Result<(), StorageError> {
    team_range(team).for_each(storage, visit)
}

/// The teams that have anything here, by name.
pub(super) fn teams(storage: &dyn Storage) -> Result<BTreeSet<TeamKey>, StorageError> {
    let mut teams = BTreeSet::new();
    let mut range = Range::<Entry>::all();
    while let Some(first) = range.first_key(storage, Order::Rising)?
        && let Some(found) = parse::<Entry>(&first)
    {
        let name = found.split_once('/').map_or(&*found, |(team, _)| team);
        // On to the first row of another team.
        range = range.behind_all(&Beginning(&format!("{name}/")));
        teams.extend(TeamKey::parse(name));
    }
    Ok(teams)
}

/// The stored keys of all rows of a team.
pub(crate) fn keys(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    team_range(team).walk(storage, Order::Rising, &mut |key, entry| {
        keys.push(key.to_vec());
        keys.extend(entry.ok().map(|entry| key_of(Place::KIND, &entry.id)));
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}
