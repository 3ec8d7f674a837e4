//! Sessions: the journals that there are, and what stands in them. All of these block.

use std::{collections::HashSet, ops::ControlFlow};

use serde::Deserialize;

use super::{
    query::{SessionPage, SessionQuery, SessionWindow},
    records::{Branch, Piece},
};
use crate::{
    clock::Timestamp,
    history::HistoryEvent,
    ids::TurnId,
    live::turns::TurnPlace,
    order::Part,
    storage::{Order, Storage, StorageError},
    store::reads::{Range, contains, first, get, newest, parse},
    task::{Lane, Task, records::LaneKey},
};

/// A session, and when it was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub lane: Lane,
    pub generation: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub events: u64,
}

impl Session {
    fn is_wanted(&self, wanted: &SessionQuery) -> bool {
        // Taken apart, so that a new field which nothing compares is an error.
        let SessionQuery { teams, generation, topic, since } = wanted;
        teams.as_ref().is_none_or(|teams| teams.contains(&self.lane.team))
            && generation.is_none_or(|generation| self.generation == generation)
            && (topic.is_none() || self.lane.topic == *topic)
            && self.updated_at >= *since
    }
}

/// As much of a piece as is needed here.
#[derive(Deserialize)]
#[serde(transparent)]
struct Places(Vec<Place>);

#[derive(Deserialize)]
struct Place {
    seq: u64,
    turn: TurnId,
    timestamp: Timestamp,
}

crate::records! {
    Places: Piece::KIND, (LaneKey, u64);
}

/// All sessions, until the visitor has enough.
pub fn sessions(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Session) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let mut range: Range<Piece<'_>> = Range::all();
    // Journals are jumped over: only their first and last records are read.
    while let Some(first) = range.first_key(storage, Order::Rising)?
        && let Some((lane, _)) = parse::<Piece<'_>>(&first)
    {
        range = range.behind_all(&(&lane,));
        if let Some(session) = session(storage, &lane)?
            && visit(session).is_break()
        {
            break;
        }
    }
    Ok(())
}

/// The wanted part of the list of sessions.
pub fn listed(
    storage: &dyn Storage,
    wanted: &SessionQuery,
    window: &SessionWindow,
) -> Result<SessionPage, StorageError> {
    let mut page = Part::default();
    let mut see = |session: Session| {
        if session.is_wanted(wanted) {
            page.total += 1;
            let place = (session.updated_at, session.lane.session_id(session.generation));
            page.places.extend(Some(place).filter(|place| window.reaches(place)));
        }
    };
    let Some(tiers) = storage.tiers() else {
        sessions(storage, &mut |session| {
            see(session);
            ControlFlow::Continue(())
        })?;
        return Ok(page.within(window));
    };
    // In this order: what moves meanwhile is found in both, and never in none.
    let (start, end) = Range::<Piece<'_>>::all().bounds();
    let mut pending = HashSet::new();
    tiers.pending(&start, &end, &mut |key, _| {
        pending.extend(parse::<Piece<'_>>(key).map(|(lane, _)| lane));
    });
    for lane in &pending {
        session(storage, lane)?.into_iter().for_each(&mut see);
    }
    let known = pending.iter().map(LaneKey::session_id).collect();
    page.joined(window, |window| tiers.lists().sessions(wanted, window, &known))
}

/// When a session was used whose last piece this is; none if it cannot be read.
pub fn used_at(piece: &[u8]) -> Option<Timestamp> {
    let Places(places) = serde_json::from_slice(piece).ok()?;
    places.last().map(|place| place.timestamp)
}

pub fn session(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<Session>, StorageError> {
    let range = Range::<Places>::under(&(lane,));
    let mut first = None;
    range.each(storage, Order::Rising, &mut |places| {
        first = Some(places);
        ControlFlow::Break(())
    })?;
    let last = newest(storage, range, 1)?.pop();
    let first = first.as_ref().and_then(|Places(places)| places.first());
    let last = last.as_ref().and_then(|Places(places)| places.last());
    Ok(first.zip(last).map(|(first, last)| Session {
        lane: lane.lane.clone(),
        generation: lane.generation,
        created_at: first.timestamp,
        updated_at: last.timestamp,
        events: last.seq,
    }))
}

/// The task of a turn that runs in a session and has nothing in its journal yet: the leased row says what
/// it began with. With it the number of the session's last event; 0 if there is none.
///
/// To be asked after the journal was read: what was not in it then is here, or has come to it since.
pub fn begun(
    storage: &dyn Storage,
    lane: &LaneKey,
    running: &TurnPlace,
) -> Result<Option<(Task, u64)>, StorageError> {
    let newest = first::<Places>(storage, Range::under(&(lane,)), Order::Falling)?;
    let last = newest.and_then(|Places(mut places)| places.pop());
    if last.as_ref().is_some_and(|last| last.turn == running.turn) {
        return Ok(None);
    }
    // It may be over.
    let task = get::<Task>(storage, &running.task)?;
    let seq = match last {
        Some(last) => last.seq,
        None => Branch::last_shared(storage, lane)?,
    };
    Ok(task.filter(|task| task.lease.is_some()).map(|task| (task, seq)))
}

/// The events of a session after one number and before another, in pieces as they were stored, until
/// the visitor has enough. A piece that cannot be read is left out.
pub fn journal(
    storage: &dyn Storage,
    lane: &LaneKey,
    (after, before): (u64, u64),
    order: Order,
    visit: &mut dyn FnMut(Vec<HistoryEvent>) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    // Whoever goes on mostly does so behind a piece.
    let next = after.saturating_add(1);
    let begins = contains::<Piece<'_>>(storage, &(lane.clone(), next)).unwrap_or_default();
    let first = if begins { next } else { first_piece(storage, lane, after)? };
    let range = Range::<Piece<'_>>::under(&(lane,)).since(&(lane, first));
    let range = match before {
        u64::MAX => range,
        before => range.until(&(lane, before)),
    };
    range.each(storage, order, &mut |Piece(events)| {
        let mut events = events.into_owned();
        events.retain(|event| after < event.seq && event.seq < before);
        visit(events)
    })
}

/// Where the first piece begins that was written at a moment or later; none if there is none. Pieces are in the order of
/// time as far as the clock is, so that this takes few reads, however long the journal is.
pub fn piece_since(
    storage: &dyn Storage,
    lane: &LaneKey,
    moment: Timestamp,
) -> Result<Option<u64>, StorageError> {
    let piece_at = |seq: u64| -> Result<Option<(u64, Timestamp)>, StorageError> {
        let range = Range::<Places>::under(&(lane,)).since(&(lane, seq));
        let piece = first(storage, range, Order::Rising)?;
        let begin = piece.as_ref().and_then(|Places(places)| places.first());
        Ok(begin.map(|begin| (begin.seq, begin.timestamp)))
    };
    let last = session(storage, lane)?.map_or(0, |session| session.events);
    // Pieces before `low` are older; from `high` on none is.
    let (mut low, mut high) = (0, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match piece_at(middle)? {
            Some((begin, at)) if at < moment => low = begin + 1,
            _ => high = middle,
        }
    }
    Ok(piece_at(low)?.map(|(begin, _)| begin))
}

/// Where the piece begins that holds the event after a number.
fn first_piece(storage: &dyn Storage, lane: &LaneKey, after: u64) -> Result<u64, StorageError> {
    let range = Range::<Piece<'_>>::under(&(lane,)).until(&(lane, after.saturating_add(1)));
    let key = range.first_key(storage, Order::Falling)?;
    Ok(key.and_then(|key| parse::<Piece<'_>>(&key)).map_or(0, |(_, first)| first))
}
