//! Doubles of ports, for tests: a storage in memory, a clock that tests set.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{
    clock::{Clock, Timestamp, millis},
    storage::{Batch, Order, Storage, StorageError, Visit},
};

#[derive(Debug, Default)]
pub(crate) struct Memory {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    refused: OnceLock<&'static str>,
    shown: AtomicU64,
}

impl Memory {
    /// How many rows scans have shown so far.
    pub(crate) fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// From now on no row of a kind can be written.
    pub(crate) fn refuse(&self, kind: &'static str) {
        self.refused.set(kind).unwrap();
    }

    /// Some rows cannot be written.
    pub(crate) fn is_broken(&self) -> bool {
        self.refused.get().is_some()
    }

    /// All that is stored, as text.
    pub(crate) fn text(&self) -> String {
        let map = self.rows.lock().unwrap();
        let rows = map.iter().map(|(key, value)| {
            format!("{} {}\n", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        });
        rows.collect()
    }
}

impl Storage for Memory {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let mut map = self.rows.lock().unwrap();
        let is_refused = |kind: &&str| {
            let mut keys = batch.changes.iter().map(|(key, _)| key);
            keys.any(|key| key.starts_with(kind.as_bytes()))
        };
        if self.refused.get().is_some_and(is_refused) {
            return Err(StorageError::Write("the disk is full".to_owned()));
        }
        for (key, value) in &batch.changes {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.rows.lock().unwrap().get(key).cloned())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let rows: Vec<_> = {
            let map = self.rows.lock().unwrap();
            let range = map.range(start.to_vec()..end.to_vec());
            range.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let mut show = |(key, value): &(Vec<u8>, Vec<u8>)| {
            self.shown.fetch_add(1, Ordering::Relaxed);
            visit(key, Ok(value))
        };
        let _: ControlFlow<()> = match order {
            Order::Rising => rows.iter().try_for_each(&mut show),
            Order::Falling => rows.iter().rev().try_for_each(&mut show),
        };
        Ok(())
    }
}

/// A clock that stands until it is turned.
#[derive(Debug)]
pub(crate) struct Hands(AtomicU64);

impl Default for Hands {
    fn default() -> Self {
        Self(AtomicU64::new(1_700_000_000_000))
    }
}

impl Hands {
    pub(crate) fn turn(&self, by: Duration) {
        self.0.fetch_add(millis(by), Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
