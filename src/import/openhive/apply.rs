//! Carries a plan out: files are written, rows are committed, each with the mark that it was taken.
//!
//! A commit holds one table of one team. Whatever ends the work in between, the next run goes on with what
//! has no mark yet.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use hivewright_actors::{
    clock::Timestamp,
    ids::{Ids, TeamKey},
    storage::{Storage, StorageError},
    store::{
        reads::{Range, scan_keyed},
        records::Writes,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    moment,
    plan::{Marked, Plan, TeamPlan},
    source::Source,
};
use crate::{
    settings::home::Home,
    vault::{Vault, error::VaultError},
};

mod belongings;
mod channels;
pub(super) mod files;
mod folder;

/// An imported plugin tool as it is kept, by its team and its name.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PluginTool<'a>(Cow<'a, super::plugins::ImportedTool>);

hivewright_actors::records! {
    PluginTool<'_>: "edge\0plugin_tool", String;
    MarkRow: "edge\0import", String;
}

/// Why a plan was not carried out to its end. What was done stays done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The store refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The vault refused.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The disk refused.
    #[error("`{}` cannot be written", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
}

pub(super) fn disk(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ApplyError {
    let path = path.into();
    move |source| ApplyError::Disk { path, source }
}

/// Where a plan is carried out.
pub struct Site<'a> {
    /// The home.
    pub home: &'a Home,
    /// Where the report and the log go.
    pub backups: &'a Path,
    /// Its store, which nobody else uses.
    pub storage: &'a dyn Storage,
    /// Its vault, over the same store.
    pub vault: Vault,
    /// Makes ids.
    pub ids: Ids,
    /// The moment of the import.
    pub now: Timestamp,
    /// Asks to stop at the next safe point.
    pub stop: &'a AtomicBool,
    /// Is told how many things are done, of how many.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Site<'_> {
    /// A file that is kept of this import.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let moment = moment::rfc3339(self.now).replace([':', '.'], "-");
        self.backups.join(format!("import-{moment}.{suffix}"))
    }
}

/// What was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MarkRow {
    /// What it is called here.
    pub(super) name: String,
    /// When.
    pub(super) at: Timestamp,
}

/// The marks of earlier imports.
pub(super) fn marks(storage: &dyn Storage) -> Result<Vec<(String, MarkRow)>, StorageError> {
    scan_keyed(storage, Range::all())
}

/// A plan being carried out.
struct Work<'a> {
    site: &'a Site<'a>,
    done: u64,
    total: u64,
}

/// Carries a plan out. Blocks.
pub(super) fn apply(plan: &Plan, source: &Source, site: &Site<'_>) -> Result<(), ApplyError> {
    let mut work = Work { site, done: 0, total: size(plan) };
    work.system(&plan.system)?;
    work.files(&plan.files)?;
    work.rules(&plan.rules, source)?;
    // Teams before topics: a channel shows that the main team has worked, and one that has is not taken.
    let records = plan.teams.iter().map(|team| work.record(team));
    let keys = records.collect::<Result<Vec<_>, _>>()?;
    work.topics(&plan.topics)?;
    for (team, key) in plan.teams.iter().zip(&keys) {
        work.belongings(team, key, plan)?;
    }
    work.sayings(&plan.sayings, plan)?;
    work.grants(&plan.grants)?;
    work.decisions(&plan.decisions)?;
    work.escalations(&plan.escalations, plan)?;
    match &plan.logs {
        Some(logs) => work.logs(logs),
        None => Ok(()),
    }
}

fn size(plan: &Plan) -> u64 {
    let of_team = |team: &TeamPlan| {
        usize::from(team.record.is_some())
            + usize::from(team.folder.is_some())
            + team.vault.len()
            + team.memories.len()
            + team.triggers.len()
            + team.tasks.len()
            + team.plugins.len()
    };
    let size = plan.system.len()
        + plan.files.len()
        + plan.rules.len()
        + plan.teams.iter().map(of_team).sum::<usize>()
        + plan.topics.len()
        + plan.sayings.len()
        + plan.grants.len()
        + plan.decisions.len()
        + plan.escalations.len();
    size as u64
}

impl Work<'_> {
    /// A safe point: everything so far is durable.
    fn step(&mut self, things: usize) -> Result<(), ApplyError> {
        self.done += things as u64;
        (self.site.progress)(self.done, self.total);
        if self.site.stop.load(Ordering::Relaxed) { Err(ApplyError::Stopped) } else { Ok(()) }
    }

    /// Notes that something was taken.
    fn mark(&self, writes: Writes, mark: &str, name: &str) -> Writes {
        let row = MarkRow { name: name.to_owned(), at: self.site.now };
        writes.put_at(&mark.to_owned(), &row)
    }

    fn commit(&mut self, writes: Writes, things: usize) -> Result<(), ApplyError> {
        if !writes.is_empty() {
            self.site.storage.commit(&writes.batch()?)?;
        }
        self.step(things)
    }

    /// Commits a table: every thing with its mark.
    fn table<T>(
        &mut self,
        things: &[Marked<T>],
        mut row: impl FnMut(Writes, &T) -> (Writes, String),
    ) -> Result<(), ApplyError> {
        let mut writes = Writes::new();
        for Marked { mark, thing } in things {
            let (with, name) = row(writes, thing);
            writes = self.mark(with, mark, &name);
        }
        self.commit(writes, things.len())
    }

    fn belongings(
        &mut self,
        team: &TeamPlan,
        key: &TeamKey,
        plan: &Plan,
    ) -> Result<(), ApplyError> {
        if let Some(folder) = &team.folder {
            self.folder(team, folder)?;
        }
        self.vault(key, &team.vault)?;
        self.memories(key, &team.memories)?;
        self.tasks(key, &team.tasks, plan)?;
        self.triggers(key, &team.triggers)?;
        self.plugins(key, &team.plugins)
    }

    fn plugins(
        &mut self,
        key: &TeamKey,
        tools: &[Marked<super::plugins::ImportedTool>],
    ) -> Result<(), ApplyError> {
        self.table(tools, |writes, tool| {
            let name = format!("{key}/{}", tool.tool);
            (writes.put_at(&name, &PluginTool(Cow::Borrowed(tool))), tool.tool.clone())
        })
    }
}
