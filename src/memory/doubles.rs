//! Memory over a real store, with the rows in this process: for tests.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use actix::Arbiter;
use hivewright_actors::{
    ids::{Entropy, Ids, TeamKey},
    storage::{Batch, Order, Storage, StorageError, Visit},
    store::{Store, StoreHandle},
};

use super::{Memory, SecretGuard};
use crate::http::doubles::{self, Hands};

/// Rows in this process, and how often they were read.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) rows: doubles::Memory,
    reads: AtomicUsize,
}

impl Disk {
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Storage for Disk {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        self.rows.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.rows.get(key)
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.rows.scan(start, end, order, visit)
    }
}

pub(crate) struct Counted(pub(crate) AtomicU64);

impl Entropy for Counted {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Knows one secret of the team `main`.
struct Guard;

impl SecretGuard for Guard {
    fn holds_secret(&self, team: &TeamKey, text: &str) -> Option<String> {
        let known = team.name.as_str() == "main" && text.contains("hunter2");
        known.then(|| "PASSWORD".to_owned())
    }

    fn holds_hidden(&self, _: &TeamKey, text: &str) -> bool {
        text.contains("master-word")
    }

    fn redactions(&self) -> u64 {
        0
    }
}

/// A memory, and what it stands on.
pub(crate) struct Bench {
    pub(crate) disk: Arc<Disk>,
    pub(crate) clock: Arc<Hands>,
    pub(crate) store: StoreHandle,
    pub(crate) memory: Memory,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let (disk, clock) = (Arc::new(Disk::default()), Arc::new(Hands::default()));
        let fail = Box::new(|error: &StorageError| panic!("{error}"));
        let store = Store::start(&Arbiter::current(), disk.clone(), fail, Box::new(|_, _| {}));
        let memory = started(&store, &clock, 1);
        Self { disk, clock, store, memory }
    }

    /// As another process would find it.
    pub(crate) fn restarted(&self) -> Memory {
        started(&self.store, &self.clock, 1 << 32)
    }
}

fn started(store: &StoreHandle, clock: &Arc<Hands>, from: u64) -> Memory {
    let ids = Ids::new(Arc::new(Counted(AtomicU64::new(from))));
    Memory::new(store.clone(), clock.clone(), ids, Arc::new(Guard))
}
