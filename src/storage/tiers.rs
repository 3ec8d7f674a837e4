//! The store in two tiers: sled for what a turn touches, SQLite for what is over.
//!
//! Everything is written to sled: what is over as a log (`pending.rs`), the rest record by record. What is over moves on in
//! batches (`actors/archivist.rs`): SQLite takes it in, durably, then sled lets it go. A reader looks first at what is
//! pending, which is the newer where a record is in both.

use std::{cell::Cell, collections::BTreeMap, fmt, io, ops::ControlFlow, path::Path, sync::Arc};

use hivewright_actors::{
    archive::Archive,
    search::{Entry, Hit, Search, SearchPage},
    storage::{
        ArchiveLists, Batch, DamageReports, Order, ShowPending, Storage, StorageError, Tiers, Visit,
    },
    store::{
        keys::{after_prefix, printable},
        reads::report,
    },
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    error::OpenError,
    history::{Found, History, Match, Taken, marking::Marker},
    pending::{Moving, Oldest, Pending, Shared, Unreadable},
    sled::{Changes, SledStorage, check_size, guarded},
};
use crate::settings::config::Durability;

/// A batch that moves holds at most about so many records …
const MOVED_RECORDS: usize = 5_000;
/// … or this many bytes.
const MOVED_BYTES: usize = 4 << 20;
/// A scan reads so many records first, then ever more, up to so many.
const FIRST_CHUNK: usize = 8;
const LARGEST_CHUNK: usize = 512;

/// A record that moves: its key, and what it is now; none if it was removed.
pub type Change = (Arc<[u8]>, Option<Arc<[u8]>>);

/// Sees records that are over before sled lets them go; after a crash in between it sees them again. May block.
pub trait MoveObserver: fmt::Debug + Send + Sync {
    /// What the storage shows of such records has moved.
    fn see(&self, storage: &dyn Storage, changes: &[Change]);
}

#[derive(Debug)]
pub struct TieredStorage {
    pub(super) hot: SledStorage,
    /// What is on its way between the two.
    pub(super) pending: Pending,
    pub(super) cold: History,
    /// Held while records move.
    moving: Mutex<()>,
    /// What takes records out of sled that have moved: it goes with the next commit. Until then they are in both tiers, as
    /// after a crash.
    moved: Mutex<Changes>,
    observer: Option<Arc<dyn MoveObserver>>,
}

