//! Pending records: what is over and not yet in the archive.
//!
//! A commit writes all its records that are over as units of a log in sled, and holds them in memory, where readers find
//! them. The archive takes them in from there, then their units go. So sled keeps one record where there were many, each of
//! which would cost it a change of a page when it comes and another when it goes.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hivewright_actors::storage::Order;
use parking_lot::{Condvar, Mutex};

use super::{
    envelope::{self, Form},
    parts::{LOG, WHOLE},
    sled::Changes,
};

/// Above so many bytes a commit waits while records move: what comes in must not outrun what moves for ever.
const MOST_BYTES: usize = 8 << 20;
/// The same while an observer sees them, which may write long files: turns go on meanwhile.
const MOST_OBSERVED_BYTES: usize = 64 << 20;
/// A commit is durable within this time, or never.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Stands in place of a value's length if the record was removed.
const REMOVED: u32 = u32::MAX;

/// Bytes that several hold.
pub(super) type Shared = Arc<[u8]>;

/// Records with what they are now; none if they were removed.
pub(super) type Records = BTreeMap<Shared, Option<Shared>>;

#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    /// Records have moved, or became durable.
    changed: Condvar,
    /// The number of the newest unit.
    newest: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<Shared, Held>,
    /// In the order in which they became durable.
    units: VecDeque<Unit>,
    /// The newest of them that there was.
    durable: u64,
    bytes: usize,
    /// Above so many bytes a commit waits.
    limit: Option<usize>,
}

/// A record as it is now.
#[derive(Debug)]
struct Held {
    value: Option<Shared>,
    /// Which unit of the log says so.
    unit: u64,
}

/// A part of a commit in the log of sled.
#[derive(Debug)]
struct Unit {
    number: u64,
    /// How many records of sled it takes.
    chunks: u32,
    keys: Vec<Shared>,
    bytes: usize,
}

/// Records of a commit that is not made yet.
#[derive(Debug, Default)]
pub(super) struct Draft {
    units: Vec<Unit>,
    records: Vec<(Shared, Held)>,
    /// What it writes to sled.
    pub(super) changes: Changes,
}

/// The oldest records, as many as move at once.
#[derive(Debug)]
pub(super) struct Oldest {
    pub(super) records: Vec<(Shared, Option<Shared>)>,
    units: usize,
    /// What takes their units out of sled.
    pub(super) changes: Changes,
}

/// A unit that cannot be read stays in sled.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) key: Vec<u8>,
    pub(super) reason: String,
}

impl Pending {
    /// What a former process left in the log of sled, and what of it cannot be read.
    pub(super) fn read(database: &::sled::Db) -> ::sled::Result<(Self, Vec<Unreadable>)> {
        let mut units: BTreeMap<u64, (u32, Result<Vec<u8>, Unreadable>)> = BTreeMap::new();
        for record in database.scan_prefix(LOG) {
            let (key, sealed) = record?;
            let number = number_of(&key);
            let (chunks, content) = units.entry(number).or_insert((0, Ok(Vec::new())));
            *chunks += 1;
            let opened = envelope::open(&key, &sealed);
            match (&mut *content, opened) {
                (Ok(content), Ok(opened)) => content.extend(opened.payload),
                (Ok(_), Err(error)) => {
                    let (key, reason) = (key.to_vec(), error.to_string());
                    *content = Err(Unreadable { key, reason });
                }
                (Err(_), _) => {}
            }
        }
        let pending = Self::default();
        let mut unreadable = Vec::new();
        for (number, (chunks, content)) in units {
            pending.newest.store(number, Ordering::Relaxed);
            let read = content.and_then(|content| {
                let read = decode(&content).map(|records| (records, content.len()));
                let reason = "not a list of records".to_owned();
                read.ok_or_else(|| Unreadable { key: chunk_key(number, 0), reason })
            });
            match read {
                Ok((records, bytes)) => {
                    let keys = records.iter().map(|(key, _)| key.clone()).collect();
                    let held = |value| Held { value, unit: number };
                    let mut state = pending.state.lock();
                    state.records.extend(records.into_iter().map(|(key, it)| (key, held(it))));
                    state.bytes += bytes;
                    state.durable = number;
                    state.units.push_back(Unit { number, chunks, keys, bytes });
                }
                Err(found) => unreadable.push(found),
            }
        }
        Ok((pending, unreadable))
    }

