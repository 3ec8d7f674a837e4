//! The vault over a storage in memory and real key files.

use std::{path::PathBuf, sync::Arc};

use actix::Arbiter;
use hivewright_actors::{
    doubles::{clock::ManualClock, disk::MemoryStorage},
    ids::TeamKey,
    store::{
        Store, StoreParts,
        reads::{Range, scan},
    },
};
use tempfile::TempDir;

use super::{master::KeyFiles, *};
use crate::{memory, settings::references::Environment, teams::self_changes};

mod entries;
mod keys;
mod redaction;
mod references;
mod teams;

/// A vault of its own, whose service can be killed and started again.
pub(crate) struct Bench {
    pub(crate) vault: Vault,
    pub(crate) disk: Arc<MemoryStorage>,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let (disk, folder) = (Arc::new(MemoryStorage::default()), tempfile::tempdir().unwrap());
        let clock = Arc::new(ManualClock::default());
        let vault = start(&disk, &folder, &clock);
        Self { vault, disk, clock, folder }
    }

    /// A vault whose key is gone.
    pub(crate) fn locked() -> Self {
        let mut bench = Self::new();
        std::fs::remove_file(bench.key_file("")).unwrap();
        bench.restart();
        bench
    }

    /// Starts anew over what is stored.
    fn restart(&mut self) {
        self.vault = start(&self.disk, &self.folder, &self.clock);
    }

    fn key_file(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("master.key{suffix}"))
    }

    fn files(&self) -> KeyFiles {
        files(&self.folder)
    }

    /// What comes of a value in a scrubbed text.
    fn scrubbed(&self, scope: &Scope, text: &str) -> String {
        let masks = self.vault.secrets_of(|of| of == scope);
        crate::scrub::Scrubber::with(masks).scrub(text).into_owned()
    }
}

impl Vault {
    /// The audit, newest first.
    pub(crate) async fn audit(&self) -> Vec<AuditRow> {
        let read = self.store().unwrap().read(|storage| scan(storage, Range::all()));
        let mut rows = read.await.unwrap();
        rows.reverse();
        rows
    }

    pub(crate) async fn audit_of(&self, action: Action) -> Vec<AuditRow> {
        let mut rows = self.audit().await;
        rows.retain(|row| row.action == action);
        rows
    }
}

fn files(folder: &TempDir) -> KeyFiles {
    KeyFiles::new(folder.path(), &Environment::fixed([]))
}

fn start(disk: &Arc<MemoryStorage>, folder: &TempDir, clock: &Arc<ManualClock>) -> Vault {
    let vault = Vault::open(&**disk, files(folder).read(), clock.clone()).unwrap();
    let redaction = Some(vault.redaction(&[memory::rows::TEXTS, self_changes::TEXTS]));
    let parts = StoreParts { redaction, ..StoreParts::of(disk.clone()) };
    vault.with_store(Store::start(&Arbiter::new().handle(), parts))
}

pub(crate) fn key(name: &str, generation: u32) -> TeamKey {
    TeamKey { name: name.into(), generation }
}

pub(crate) fn team(name: &str) -> Scope {
    Scope::Team(key(name, 1))
}

pub(crate) fn operator() -> Actor {
    Actor::Operator { name: "operator".to_owned(), token: "token-0".to_owned() }
}

pub(crate) fn actor(name: &str) -> Actor {
    Actor::Team { team: key(name, 1), task: "task-1".into() }
}