impl TieredStorage {
    /// Opens both tiers of a store that was found fit to use.
    pub(super) fn attach(store: &Path, durability: Durability) -> Result<Self, OpenError> {
        let hot = SledStorage::attach(store, durability);
        let hot = hot.map_err(|error| OpenError::of_disk(store, error))?;
        let unusable = |reason| OpenError::Unusable { path: store.to_path_buf(), reason };
        let cold = match hot.archive() {
            // Of a former version, which had none.
            None => History::default(),
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
        let read = guarded(|| Pending::read(&hot.database)).map_err(io::Error::other);
        let read = read.and_then(|read| Ok(read?));
        let (pending, unreadable) = read.map_err(|error| OpenError::of_disk(store, error))?;
        for Unreadable { key, reason } in unreadable {
            tracing::error!(
                record = printable(&key),
                error = reason,
                "a record of ended work cannot be read; it is kept as it is"
            );
            hot.report_damage(&key, &reason);
        }
        let (moving, moved, observer) = Default::default();
        let storage = Self { hot, pending, cold, moving, moved, observer };
        storage.tidy().map_err(|error| unusable(error.to_string()))?;
        Ok(storage)
    }

    /// Puts records that are over and lie in sled one by one into the archive: a restore or an upgrade leaves those there
    /// that stand in parts or are damaged.
    fn tidy(&self) -> Result<(), StorageError> {
        for prefix in self.cold.prefixes() {
            loop {
                let mut found: Vec<Found> = Vec::new();
                self.hot.scan(
                    prefix,
                    &after_prefix(prefix),
                    Order::Rising,
                    &mut |key, value| {
                        found.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                        if found.len() < MOVED_RECORDS {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    },
                )?;
                if found.is_empty() {
                    break;
                }
                let number = self.cold.take(found.iter().map(|(key, value)| match value {
                    Ok(value) => (key, Taken::Value(value)),
                    Err(error) => {
                        // Lists of the archive are made from its columns, and such a record has none.
                        report(&self.hot, key, error);
                        (key, Taken::Damaged(self.hot.salvage(key).unwrap_or_default()))
                    }
                }))?;
                let removed = found.iter().map(|(key, _)| (key.as_slice(), None)).collect();
                self.hot.change_all(
                    &removed,
                    self.hot.archive_at(number).into_iter().collect(),
                    || {},
                )?;
            }
        }
        Ok(())
    }

    /// The same storage, with one who sees what moves.
    pub fn with_observer(self, observer: Arc<dyn MoveObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same store without what is over and has not moved yet.
    pub fn archived(&self) -> impl Storage {
        Archived(self)
    }

    pub fn schema(&self) -> u16 {
        self.hot.schema()
    }

    /// Notes that nothing is under way, at the end of a service: the next start is the faster for it. Blocks.
    pub fn rest(&self) -> io::Result<()> {
        while self.take_next().map_err(io::Error::other)? {}
        self.let_go().map_err(io::Error::other)?;
        self.hot.rest()
    }

    /// How many records there are. Counts them.
    pub fn records(&self) -> u64 {
        let (mut new, mut gone) = (0, 0);
        for (key, value) in self.pending.all() {
            match (value, self.cold.salvage(&key)) {
                (Some(_), None) => new += 1,
                (None, Some(_)) => gone += 1,
                _ => {}
            }
        }
        (self.hot.records() + self.cold.records() + new).saturating_sub(gone)
    }

    pub(super) fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock()
    }

    fn moved(&self) -> MutexGuard<'_, Changes> {
        self.moved.lock()
    }

    /// Has the archive take in the oldest records that are pending. Returns them with the number of the transaction.
    pub(super) fn take_oldest(&self) -> Result<Option<(Oldest, u64)>, StorageError> {
        let Some(oldest) = self.pending.oldest(MOVED_RECORDS, MOVED_BYTES) else { return Ok(None) };
        let number = self.cold.take(oldest.records.iter().map(|(key, value)| match value {
            Some(value) => (key, Taken::Value(value)),
            None => (key, Taken::Removed),
        }))?;
        Ok(Some((oldest, number)))
    }

    /// The archive has these records by now, so that sled lets them go with the next commit.
    pub(super) fn has_moved(&self, moving: &Moving<'_>, mut oldest: Oldest, number: u64) {
        let mut moved = self.moved();
        moved.append(&mut oldest.changes);
        moved.extend(self.hot.archive_at(number));
        drop(moved);
        moving.forget(&oldest);
    }

    /// Takes records that have moved out of sled, also if no commit follows.
    fn let_go(&self) -> Result<(), StorageError> {
        self.change_all(&BTreeMap::new(), Changes::new(), || {})
    }

    /// Changes sled, and lets go of what has moved.
    fn change_all(
        &self,
        records: &BTreeMap<&[u8], Option<&[u8]>>,
        mut own: Changes,
        begins: impl FnOnce(),
    ) -> Result<(), StorageError> {
        let moved = std::mem::take(&mut *self.moved());
        own.extend(moved.iter().cloned());
        let changed = self.hot.change_all(records, own, begins);
        if changed.is_err() {
            drop(self.moved().splice(..0, moved));
        }
        changed
    }
}

impl Archive for TieredStorage {
    fn take_next(&self) -> Result<bool, StorageError> {
        let _moving = self.moving();
        let moving = self.pending.begin_moving();
        self.pending.settle();
        let Some((oldest, number)) = self.take_oldest()? else { return Ok(false) };
        if let Some(observer) = &self.observer {
            moving.observed(|| observer.see(&self.archived(), &oldest.records));
        }
        self.has_moved(&moving, oldest, number);
        Ok(true)
    }

    fn empty_log(&self) -> Result<(), StorageError> {
        self.let_go()?;
        self.cold.empty_log()
    }

    fn shrink(&self) -> Result<(), StorageError> {
        self.cold.shrink()
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
    fn pending(&self, start: &[u8], end: &[u8], show: &mut ShowPending<'_>) {
        for (key, value) in self.pending.range(start, end, Order::Rising, usize::MAX) {
            show(&key, value.as_deref());
        }
    }

    fn lists(&self) -> &dyn ArchiveLists {
        &self.cold
    }

    fn faults(&self) -> Result<Vec<String>, StorageError> {
        self.cold.faults()
    }
}

impl Storage for TieredStorage {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let mut open = batch.latest();
        let over: Vec<_> = open.extract_if(.., |key, _| self.cold.holds(key)).collect();
        let size = over.iter().map(|(key, value)| check_size(key, *value));
        size.collect::<Result<(), _>>().map_err(StorageError::Write)?;
        if !over.is_empty() {
            self.pending.make_room();
        }
        let mut draft = self.pending.draft(self.schema(), over.into_iter());
        let changes = std::mem::take(&mut draft.changes);
        // A record that goes from one tier to the other is seen in one of them at every moment.
        self.change_all(&open, changes, || self.pending.show(&mut draft))?;
        self.pending.durable(draft);
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        if !self.cold.holds(key) {
            return self.hot.get(key);
        }
        match self.pending.get(key) {
            Some(value) => Ok(value.map(|value| value.to_vec())),
            None => self.cold.get(key),
        }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        self.scan_with(Over::All, (start, end), order, visit)
    }

    fn salvage(&self, key: &[u8]) -> Option<Vec<u8>> {
        if !self.cold.holds(key) {
            return self.hot.salvage(key);
        }
        let pending = self.pending.get(key).map(|value| value.map(|value| value.to_vec()));
        pending.unwrap_or_else(|| self.cold.salvage(key))
    }

    fn damage_reports(&self) -> Option<&DamageReports> {
        self.hot.damage_reports()
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        Some(self)
    }
}

/// A store without what is over and has not moved yet: of that, some may not be durable, and a power cut take it back.
struct Archived<'a>(&'a TieredStorage);

