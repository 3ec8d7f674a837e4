//! Turns in one value: a task, and the journal that tells all of its turn.
//!
//! What was asked and answered stands in both, with the ids of both, so together they take half of what they take apart. The
//! journal's row holds them (`packing.rs`), the task's row says which one that is. Whoever changes or removes one of them
//! gives the other a value of its own first.

use std::collections::{BTreeMap, HashMap};

use hivewright_actors::{
    ids::TaskId,
    journal::records::Piece,
    store::{
        keys::{key_of, prefix_of},
        records::Record,
    },
    task::records::FinishedTask,
};
use rusqlite::{Connection, params};
use serde::Deserialize;

use super::{
    Taken,
    columns::Held,
    keys::Keys,
    packing::{Packer, Unpacker},
};

/// A record: its key, and its value.
pub(super) type Stored<'a> = (&'a [u8], &'a [u8]);

/// The place of a record in a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role<'a> {
    /// It takes this task into its row.
    Host(Stored<'a>),
    /// The same of the task under this key, if the archive has it: in a store that is built anew all tasks come first.
    LateHost(Vec<u8>),
    /// It is put with its host.
    Guest,
}

/// The turns that are whole among records, by the keys of both.
pub(super) fn pair<'a>(
    records: impl Iterator<Item = (&'a [u8], &'a Taken<'a>)> + Clone,
) -> HashMap<&'a [u8], Role<'a>> {
    let of_kind = |kind| {
        let prefix = prefix_of(kind, &());
        records.clone().filter_map(move |(key, taken)| match taken {
            Taken::Value(value) if key.starts_with(&prefix) => Some((key, *value)),
            _ => None,
        })
    };
    let tasks: BTreeMap<&[u8], &[u8]> = of_kind(FinishedTask::KIND).collect();
    let mut roles = HashMap::new();
    for (key, value) in of_kind(Piece::KIND) {
        let Some(task_key) = task_of(value) else { continue };
        match tasks.get_key_value(&*task_key) {
            None => drop(roles.insert(key, Role::LateHost(task_key))),
            Some((&task_key, &task)) if roles.insert(task_key, Role::Guest).is_none() => {
                roles.insert(key, Role::Host((task_key, task)));
            }
            // A former try of the same turn.
            Some(_) => {}
        }
    }
    roles
}

/// The stored key of the one task whose turn begins with a piece of a journal.
fn task_of(piece: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(default)]
        task_ids: Vec<TaskId>,
    }
    // The rest of a list may be long.
    let events = serde_json::Deserializer::from_slice(piece.strip_prefix(b"[")?);
    let first: Event = events.into_iter().next()?.ok()?;
    match &*first.task_ids {
        [task] => Some(key_of(FinishedTask::KIND, task)),
        _ => None,
    }
}

/// The number of a row of the journal, by the rest of its key.
pub(super) fn row_of(connection: &Connection, rest: &[u8]) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached("SELECT rowid FROM hist WHERE key = ?1")?;
    select.query_row(params![rest], |row| row.get(0))
}

/// A record is about to change that may share its value: the other one gets a value of its own.
pub(super) fn part(
    connection: &Connection,
    keys: Keys,
    (packer, unpacker): (&mut Packer, &mut Unpacker),
    key: &[u8],
    held: &Held,
) -> rusqlite::Result<()> {
    let row = held.row(key);
    let Some(joined) = unpacker.joined(row, &held.packed) else { return Ok(()) };
    let rest = |kind: &str, key: &[u8]| key.get(kind.len() + 1..).unwrap_or_default().to_vec();
    let host = rest(Piece::KIND, row);
    if row == key {
        let (guest, packed) = (&joined.guest_key, packer.pack(&joined.guest_key, &joined.guest));
        let mut update = connection.prepare_cached(
            "UPDATE done SET value = ?2, piece = NULL
            WHERE key = ?1 AND piece = (SELECT rowid FROM hist WHERE key = ?3)",
        )?;
        let guest = rest(FinishedTask::KIND, guest);
        let guest = keys.stored(FinishedTask::KIND, &guest);
        update.execute(params![guest, packed, host]).map(drop)
    } else if joined.guest_key == key {
        let packed = packer.pack(row, &joined.host);
        let mut update = connection.prepare_cached("UPDATE hist SET value = ?2 WHERE key = ?1")?;
        update.execute(params![host, packed]).map(drop)
    } else {
        Ok(())
    }
}
