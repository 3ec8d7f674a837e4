//! Doubles of ports, for tests: a storage in memory, a clock that tests set.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{
    clock::{Clock, Timestamp, millis},
    storage::{Batch, Order, Storage, StorageError, Visit},
};

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>, AtomicBool);

impl Memory {
    /// From now on the disk is full.
    pub(crate) fn fill(&self) {
        self.1.store(true, Ordering::SeqCst);
    }

    /// All that is stored, as text.
    pub(crate) fn text(&self) -> String {
        let map = self.0.lock().unwrap();
        let rows = map.iter().map(|(key, value)| {
            format!(
                "{} {}\n",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(value)
            )
        });
        rows.collect()
    }
}

impl Storage for Memory {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        if self.1.load(Ordering::SeqCst) {
            return Err(StorageError::Write("the disk is full".to_owned()));
        }
        let mut map = self.0.lock().unwrap();
        for (key, value) in &batch.changes {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let rows: Vec<_> = {
            let map = self.0.lock().unwrap();
            let range = map.range(start.to_vec()..end.to_vec());
            range
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let mut show = |(key, value): &(Vec<u8>, Vec<u8>)| visit(key, Ok(value));
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