impl Storage for Archived<'_> {
    fn commit(&self, _: &Batch) -> Result<(), StorageError> {
        Err(StorageError::Write("an archive is written by what moves there alone".to_owned()))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        let Self(storage) = self;
        if storage.cold.holds(key) { storage.cold.get(key) } else { storage.hot.get(key) }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        self.0.scan_with(Over::Archived, (start, end), order, visit)
    }

    fn salvage(&self, key: &[u8]) -> Option<Vec<u8>> {
        let Self(storage) = self;
        if storage.cold.holds(key) { storage.cold.salvage(key) } else { storage.hot.salvage(key) }
    }

    fn damage_reports(&self) -> Option<&DamageReports> {
        self.0.damage_reports()
    }
}

/// Which records that are over are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    All,
    /// Those that have moved.
    Archived,
}

/// A part of a range: of one kind that moves to the archive, or of none.
struct Section {
    start: Vec<u8>,
    end: Vec<u8>,
    is_over: bool,
}

impl TieredStorage {
    /// The sections of a range, in the order of their keys.
    fn sections(&self, start: &[u8], end: &[u8]) -> Vec<Section> {
        let mut sections = Vec::new();
        let mut reached = start.to_vec();
        let mut go_to = |to: &[u8], is_over: bool| {
            let to = to.min(end);
            if *reached < *to {
                let start = std::mem::replace(&mut reached, to.to_vec());
                sections.push(Section { start, end: to.to_vec(), is_over });
            }
        };
        for prefix in self.cold.prefixes() {
            go_to(prefix, false);
            go_to(&after_prefix(prefix), true);
        }
        go_to(end, false);
        sections
    }

    fn scan_with(
        &self,
        over: Over,
        (start, end): (&[u8], &[u8]),
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let has_enough = Cell::new(false);
        let mut visit = |key: &[u8], value: Result<&[u8], StorageError>| {
            visit(key, value).map_break(|()| has_enough.set(true))
        };
        let mut sections = self.sections(start, end);
        if order == Order::Falling {
            sections.reverse();
        }
        for Section { start, end, is_over } in sections {
            if is_over {
                self.scan_over(over, (start, end), order, &mut visit)?;
            } else {
                self.hot.scan(&start, &end, order, &mut visit)?;
            }
            if has_enough.get() {
                break;
            }
        }
        Ok(())
    }

    /// Shows what is over of a range: what is archived, and mostly what is pending.
    fn scan_over(
        &self,
        over: Over,
        mut range: (Vec<u8>, Vec<u8>),
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let mut most = FIRST_CHUNK;
        while let Some(chunk) = self.chunk(over, &mut range, order, most)? {
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

    /// The next records in a range, which then begins or ends behind them; none if there are no more.
    fn chunk(
        &self,
        over: Over,
        (start, end): &mut (Vec<u8>, Vec<u8>),
        order: Order,
        most: usize,
    ) -> Result<Option<Vec<Found>>, StorageError> {
        if start >= end {
            return Ok(None);
        }
        // In this order: what moves in between is found in both, and never in none.
        let pending = match over {
            Over::All => self.pending.range(start, end, order, most),
            Over::Archived => Vec::new(),
        };
        let cold = self.cold.scan(start, end, order, most)?;
        // Behind the last key of a part that was cut short, the other one may lack something.
        let last_pending = pending.last().filter(|_| pending.len() == most).map(|(key, _)| &**key);
        let last_cold = cold.last().filter(|_| cold.len() == most).map(|(key, _)| key.as_slice());
        let ends = [last_pending, last_cold].into_iter().flatten();
        let last = match order {
            Order::Rising => ends.min(),
            Order::Falling => ends.max(),
        };
        let last = last.map(<[u8]>::to_vec);
        let chunk = merge(pending, cold, order, last.as_deref());
        match (last, order) {
            (None, _) => start.clone_from(end),
            (Some(last), Order::Rising) => *start = [&*last, &[0]].concat(),
            (Some(last), Order::Falling) => *end = last,
        }
        Ok(Some(chunk))
    }
}

/// Both parts in one order, up to a last key. Of a record that is in both, what is pending counts.
fn merge(
    pending: Vec<(Shared, Option<Shared>)>,
    cold: Vec<Found>,
    order: Order,
    last: Option<&[u8]>,
) -> Vec<Found> {
    let comes_first = |one: &[u8], other: &[u8]| match order {
        Order::Rising => one < other,
        Order::Falling => one > other,
    };
    let is_within = |key: &[u8]| last.is_none_or(|last| !comes_first(last, key));
    let mut merged = Vec::with_capacity(pending.len() + cold.len());
    let mut cold = cold.into_iter().filter(|(key, _)| is_within(key)).peekable();
    for (key, value) in pending.into_iter().filter(|(key, _)| is_within(key)) {
        merged.extend(std::iter::from_fn(|| cold.next_if(|(other, _)| comes_first(other, &key))));
        cold.next_if(|(other, _)| **other == *key);
        merged.extend(value.map(|value| (key.to_vec(), Ok(value.to_vec()))));
    }
    merged.extend(cold);
    merged
}
