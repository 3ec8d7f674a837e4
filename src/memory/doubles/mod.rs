//! Memory over a real store, with the rows in this process: for tests.

use std::sync::Arc;

use actix::Arbiter;
use hivewright_actors::{
    doubles::{clock::ManualClock, disk::MemoryStorage, entropy::Sequence},
    ids::{Ids, TeamKey},
    live::Publisher,
    store::{Store, StoreHandle, StoreParts},
};

use super::{Memory, SecretGuard};

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
}

/// Knows no secret.
pub(crate) struct NoSecrets;

impl SecretGuard for NoSecrets {
    fn holds_secret(&self, _: &TeamKey, _: &str) -> Option<String> {
        None
    }

    fn holds_hidden(&self, _: &TeamKey, _: &str) -> bool {
        false
    }
}

/// A memory, and what it stands on.
pub(crate) struct Bench {
    pub(crate) disk: Arc<MemoryStorage>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) live: Publisher,
    pub(crate) store: StoreHandle,
    pub(crate) memory: Memory,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let (disk, clock) = (Arc::new(MemoryStorage::default()), Arc::new(ManualClock::default()));
        let live = Publisher::new(1, clock.clone());
        let parts = StoreParts { live: Some(live.clone()), ..StoreParts::of(disk.clone()) };
        let store = Store::start(&Arbiter::current(), parts);
        let memory = started(&store, &clock, 1);
        Self { disk, clock, live, store, memory }
    }

    /// As another process would find it.
    pub(crate) fn restarted(&self) -> Memory {
        started(&self.store, &self.clock, 1 << 32)
    }
}

fn started(store: &StoreHandle, clock: &Arc<ManualClock>, from: u64) -> Memory {
    let ids = Ids::new(Arc::new(Sequence::from(from)));
    Memory::new(store.clone(), clock.clone(), ids, Arc::new(Guard))
}