    /// Puts records into units, small ones together.
    pub(super) fn draft<'a>(
        &self,
        schema: u16,
        records: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Draft {
        let mut draft = Draft::default();
        let mut records = records.peekable();
        while records.peek().is_some() {
            let number = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
            let (mut content, mut keys) = (Vec::new(), Vec::new());
            while let Some((key, value)) = records
                .next_if(|record| content.is_empty() || content.len() + size(record) <= WHOLE)
            {
                encode(key, value, &mut content);
                let key = Shared::from(key);
                let held = Held { value: value.map(Shared::from), unit: number };
                draft.records.push((key.clone(), held));
                keys.push(key);
            }
            let mut chunks = 0;
            for chunk in content.chunks(WHOLE) {
                let key = chunk_key(number, chunks);
                let sealed = envelope::seal(Form::Whole, schema, &key, chunk);
                draft.changes.push((key, Some(sealed)));
                chunks += 1;
            }
            draft.units.push(Unit { number, chunks, keys, bytes: content.len() });
        }
        draft
    }

    /// Shows a draft to readers. What it writes may not be durable yet, so nothing of it moves before it is
    /// [`durable`](Self::durable).
    pub(super) fn show(&self, draft: &mut Draft) {
        self.state.lock().records.extend(draft.records.drain(..));
    }

    pub(super) fn durable(&self, draft: Draft) {
        let mut state = self.state.lock();
        state.bytes += draft.units.iter().map(|unit| unit.bytes).sum::<usize>();
        state.durable = draft.units.last().map_or(state.durable, |unit| unit.number);
        state.units.extend(draft.units);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits while there is much, and it moves.
    pub(super) fn make_room(&self) {
        let is_full = |state: &mut State| state.limit.is_some_and(|limit| state.bytes > limit);
        self.changed.wait_while(&mut self.state.lock(), is_full);
    }

    /// Waits until the oldest unit can move: what takes the place of its records is on its way to the disk.
    pub(super) fn settle(&self) {
        let waits = |state: &mut State| state.units.front().is_some_and(|it| !state.is_settled(it));
        self.changed.wait_while_for(&mut self.state.lock(), waits, COMMIT_TIMEOUT);
    }

    /// The oldest records, in whole units: at least one, and no more once there are so many, or so many bytes. None if
    /// there are none. They stay until they are [`forgotten`](Moving::forget).
    pub(super) fn oldest(&self, most: usize, most_bytes: usize) -> Option<Oldest> {
        let state = self.state.lock();
        let mut oldest = Oldest { records: Vec::new(), units: 0, changes: Changes::new() };
        let mut bytes = 0;
        for unit in &state.units {
            let is_full = oldest.records.len() >= most || bytes >= most_bytes;
            if is_full || !state.is_settled(unit) {
                break;
            }
            bytes += unit.bytes;
            oldest.units += 1;
            oldest.changes.extend((0..unit.chunks).map(|it| (chunk_key(unit.number, it), None)));
            // One that was changed since moves with the unit that says so.
            let current = unit.keys.iter().filter_map(|key| {
                let held = state.records.get(key).filter(|held| held.unit == unit.number)?;
                Some((key.clone(), held.value.clone()))
            });
            oldest.records.extend(current);
        }
        (oldest.units > 0).then_some(oldest)
    }

    /// Begins to move records: commits that find too many wait until it is dropped.
    pub(super) fn begin_moving(&self) -> Moving<'_> {
        let moving = Moving(self);
        moving.limit(Some(MOST_BYTES));
        moving
    }

    /// A record as it is now, if it is pending; without a value it was removed.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Shared>> {
        self.state.lock().records.get(key).map(|held| held.value.clone())
    }

    /// The first records of a range, in its order.
    pub(super) fn range(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        most: usize,
    ) -> Vec<(Shared, Option<Shared>)> {
        if start >= end {
            return Vec::new();
        }
        let range = (Bound::Included(start), Bound::Excluded(end));
        let state = self.state.lock();
        let found = state.records.range::<[u8], _>(range);
        let found = found.map(|(key, held)| (key.clone(), held.value.clone()));
        match order {
            Order::Rising => found.take(most).collect(),
            Order::Falling => found.rev().take(most).collect(),
        }
    }

    /// All records, as they are now.
    pub(super) fn all(&self) -> Records {
        let state = self.state.lock();
        state.records.iter().map(|(key, held)| (key.clone(), held.value.clone())).collect()
    }
}

impl State {
    /// What takes the place of a record may not be durable yet: until it is, its former value stays in the log.
    fn is_settled(&self, unit: &Unit) -> bool {
        let is_durable = |held: &Held| held.unit <= self.durable;
        unit.keys.iter().all(|key| self.records.get(key).is_none_or(is_durable))
    }
}

/// While records move.
pub(super) struct Moving<'a>(&'a Pending);

impl Moving<'_> {
    /// Has an observer see what moves.
    pub(super) fn observed(&self, see: impl FnOnce()) {
        self.limit(Some(MOST_OBSERVED_BYTES));
        see();
        self.limit(Some(MOST_BYTES));
    }

    fn limit(&self, limit: Option<usize>) {
        self.0.state.lock().limit = limit;
        self.0.changed.notify_all();
    }

    /// The archive has these records, durably, and their units are gone.
    pub(super) fn forget(&self, oldest: &Oldest) {
        let mut state = self.0.state.lock();
        let State { records, units, bytes, .. } = &mut *state;
        for unit in units.drain(..oldest.units) {
            *bytes -= unit.bytes;
            for key in &unit.keys {
                if records.get(key).is_some_and(|held| held.unit == unit.number) {
                    records.remove(key);
                }
            }
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.limit(None);
    }
}

