//! Applying a plan: files are written, rows are committed, each with the mark that it was taken.
//!
//! Whatever ends the work between two commits, the next run goes on with what has no mark yet.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use hivewright_actors::{
    clock::Timestamp,
    storage::{Storage, StorageError},
    store::records::Writes,
};

use super::{
    files::{DiskError, write_file},
    plan::{Artifact, Plan, Planned},
    target::MarkRow,
    topics,
};
use crate::{
    settings::home::Home,
    vault::{Vault, audit::Actor, error::VaultError},
};

/// Why a plan was not carried out to its end. What was done stays done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Where a plan is carried out.
pub struct Site<'a> {
    pub home: &'a Home,
    /// Where the report and the log go.
    pub backups: &'a Path,
    /// The store of the home, which nobody else uses.
    pub storage: &'a dyn Storage,
    /// The vault over the same store.
    pub vault: Vault,
    pub now: Timestamp,
    /// Asks to stop at the next safe point.
    pub stop: &'a AtomicBool,
    /// Is told how many things are done, of how many.
    pub progress: &'a dyn Fn(u64, u64),
}

/// Carries a plan out. Blocks.
pub(super) fn apply(plan: &Plan, site: &Site<'_>) -> Result<(), ApplyError> {
    let mut done = 0;
    for batch in plan.batches() {
        let mut writes = Writes::new();
        for Planned { mark, artifact, .. } in batch {
            let row = MarkRow { name: artifact.name(), at: site.now };
            writes = site.make(artifact, writes)?.put_at(mark, &row);
        }
        site.storage.commit(&writes.batch()?)?;
        done += batch.len();
        (site.progress)(done as u64, plan.planned.len() as u64);
        if site.stop.load(Ordering::Relaxed) {
            return Err(ApplyError::Stopped);
        }
    }
    Ok(())
}

impl Site<'_> {
    /// A file that is kept of this import.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let moment = self.now.date().replace([':', '.'], "-");
        self.backups.join(format!("import-{moment}.{suffix}"))
    }

    /// Makes files at once, and rows with the commit that is being put together.
    fn make(&self, artifact: &Artifact, writes: Writes) -> Result<Writes, ApplyError> {
        Ok(match artifact {
            Artifact::SettingsFile { name, text } => {
                write_file(&self.home.data().join("config").join(name), text)?;
                writes
            }
            Artifact::Rule { name, text } => {
                write_file(&self.home.rules().join(name), text)?;
                writes
            }
            Artifact::Folder(folder) => {
                folder.make(self.home)?;
                writes
            }
            Artifact::Log(lines) => {
                write_file(&self.beside("log.jsonl"), lines)?;
                writes
            }
            Artifact::MainTeam => writes,
            Artifact::Team(record) => writes.put(&**record),
            Artifact::Secret(entry) => {
                let put = (entry.key.clone(), entry.put());
                writes.and(self.vault.set_at_rest(&entry.scope, [put], &Actor::System)?)
            }
            Artifact::Memory(entry) => writes.put(&**entry),
            Artifact::Topic(channel, topic, events) => {
                writes.and(topics::rows(channel, topic, events, self.now))
            }
            Artifact::Row { writes: row, .. } => writes.and(row.clone()),
        })
    }
}
