//! Port: the ordered, durable key space that the store actor writes.
#![warn(missing_docs)]

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use crate::order::Order;
use crate::{
    approvals::query::{WaitPage, WaitQuery, WaitWindow},
    audit::query::{AuditPage, AuditQuery, AuditWindow},
    budget::query::{UsagePlace, UsageQuery},
    clock::Timestamp,
    ids::TaskId,
    journal::query::{SessionPage, SessionQuery, SessionWindow},
    order::{Part, Window},
    task::query::{TaskCounts, TaskPage, TaskQuery, TaskWindow},
};

/// The longest key of a record, in bytes. A storage may take it for an error of its own if it gets a longer one.
pub const LONGEST_KEY: usize = 1024;

/// Changes that become visible and durable together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Keys with their new value; none removes the key.
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// What each key comes to: of several changes to it the last one counts.
    pub fn latest(&self) -> BTreeMap<&[u8], Option<&[u8]>> {
        self.changes.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect()
    }
}

impl From<Vec<(Vec<u8>, Option<Vec<u8>>)>> for Batch {
    fn from(changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Self {
        Self { changes }
    }
}

/// Why the storage could not do as told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The disk or the database refused. What was not yet answered may or may not be there.
    #[error("the store cannot be written: {0}")]
    Write(String),
    /// There is no room on the disk. Nothing was written, and the same batch may be tried again.
    #[error("the store cannot be written: the disk is full")]
    Full,
    /// The disk or the database refused.
    #[error("the store cannot be read: {0}")]
    Read(String),
    /// A list went through more than there is time for.
    #[error("the list takes more than {} s; ask for less of it, such as a shorter time or one team", .0.as_secs())]
    TooSlow(Duration),
    /// A record is damaged.
    #[error("record {key} is damaged: {reason}")]
    Damaged {
        /// The record, made readable.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A record that a reader could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its key.
    pub key: Vec<u8>,
    /// What is wrong with it.
    pub reason: String,
    /// What it still held when it was met.
    pub held: Vec<u8>,
}

/// Where readers report damaged records, each once, until somebody takes the reports.
#[derive(Debug, Default)]
pub struct DamageReports {
    state: Mutex<Reported>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Reported {
    known: HashSet<Vec<u8>>,
    waiting: Vec<Damage>,
}

impl DamageReports {
    /// Takes a report, unless the record was reported before.
    pub fn report(&self, key: &[u8], damage: impl FnOnce() -> Damage) {
        if self.state.lock().known.contains(key) {
            return;
        }
        // Reads the record, so not under the lock.
        let damage = damage();
        let mut state = self.state.lock();
        if state.known.insert(key.to_vec()) {
            state.waiting.push(damage);
            self.news.notify_one();
        }
    }

    /// What was reported since it was last taken.
    pub fn take(&self) -> Vec<Damage> {
        std::mem::take(&mut self.state.lock().waiting)
    }

    /// Waits until something was reported.
    pub async fn wait(&self) {
        self.news.notified().await;
    }
}

/// Is shown each record of a scan: key and value, or why the value cannot be read.
pub type Visit<'a> = dyn FnMut(&[u8], Result<&[u8], StorageError>) -> ControlFlow<()> + 'a;

/// An ordered key space. All calls may block, so none is made on an arbiter that serves others.
pub trait Storage: Send + Sync {
    /// Applies a batch whole, and returns once it is durable.
    fn commit(&self, batch: &Batch) -> Result<(), StorageError>;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError>;

    /// Shows the records with `start <= key < end` until the visitor breaks off.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError>;

    /// What a record holds, whatever its state: for the quarantine, never to be taken for true.
    fn salvage(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key).ok().flatten()
    }

    /// Where records are reported that cannot be read; without it they are logged.
    fn damage_reports(&self) -> Option<&DamageReports> {
        None
    }

    /// Its tiers, if it has two.
    fn tiers(&self) -> Option<&dyn Tiers> {
        None
    }
}

/// Is shown a record that is not in the archive yet: its key, and its value unless it was removed.
pub type ShowPending<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// A storage that keeps what is over apart. All calls may block.
pub trait Tiers {
    /// Shows the records of a range that are over and not in the archive yet.
    fn pending(&self, start: &[u8], end: &[u8], show: &mut ShowPending<'_>);

    /// The lists of what is in the archive.
    fn lists(&self) -> &dyn ArchiveLists;

    /// What is wrong with the files of the archive, one line each. Reads all of them.
    fn faults(&self) -> Result<Vec<String>, StorageError>;
}

/// Lists of what is in the archive. All calls may block.
pub trait ArchiveLists {
    /// The wanted part of the archived tasks, but for those that are known already. A task which is the first of all is not
    /// found by its own id as `root`. Asked by [`task::ended`](crate::task::ended) alone.
    fn tasks(
        &self,
        wanted: &TaskQuery,
        window: &TaskWindow,
        known: &HashSet<TaskId>,
    ) -> Result<TaskPage, StorageError>;

    /// How many archived tasks there are, but for those that are known already.
    fn count_tasks(&self, known: &HashSet<TaskId>) -> Result<TaskCounts, StorageError>;

    /// The wanted part of what archived tasks have come to, but for those that are known already.
    fn usage(
        &self,
        wanted: &UsageQuery,
        window: &Window<UsagePlace>,
        known: &HashSet<TaskId>,
    ) -> Result<Part<UsagePlace>, StorageError>;

    /// When an archived task has ended, if it is known what it came to.
    fn usage_known_at(&self, task: &TaskId) -> Result<Option<Timestamp>, StorageError>;

    /// The wanted part of the archived lines of the audit, but for those that are known already, by their stored keys. Asked by
    /// [`audit::lines`](crate::audit::lines) alone.
    fn audit(
        &self,
        wanted: &AuditQuery,
        window: &AuditWindow,
        known: &HashSet<Vec<u8>>,
    ) -> Result<AuditPage, StorageError>;

    /// The wanted part of the archived approvals or questions, which their kind tells apart, but for those that are known
    /// already, by their stored keys. Asked by [`approvals::lists`](crate::approvals::lists) alone.
    fn waits(
        &self,
        of: &'static str,
        wanted: &WaitQuery,
        window: &WaitWindow,
        known: &HashSet<Vec<u8>>,
    ) -> Result<WaitPage, StorageError>;

    /// The wanted part of the sessions whose journals are archived, but for those that are known already, by their ids. Asked by
    /// [`journal::sessions`](crate::journal::sessions) alone.
    fn sessions(
        &self,
        wanted: &SessionQuery,
        window: &SessionWindow,
        known: &HashSet<String>,
    ) -> Result<SessionPage, StorageError>;
}
