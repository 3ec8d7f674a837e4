//! A disk in memory that outlives the processes that write it.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::storage::{Batch, DamageReports, Order, Storage, StorageError, Visit};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What survives a process.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Map>>);

/// When a process loses the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Before this commit (from 0) is written.
    Before(usize),
    /// After it is written, before anyone is told.
    After(usize),
}

/// The disk as one process sees it.
pub(crate) struct Mounted {
    disk: Disk,
    crash: Mutex<Option<Crash>>,
    commits: Mutex<Vec<Batch>>,
    /// Scans that begin so fail.
    unreadable: Mutex<Option<&'static [u8]>>,
    damage: DamageReports,
    full: AtomicBool,
}

impl Disk {
    pub(crate) fn mount(&self, crash: Option<Crash>) -> Arc<Mounted> {
        Arc::new(Mounted {
            disk: self.clone(),
            crash: Mutex::new(crash),
            commits: Mutex::default(),
            unreadable: Mutex::default(),
            damage: DamageReports::default(),
            full: AtomicBool::default(),
        })
    }

    /// A disk with the same records.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().unwrap().clone())))
    }

    /// Overwrites the records whose keys, made readable, begin so.
    pub(crate) fn damage(&self, prefix: &str) {
        let mut map = self.0.lock().unwrap();
        for (key, value) in map.iter_mut() {
            if crate::store::keys::printable(key).starts_with(prefix) {
                *value = b"?".to_vec();
            }
        }
    }

    /// Replaces a text in the records whose keys, made readable, begin so.
    pub(crate) fn replace(&self, prefix: &str, from: &str, to: &str) {
        let mut map = self.0.lock().unwrap();
        for (key, value) in map.iter_mut() {
            if crate::store::keys::printable(key).starts_with(prefix) {
                let text = String::from_utf8(value.clone()).unwrap();
                assert!(text.contains(from));
                *value = text.replace(from, to).into();
            }
        }
    }

    /// The keys of all records, made readable, that begin so.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let map = self.0.lock().unwrap();
        map.keys()
            .map(|key| crate::store::keys::printable(key))
            .filter(|key| key.starts_with(prefix))
            .collect()
    }
}

impl Mounted {
    /// From now on, scans that begin so fail; none is none.
    pub(crate) fn fail_scans(&self, prefix: Option<&'static [u8]>) {
        *self.unreadable.lock().unwrap() = prefix;
    }

    /// There is no room for commits, or there is again.
    pub(crate) fn fill(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// The disk is lost after so many more commits.
    pub(crate) fn lose_after(&self, more: usize) {
        *self.crash.lock().unwrap() = Some(Crash::Before(self.commits() + more));
    }

    /// How many commits this process made.
    pub(crate) fn commits(&self) -> usize {
        self.commits.lock().unwrap().len()
    }

    /// What each commit of this process held.
    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.commits.lock().unwrap().clone()
    }
}

impl Storage for Mounted {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StorageError::Full);
        }
        let mut commits = self.commits.lock().unwrap();
        let number = commits.len();
        let gone = || StorageError::Write("the disk is gone".to_owned());
        let crash = *self.crash.lock().unwrap();
        match crash {
            Some(Crash::Before(last)) if number >= last => return Err(gone()),
            Some(Crash::After(last)) if number > last => return Err(gone()),
            _ => {}
        }
        let mut map = self.disk.0.lock().unwrap();
        for (key, value) in batch.changes.clone() {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        commits.push(batch.clone());
        if crash == Some(Crash::After(number)) {
            return Err(gone());
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.disk.0.lock().unwrap().get(key).cloned())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let unreadable = *self.unreadable.lock().unwrap();
        if unreadable.is_some_and(|prefix| start.starts_with(prefix)) {
            return Err(StorageError::Read("the disk does not answer".to_owned()));
        }
        let mut found: Vec<_> = {
            let map = self.disk.0.lock().unwrap();
            map.range(start.to_vec()..end.to_vec())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        if order == Order::Falling {
            found.reverse();
        }
        for (key, value) in found {
            if visit(&key, Ok(&value)) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn damage_reports(&self) -> Option<&DamageReports> {
        Some(&self.damage)
    }
}
