//! Damaged labels: they count as untrusted.
//!
//! The key of a label is the hash of its path, so that the file is found again where the row says nothing. Found below
//! the folders of teams, it is labelled anew, and the operator can accept it. Until then, and elsewhere, whatever lies
//! at that path or below it counts. Of a window nothing is known but that it was open: all teams' folders count.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use hivewright_actors::{
    storage::{Order, Storage, StorageError},
    store::{
        reads::{Range, parse},
        records::Record,
    },
};
use serde::de::DeserializeOwned;

use super::{label::UntrustedFile, stored::Teams};

/// What cannot be read of the labels.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    /// Hashes of paths whose files were not found.
    pub(super) paths: HashSet<String>,
    /// Where they are not, if all of it was looked through.
    pub(super) searched: Option<PathBuf>,
    /// Labels that take the place of damaged rows, until they are stored.
    pub(super) anew: Vec<UntrustedFile>,
    /// Names of the rows of windows.
    pub(super) windows: Vec<String>,
}

impl Damaged {
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether the label of this place, or of a folder above it, cannot be read.
    pub(super) fn holds(&self, place: &Path, teams: &Teams) -> bool {
        !self.paths.is_empty() && place.ancestors().any(|path| self.is_damaged(path, teams))
    }

    pub(super) fn is_damaged(&self, path: &Path, teams: &Teams) -> bool {
        teams.keys(&path.to_string_lossy()).iter().any(|key| self.paths.contains(key))
    }

    /// Whether a command that sees these paths may read such a file.
    pub(super) fn is_below(&self, roots: &[PathBuf]) -> bool {
        let is_searched = |root: &PathBuf| {
            let searched = self.searched.as_ref();
            searched.is_some_and(|searched| root.starts_with(searched))
        };
        !self.paths.is_empty() && !roots.iter().all(is_searched)
    }

    /// The place has another label now, or is written anew. Returns whether its label could not be read.
    pub(super) fn forget(&mut self, path: &str, teams: &Teams) -> bool {
        !self.paths.is_empty()
            && teams.keys(path).map(|key| self.paths.remove(&key)).contains(&true)
    }
}

/// All rows of a kind, and the names of those that cannot be read, which are reported.
pub(super) fn rows<R: Record<Key = String> + DeserializeOwned>(
    storage: &dyn Storage,
) -> Result<(Vec<R>, Vec<String>), StorageError> {
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    Range::<R>::all().walk(storage, Order::Rising, &mut |key, row| {
        match row {
            Ok(row) => rows.push(row),
            Err(_) => damaged.extend(parse::<R>(key)),
        }
        ControlFlow::Continue(())
    })?;
    Ok((rows, damaged))
}
