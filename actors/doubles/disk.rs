//! A storage in memory, with the faults that disks have.

use std::{
    collections::BTreeMap,
    fmt,
    ops::ControlFlow,
    sync::{Arc, Barrier},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    notice::Notice,
    storage::{Batch, DamageReports, Order, Storage, StorageError, Visit},
    store::{
        keys::printable,
        reads::{Range, scan},
    },
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What survives a process.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Map>>);

/// When a process loses the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Before this commit (from 0) is written.
    Before(usize),
    /// After it is written, before anyone is told.
    After(usize),
}

/// The disk as one process sees it.
#[derive(Default)]
pub struct MemoryStorage {
    disk: Disk,
    faults: Mutex<Faults>,
    told: Mutex<Told>,
    damage: DamageReports,
}

/// What does not work.
#[derive(Default)]
struct Faults {
    crash: Option<Crash>,
    /// A commit came after the crash.
    lost: bool,
    full: bool,
    /// Commits with a key that begins so fail.
    refused: Option<&'static str>,
    /// Scans that begin so fail.
    unreadable: Option<&'static [u8]>,
    /// The record that nobody can read, and what they are told.
    scratched: Option<(Vec<u8>, StorageError)>,
    /// The next scan that begins so is held back.
    held: Option<(&'static [u8], Arc<Barrier>)>,
}

/// What was asked of a storage.
#[derive(Default)]
struct Told {
    commits: Vec<Batch>,
    reads: usize,
    shown: u64,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Disk {
    /// The disk as a process finds it that loses it at some commit.
    pub fn mount(&self, crash: Option<Crash>) -> Arc<MemoryStorage> {
        Arc::new(MemoryStorage {
            disk: self.clone(),
            faults: Mutex::new(Faults { crash, ..Faults::default() }),
            ..MemoryStorage::default()
        })
    }

    /// A disk with the same records.
    pub fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(held(&self.0).clone())))
    }

    /// Overwrites the records whose keys, made readable, begin so.
    pub fn damage(&self, prefix: &str) {
        self.rewrite(prefix, |_| b"?".to_vec());
    }

    /// Replaces a text in the records whose keys, made readable, begin so.
    pub fn replace(&self, prefix: &str, from: &str, to: &str) {
        self.rewrite(prefix, |value| {
            let text = String::from_utf8_lossy(value);
            assert!(text.contains(from));
            text.replace(from, to).into()
        });
    }

    fn rewrite(&self, prefix: &str, change: impl Fn(&[u8]) -> Vec<u8>) {
        for (key, value) in held(&self.0).iter_mut() {
            if printable(key).starts_with(prefix) {
                *value = change(value);
            }
        }
    }

    /// The keys of all records, made readable, that begin so.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let keys = held(&self.0);
        keys.keys().map(|key| printable(key)).filter(|key| key.starts_with(prefix)).collect()
    }
}

impl MemoryStorage {
    /// From now on, scans that begin so fail; none is none.
    pub fn fail_scans(&self, prefix: Option<&'static [u8]>) {
        held(&self.faults).unreadable = prefix;
    }

    /// The next scan that begins so is held back between two waits at this barrier, after it has read.
    pub fn hold_scan(&self, prefix: &'static [u8]) -> Arc<Barrier> {
        let barrier = Arc::new(Barrier::new(2));
        held(&self.faults).held = Some((prefix, barrier.clone()));
        barrier
    }

    /// The disk does not give this record.
    pub fn scratch(&self, key: Vec<u8>) {
        let error = StorageError::Read("wrong checksum".to_owned());
        held(&self.faults).scratched = Some((key, error));
    }

    /// This record is given, and is damaged as a whole.
    pub fn tear(&self, key: Vec<u8>) {
        let reason = "wrong checksum".to_owned();
        let error = StorageError::Damaged { key: printable(&key), reason };
        held(&self.faults).scratched = Some((key, error));
    }

    /// There is no room for commits, or there is again.
    pub fn fill(&self, full: bool) {
        held(&self.faults).full = full;
    }

    /// From now on no record can be written whose key begins so.
    pub fn refuse(&self, prefix: &'static str) {
        held(&self.faults).refused = Some(prefix);
    }

    /// The disk is lost after so many more commits.
    pub fn lose_after(&self, more: usize) {
        let crash = Crash::Before(self.commits() + more);
        let mut faults = held(&self.faults);
        (faults.crash, faults.lost) = (Some(crash), false);
    }

