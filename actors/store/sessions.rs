//! Sessions: the journals that there are, and what stands in them. All of these block.

use std::ops::ControlFlow;

use serde::Deserialize;

use super::{
    damage::row,
    records::{self, journal_prefix, number_at_end},
    scan_prefix,
};
use crate::{
    clock::Timestamp,
    history::HistoryEvent,
    storage::{Order, Storage, StorageError},
    task::Lane,
};

/// A session, and when it was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its lane.
    pub lane: Lane,
    /// Which life of the team.
    pub generation: u32,
    /// When its first event happened.
    pub created_at: Timestamp,
    /// When its last one did.
    pub updated_at: Timestamp,
    /// How many there are.
    pub events: u64,
}

/// As much of an event as is needed here.
#[derive(Deserialize)]
struct Place {
    seq: u64,
    timestamp: Timestamp,
}

/// All sessions, of one team if it is named, until the visitor has enough.
pub fn sessions(
    storage: &dyn Storage,
    team: Option<&str>,
    visit: &mut dyn FnMut(Session) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let all = records::prefix(&["hist"]);
    let (mut start, end) = match team {
        // Later lives of a team stand behind it, under `team~2`.
        Some(team) => (
            records::join(&["hist", team]),
            records::after_prefix(&records::join(&["hist", &format!("{team}~")])),
        ),
        None => (all.clone(), records::after_prefix(&all)),
    };
    // Journals are jumped over: only their first and last records are read.
    while let Some((lane, generation)) = first_lane(storage, &start, &end)? {
        let prefix = journal_prefix(&lane, generation);
        start = records::after_prefix(&prefix);
        if team.is_some_and(|team| lane.team.as_str() != team) {
            continue;
        }
        if let Some(session) = session(storage, &lane, generation)?
            && visit(session).is_break()
        {
            break;
        }
    }
    Ok(())
}

fn first_lane(
    storage: &dyn Storage,
    start: &[u8],
    end: &[u8],
) -> Result<Option<(Lane, u32)>, StorageError> {
    let mut found = None;
    storage.scan(start, end, Order::Rising, &mut |key, _| {
        found = lane_of(key);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The lane that the key of a journal's record names.
fn lane_of(key: &[u8]) -> Option<(Lane, u32)> {
    let name = key.get(records::prefix(&["hist"]).len()..key.len().checked_sub(9)?)?;
    let (team, topic) = std::str::from_utf8(name).ok()?.split_once('\0')?;
    Lane::of_session(&format!("{team}:{topic}"))
}

/// One session, if it has a journal.
pub fn session(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Option<Session>, StorageError> {
    let end = |order| -> Result<Option<Vec<Place>>, StorageError> {
        let mut found = None;
        let prefix = journal_prefix(lane, generation);
        scan_prefix(storage, &prefix, order, &mut |key, value| {
            found = row(storage, key, value);
            ControlFlow::Break(())
        })?;
        Ok(found)
    };
    let (first, last) = (end(Order::Rising)?, end(Order::Falling)?);
    let first = first.as_ref().and_then(|places| places.first());
    let last = last.as_ref().and_then(|places| places.last());
    Ok(first.zip(last).map(|(first, last)| Session {
        lane: lane.clone(),
        generation,
        created_at: first.timestamp,
        updated_at: last.timestamp,
        events: last.seq,
    }))
}

/// The events of a session after one number and before another, in pieces as they were stored, until
/// the visitor has enough. A piece that cannot be read is left out.
pub fn journal(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    (after, before): (u64, u64),
    order: Order,
    visit: &mut dyn FnMut(Vec<HistoryEvent>) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let prefix = journal_prefix(lane, generation);
    let first = first_piece(storage, lane, generation, after)?;
    let start = records::journal_key(lane, generation, first);
    let end = match before {
        u64::MAX => records::after_prefix(&prefix),
        before => records::journal_key(lane, generation, before),
    };
    if start >= end {
        return Ok(());
    }
    storage.scan(&start, &end, order, &mut |key, value| {
        let Some(mut events) = row::<Vec<HistoryEvent>>(storage, key, value) else {
            return ControlFlow::Continue(());
        };
        events.retain(|event| after < event.seq && event.seq < before);
        visit(events)
    })
}

/// Where the piece begins that holds the event after a number.
fn first_piece(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    after: u64,
) -> Result<u64, StorageError> {
    let mut first = 0;
    let start = journal_prefix(lane, generation);
    let end = records::journal_key(lane, generation, after.saturating_add(1));
    storage.scan(&start, &end, Order::Falling, &mut |key, _| {
        first = number_at_end(key).unwrap_or(0);
        ControlFlow::Break(())
    })?;
    Ok(first)
}
