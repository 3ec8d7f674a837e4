//! The store in two tiers: sled for what a turn touches, SQLite for what is over.
//!
//! Everything is written to sled. What is over moves on in batches (`actors/archivist.rs`): SQLite takes it in, durably, then
//! sled lets it go. A reader looks into sled first: a record is in one of the two at every moment, and where it is in
//! both, sled's is the newer.

use std::{
    collections::HashSet,
    io,
    ops::ControlFlow,
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use hivewright_actors::{
    archive::Archive,
    ids::TaskId,
    search::{Entry, Hit, Search, SearchPage},
    storage::{
        Archived, Batch, DamageReports, KeyValue, Order, Storage, StorageError, Tiers, Visit,
    },
    store::{keys::after_prefix, reads::report},
    task::query::{TaskPage, TaskQuery, TaskWindow},
};

use super::{
    history::{Found, History, Match, marking::Marker},
    open::OpenError,
    sled::SledStorage,
};
use crate::settings::config::Durability;

/// A batch that moves holds at most so many records …
const MOVED_RECORDS: usize = 2_000;
/// … or this many bytes.
const MOVED_BYTES: usize = 4 << 20;
/// A scan reads so many records of each tier first, then ever more, up to so many.
const FIRST_CHUNK: usize = 8;
const LARGEST_CHUNK: usize = 512;

#[derive(Debug)]
pub struct TieredStorage {
    pub(super) hot: SledStorage,
    pub(super) cold: History,
    /// The kind that moves first in the next batch: each in its turn, however much is written of others.
    first: AtomicUsize,
    /// Held while records move, and while archived ones are removed: one that is removed must not move at that moment.
    moving: Mutex<()>,
}

impl TieredStorage {
    /// Opens both tiers of a store that was found fit to use.
    pub(super) fn attach(store: &Path, durability: Durability) -> Result<Self, OpenError> {
        let hot = SledStorage::attach(store, durability);
        let hot = hot.map_err(|error| OpenError::of_disk(store, error))?;
        let unusable = |reason| OpenError::Unusable { path: store.to_path_buf(), reason };
        let cold = match hot.archive() {
            // Of a former version, which had none.
            None => History::absent(),
            Some(expected) => {
                let (cold, found) = History::open(store).map_err(unusable)?;
                if found.store != expected.store {
                    return Err(unusable("its `history.db` is of another store".to_owned()));
                }
                if found.number < expected.number {
                    return Err(unusable(format!(
                        "its `history.db` is older than the store: transactions {} to {} are missing",
                        found.number + 1,
                        expected.number
                    )));
                }
                cold
            }
        };
        Ok(Self { hot, cold, first: AtomicUsize::new(0), moving: Mutex::default() })
    }

    pub fn schema(&self) -> u16 {
        self.hot.schema()
    }

    /// Notes that nothing is under way, at the end of a service: the next start is the faster for it. Blocks.
    pub fn rest(&self) -> io::Result<()> {
        self.hot.rest()
    }

    /// How many records there are. Counts them.
    pub fn records(&self) -> u64 {
        self.hot.records() + self.cold.records()
    }

    pub(super) fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the hot tier holds of the archived kinds, as much as moves at once.
    fn next(&self) -> Result<Vec<KeyValue>, StorageError> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let kinds = self.cold.prefixes().count().max(1);
        let first = self.first.fetch_add(1, Ordering::Relaxed) % kinds;
        for prefix in self.cold.prefixes().cycle().skip(first).take(kinds) {
            self.hot.scan(prefix, &after_prefix(prefix), Order::Rising, &mut |key, value| {
                // A damaged one stays where it is, and whoever reads it says so.
                if let Ok(value) = value {
                    bytes += key.len() + value.len();
                    records.push((key.to_vec(), value.to_vec()));
                }
                if records.len() < MOVED_RECORDS && bytes < MOVED_BYTES {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            if records.len() >= MOVED_RECORDS || bytes >= MOVED_BYTES {
                break;
            }
        }
        Ok(records)
    }
}

impl Archive for TieredStorage {
    fn take_next(&self) -> Result<Option<Archived>, StorageError> {
        let _moving = self.moving();
        let records = self.next()?;
        if records.is_empty() {
            return Ok(None);
        }
        let number = self.cold.take(&records)?;
        Ok(Some(Archived { number, records }))
    }

    fn search(&self, search: &Search) -> Result<SearchPage, StorageError> {
        let (mut matches, total) = self.cold.search(search)?;
        let goes_on = matches.len() > search.most;
        matches.truncate(search.most);
        let next = matches.last().map(|last| last.place).filter(|_| goes_on);
        let marker = Marker::new(&search.query)?;
        let mut hits = Vec::with_capacity(matches.len());
        for Match { key, .. } in matches {
            // As it is now: it may have been changed, or removed, since the archive was asked.
            let value = match self.get(&key) {
                Err(error @ StorageError::Damaged { .. }) => {
                    report(self, &key, &error);
                    continue;
                }
                value => value?,
            };
            let Some(entry) = value.and_then(|value| self.cold.entry(&key, &value)) else {
                continue;
            };
            if let Some((passage, excerpt)) = marker.mark(&entry)? {
                let (part, seq) = (passage.part, passage.seq);
                let Entry { team, at, task, session, .. } = entry;
                hits.push(Hit { key, team, at, task, session, part, seq, excerpt });
            }
        }
        Ok(SearchPage { hits, total, next })
    }
}

impl Tiers for TieredStorage {
    fn hot(&self) -> &dyn Storage {
        &self.hot
    }

    fn tasks(
        &self,
        wanted: &TaskQuery,
        window: &TaskWindow,
        known: &HashSet<TaskId>,
    ) -> Result<TaskPage, StorageError> {
        self.cold.tasks(wanted, window, known)
    }
}

impl Storage for TieredStorage {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let removed = batch.changes.iter().filter(|(_, value)| value.is_none());
        let removed: Vec<&[u8]> =
            removed.map(|(key, _)| key.as_slice()).filter(|key| self.cold.holds(key)).collect();
        if removed.is_empty() {
            return self.hot.commit(batch);
        }
        // What takes the place of removed records is there before they go, and what they are found by goes last: after a
        // crash in between, whoever removed them finds them again.
        let _moving = self.moving();
        let is_put = |(_, value): &&(Vec<u8>, Option<Vec<u8>>)| value.is_some();
        let puts: Vec<_> = batch.changes.iter().filter(is_put).cloned().collect();
        self.hot.commit(&Batch::from(puts))?;
        self.cold.remove(&removed)?;
        self.hot.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        match self.hot.get(key)? {
            None => self.cold.get(key),
            found => Ok(found),
        }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let mut range = (start.to_vec(), end.to_vec());
        let mut most = FIRST_CHUNK;
        while let Some(chunk) = self.chunk(&mut range, order, most)? {
            for (key, value) in chunk {
                let value = value.as_deref().map_err(Clone::clone);
                if visit(&key, value) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            most = (most * 4).min(LARGEST_CHUNK);
        }
        Ok(())
    }

    fn salvage(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.hot.salvage(key).or_else(|| self.cold.salvage(key))
    }

    fn damage_reports(&self) -> Option<&DamageReports> {
        self.hot.damage_reports()
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        Some(self)
    }
}

impl TieredStorage {
    /// The next records of both tiers in a range, which then begins or ends behind them; none if there are no more.
    fn chunk(
        &self,
        (start, end): &mut (Vec<u8>, Vec<u8>),
        order: Order,
        most: usize,
    ) -> Result<Option<Vec<Found>>, StorageError> {
        if start >= end {
            return Ok(None);
        }
        // In this order: what moves in between is found in both, and never in none.
        let mut hot: Vec<Found> = Vec::new();
        self.hot.scan(start, end, order, &mut |key, value| {
            hot.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            if hot.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let cold = self.cold.scan(start, end, order, most)?;
        // Behind the last key of a part that was cut short, the other one may lack something.
        let ends = [&hot, &cold].map(|part| part.last().filter(|_| part.len() == most));
        let ends = ends.into_iter().flatten().map(|(key, _)| key);
        let last = match order {
            Order::Rising => ends.min(),
            Order::Falling => ends.max(),
        };
        let last = last.cloned();
        let chunk = merge(hot, cold, order, last.as_deref());
        match (last, order) {
            (None, _) => start.clone_from(end),
            (Some(last), Order::Rising) => *start = [&*last, &[0]].concat(),
            (Some(last), Order::Falling) => *end = last,
        }
        Ok(Some(chunk))
    }
}

/// Both parts in one order, up to a last key; of a record that is in both, the hot one.
fn merge(hot: Vec<Found>, cold: Vec<Found>, order: Order, last: Option<&[u8]>) -> Vec<Found> {
    let comes_first = |one: &[u8], other: &[u8]| match order {
        Order::Rising => one < other,
        Order::Falling => one > other,
    };
    let mut merged = Vec::with_capacity(hot.len() + cold.len());
    let (mut hot, mut cold) = (hot.into_iter().peekable(), cold.into_iter().peekable());
    loop {
        let next = match (hot.peek(), cold.peek()) {
            (Some((one, _)), Some((other, _))) if one == other => {
                cold.next();
                hot.next()
            }
            (Some((one, _)), Some((other, _))) if comes_first(other, one) => cold.next(),
            (Some(_), _) => hot.next(),
            (None, _) => cold.next(),
        };
        let Some(next) = next else { break };
        if last.is_some_and(|last| comes_first(last, &next.0)) {
            break;
        }
        merged.push(next);
    }
    merged
}