    /// The disk is there again.
    pub fn mend(&self) {
        *held(&self.faults) = Faults::default();
    }

    /// Commits fail, or some of them do, as the test wants it.
    pub fn is_broken(&self) -> bool {
        let faults = held(&self.faults);
        faults.lost || faults.refused.is_some()
    }

    /// How many commits this process made.
    pub fn commits(&self) -> usize {
        held(&self.told).commits.len()
    }

    /// What each commit of this process held.
    pub fn batches(&self) -> Vec<Batch> {
        held(&self.told).commits.clone()
    }

    /// How often records were looked up or scanned.
    pub fn reads(&self) -> usize {
        held(&self.told).reads
    }

    /// How many records scans have shown so far.
    pub fn shown(&self) -> u64 {
        held(&self.told).shown
    }

    /// All that is stored, as text.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy;
        let records = held(&self.disk.0);
        records.iter().map(|(key, value)| format!("{} {}\n", text(key), text(value))).collect()
    }

    /// The keys that hold a text.
    pub fn keys(&self, part: &str) -> Vec<Vec<u8>> {
        let records = held(&self.disk.0);
        let keys = records.keys().filter(|key| String::from_utf8_lossy(key).contains(part));
        keys.cloned().collect()
    }

    /// The only record whose key holds a text.
    pub fn record(&self, part: &str) -> (Vec<u8>, Vec<u8>) {
        let keys = self.keys(part);
        assert_eq!(keys.len(), 1, "records for `{part}`");
        (keys[0].clone(), held(&self.disk.0)[&keys[0]].clone())
    }

    /// Changes a record behind the back of whoever uses the storage.
    pub fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) {
        write(&mut held(&self.disk.0), vec![(key, value)]);
    }
}

fn write(records: &mut Map, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    for (key, value) in changes {
        match value {
            Some(value) => records.insert(key, value),
            None => records.remove(&key),
        };
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage").finish_non_exhaustive()
    }
}

impl Storage for MemoryStorage {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let mut faults = held(&self.faults);
        if faults.full {
            return Err(StorageError::Full);
        }
        let is_refused = |(key, _): &(Vec<u8>, _)| {
            faults.refused.is_some_and(|prefix| key.starts_with(prefix.as_bytes()))
        };
        if batch.changes.iter().any(is_refused) {
            return Err(StorageError::Write("the disk is full".to_owned()));
        }
        let mut told = held(&self.told);
        let number = told.commits.len();
        let gone = || StorageError::Write("the disk is gone".to_owned());
        faults.lost |= match faults.crash {
            Some(Crash::Before(last)) => number >= last,
            Some(Crash::After(last)) => number > last,
            None => false,
        };
        if faults.lost {
            return Err(gone());
        }
        write(&mut held(&self.disk.0), batch.changes.clone());
        told.commits.push(batch.clone());
        if faults.crash == Some(Crash::After(number)) {
            return Err(gone());
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        held(&self.told).reads += 1;
        if let Some((scratched, error)) = &held(&self.faults).scratched
            && scratched == key
        {
            return Err(error.clone());
        }
        Ok(held(&self.disk.0).get(key).cloned())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        held(&self.told).reads += 1;
        let scratched = {
            let faults = held(&self.faults);
            if faults.unreadable.is_some_and(|prefix| start.starts_with(prefix)) {
                return Err(StorageError::Read("the disk does not answer".to_owned()));
            }
            faults.scratched.clone()
        };
        let mut found: Vec<_> = {
            let records = held(&self.disk.0);
            let range = records.range(start.to_vec()..end.to_vec());
            range.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        if order == Order::Falling {
            found.reverse();
        }
        let barrier = {
            let mut faults = held(&self.faults);
            faults.held.take_if(|(prefix, _)| start.starts_with(prefix))
        };
        if let Some((_, barrier)) = barrier {
            barrier.wait();
            barrier.wait();
        }
        for (key, value) in found {
            held(&self.told).shown += 1;
            let value = match &scratched {
                Some((scratched, error)) if *scratched == key => Err(error.clone()),
                _ => Ok(&*value),
            };
            if visit(&key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn damage_reports(&self) -> Option<&DamageReports> {
        Some(&self.damage)
    }
}

/// All notices in a storage, oldest first.
pub fn notices(storage: &dyn Storage) -> Result<Vec<Notice>, StorageError> {
    let mut notices = scan::<Notice>(storage, Range::all())?;
    notices.sort_by_key(|notice| notice.at);
    Ok(notices)
}
