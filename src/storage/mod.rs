//! The durable store: sled behind the `Storage` port, with its backups, restores and upgrades.
//!
//! ```text
//! sled.rs      commits and reads             envelope.rs  one stored value: version, checksum, payload
//! open.rs      may this folder be used?      parts.rs     values too large for one record
//! migrate.rs   older formats                 build.rs     a new store, beside the old one
//! backup.rs    store and folders → archive   swap.rs      the one rename that puts it into use
//! restore.rs   archive → store and folders   lost.rs      what a rebuilt store lacks
//! database.rs  sled, opened and really closed tiers.rs     sled and the archive as one store
//! reserve.rs   disk space ahead of need      pending.rs   what is over and not yet in the archive
//! history/     the archive: SQLite           compact.rs   a smaller file for sled
//! high_water_mark.rs  the newest commit, noted beside the store
//! clean_shutdown.rs   whether the store was closed in order
//! ```

pub mod archive;
pub mod backup;
mod build;
mod clean_shutdown;
mod compact;
mod database;
mod envelope;
pub mod error;
pub mod export;
pub(crate) mod folder;
mod high_water_mark;
mod history;
pub mod lost;
pub mod migrate;
pub mod open;
mod parts;
mod pending;
mod preserved;
mod reserve;
pub mod restore;
pub mod sled;
pub(crate) mod swap;
pub mod tiers;

#[cfg(test)]
mod tests;

use std::{
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use hivewright_actors::words;

/// What the folder of teams is called in an archive.
const TEAMS: &str = "teams";

/// Where the things live that a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub store: PathBuf,
    pub backups: PathBuf,
    /// Folders that a backup holds beside the store, by their name in the archive.
    ///
    /// Secrets are not among them: a folder that is not listed never gets into an archive.
    pub folders: Vec<(&'static str, PathBuf)>,
    /// Bytes that a backup leaves free on its disk.
    pub free_space: u64,
}

impl Home {
    /// The layout of a data directory and a run directory.
    pub fn new(data: &Path, run: &Path) -> Self {
        Self {
            store: run.join("store"),
            backups: run.join("backups"),
            folders: vec![
                (TEAMS, run.join("teams")),
                ("files", run.join("files")),
                ("config", data.join("config")),
                ("rules", data.join("rules")),
                ("skills", data.join("skills")),
                ("plugins", data.join("plugins")),
            ],
            free_space: 0,
        }
    }
}

/// How far a piece of long work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
    pub unit: Unit,
}

words! {
    /// What a [`Progress`] counts.
    pub enum Unit {
        /// Records of the store.
        Records = "records",
        /// Files and folders.
        Files = "files",
        /// Bytes of an archive.
        Bytes = "bytes",
    }
}

/// Is told how far long work has come, and says whether it goes on.
pub type OnProgress<'a> = &'a dyn Fn(Progress) -> ControlFlow<()>;

/// For long work that nobody watches.
pub fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Tells how far long work has come. An error if it is to stop.
fn report(progress: OnProgress<'_>, done: u64, total: u64, unit: Unit) -> io::Result<()> {
    match progress(Progress { done, total, unit }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(stopped()),
    }
}

fn stopped() -> io::Error {
    io::Error::other("stopped by the operator")
}
