//! The vault over a storage in memory and real key files.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use actix::Arbiter;
use hivewright_actors::{
    ids::TeamKey,
    storage::{Batch, Order, Storage, StorageError, Visit},
    store::Store,
};
use tempfile::TempDir;

use super::{audit::Wanted, master::KeyFiles, *};
use crate::{
    http::doubles::{Hands, Memory},
    settings::references::Environment,
};

mod entries;
mod keys;
mod redaction;
mod references;
mod teams;

/// A vault of its own, whose service can be killed and started again.
pub(crate) struct Bench {
    pub(crate) vault: Vault,
    pub(crate) disk: Arc<Disk>,
    clock: Arc<Hands>,
    folder: TempDir,
}

/// A storage that can break.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    memory: Memory,
    broken: AtomicBool,
    /// It breaks after so many commits.
    left: Mutex<Option<usize>>,
}

impl Storage for Disk {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        if let Some(left) = &mut *self.left.lock().unwrap() {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => self.break_down(true),
            }
        }
        if self.broken.load(Ordering::SeqCst) {
            Err(StorageError::Write("broken".to_owned()))
        } else {
            self.memory.commit(batch)
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.memory.get(key)
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        self.memory.scan(start, end, order, visit)
    }
}

impl Disk {
    pub(super) fn break_down(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    /// It breaks after so many more commits.
    fn lose_after(&self, commits: usize) {
        *self.left.lock().unwrap() = Some(commits);
    }

    fn is_lost(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    fn mend(&self) {
        *self.left.lock().unwrap() = None;
        self.break_down(false);
    }

    /// All that is stored, as text.
    pub(crate) fn text(&self) -> String {
        self.memory.text()
    }

    /// Keys whose printed form holds a text.
    fn keys(&self, part: &str) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        self.scan(&[], &[0xff], Order::Rising, &mut |key, _| {
            if String::from_utf8_lossy(key).contains(part) {
                keys.push(key.to_vec());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        keys
    }

    /// The only record whose key holds a text.
    fn record(&self, part: &str) -> (Vec<u8>, Vec<u8>) {
        let [key] = &self.keys(part)[..] else {
            panic!("{:?} records for `{part}`", self.keys(part).len());
        };
        (key.clone(), self.get(key).unwrap().unwrap())
    }

    fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let changes = vec![(key, value)];
        self.memory.commit(&Batch { changes }).unwrap();
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let (disk, folder) = (Arc::new(Disk::default()), tempfile::tempdir().unwrap());
        let clock = Arc::new(Hands::default());
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
        let masks = self.vault.secrets_of([scope]);
        crate::scrub::Scrubber::with(masks).scrub(text).into_owned()
    }
}

fn files(folder: &TempDir) -> KeyFiles {
    KeyFiles::new(folder.path(), &Environment::fixed([]))
}

fn start(disk: &Arc<Disk>, folder: &TempDir, clock: &Arc<Hands>) -> Vault {
    let vault = Vault::open(&**disk, files(folder), clock.clone()).unwrap();
    let store =
        Store::start(&Arbiter::new().handle(), disk.clone(), Box::new(|_| {}), Box::new(|_, _| {}));
    vault.attach(store);
    vault
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