fn chunk_key(number: u64, chunk: u32) -> Vec<u8> {
    [LOG, &number.to_be_bytes(), &chunk.to_be_bytes()].concat()
}

fn number_of(chunk_key: &[u8]) -> u64 {
    let number = chunk_key[LOG.len()..].first_chunk();
    number.map_or(0, |number| u64::from_be_bytes(*number))
}

fn size((key, value): &(&[u8], Option<&[u8]>)) -> usize {
    8 + key.len() + value.map_or(0, <[u8]>::len)
}

fn encode(key: &[u8], value: Option<&[u8]>, content: &mut Vec<u8>) {
    // Neither is longer than a store takes, which is far less.
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(REMOVED);
    content.extend(length(key).to_be_bytes());
    content.extend(value.map_or(REMOVED, length).to_be_bytes());
    content.extend(key);
    content.extend(value.unwrap_or_default());
}

fn decode(mut content: &[u8]) -> Option<Vec<(Shared, Option<Shared>)>> {
    let mut records = Vec::new();
    while !content.is_empty() {
        let (key, rest) = content.split_first_chunk()?;
        let (value, rest) = rest.split_first_chunk()?;
        let (key, value) = (u32::from_be_bytes(*key), u32::from_be_bytes(*value));
        let (key, rest) = rest.split_at_checked(key as usize)?;
        let (value, rest) = match value {
            REMOVED => (None, rest),
            length => rest.split_at_checked(length as usize).map(|(it, rest)| (Some(it), rest))?,
        };
        records.push((Shared::from(key), value.map(Shared::from)));
        content = rest;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Expected = Vec<(Shared, Option<Shared>)>;

    fn record(key: &str, value: Option<&str>) -> (Shared, Option<Shared>) {
        (key.as_bytes().into(), value.map(|value| value.as_bytes().into()))
    }

    fn shown(pending: &Pending, key: &str, value: Option<&str>) -> Draft {
        let record = (key.as_bytes(), value.map(str::as_bytes));
        let mut draft = pending.draft(3, [record].into_iter());
        pending.show(&mut draft);
        draft
    }

    fn oldest(pending: &Pending) -> Option<Expected> {
        pending.oldest(10, 1_000).map(|oldest| oldest.records)
    }

    /// SC-105: until what replaces a record is durable, the unit that holds its former value must stay.
    #[test]
    fn a_unit_whose_record_is_replaced_moves_when_that_is_durable() {
        let pending = Pending::default();
        let first = shown(&pending, "done\0a", Some("1"));
        assert_eq!(oldest(&pending), None, "nothing of it is durable");
        pending.durable(first);
        assert_eq!(oldest(&pending), Some(vec![record("done\0a", Some("1"))]));

        let second = shown(&pending, "done\0a", None);
        assert_eq!(oldest(&pending), None);
        pending.durable(second);

        assert_eq!(oldest(&pending), Some(vec![record("done\0a", None)]));
    }

    /// SC-115: while long files are written turns go on, but not without end.
    #[test]
    fn a_commit_does_not_wait_for_an_observer_unless_there_is_very_much() {
        let pending = Pending::default();
        let is_full = |pending: &Pending| {
            let state = pending.state.lock();
            state.limit.is_some_and(|limit| state.bytes > limit)
        };
        let unit = |bytes| Draft {
            units: vec![Unit { number: 1, chunks: 1, keys: Vec::new(), bytes }],
            ..Draft::default()
        };
        pending.durable(unit(MOST_BYTES + 1));
        let before = is_full(&pending);

        let moving = pending.begin_moving();
        let at_first = is_full(&pending);
        moving.observed(|| {
            assert!(!is_full(&pending));
            pending.durable(unit(MOST_OBSERVED_BYTES));
            assert!(is_full(&pending));
        });
        let after = is_full(&pending);
        drop(moving);

        assert_eq!((before, at_first, after, is_full(&pending)), (false, true, true, false));
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_cut_is_taken_for_whole() {
        let records: Expected = vec![
            record("a", Some("1")),
            record("b", None),
            record("c", Some("")),
            record("", None),
        ];
        let mut content = Vec::new();
        for (key, value) in &records {
            encode(key, value.as_deref(), &mut content);
        }

        assert_eq!(decode(&content), Some(records.clone()));
        let whole = [0, 10, 19, 28, 36];
        for length in 0..content.len() {
            assert_eq!(decode(&content[..length]).is_some(), whole.contains(&length), "{length}");
        }
    }
}
