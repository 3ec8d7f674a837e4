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
    clock::Timestamp,
    ids::Ids,
    notice::{Notice, NoticeKind},
    storage::{Order, Storage, StorageError},
    store::{
        reads::{Range, parse},
        records::{Record, Writes},
    },
};
use serde::de::DeserializeOwned;

use super::{
    Extent, State, UntrustedFile, Worker,
    seen::{self, Met, Seen},
    stored::{Teams, folders},
    window::WindowRow,
};

/// What cannot be read of the labels.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    /// Hashes of paths whose files were not found.
    paths: HashSet<String>,
    /// Where they are not, if all of it was looked through.
    searched: Option<PathBuf>,
    /// Labels that take the place of damaged rows, until they are stored.
    anew: Vec<UntrustedFile>,
    /// Names of the rows of windows.
    windows: Vec<String>,
}

impl Damaged {
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether the label of this place, or of a folder above it, cannot be read.
    pub(super) fn holds(&self, place: &Path, teams: &Teams) -> bool {
        !self.paths.is_empty() && place.ancestors().any(|path| self.is_damaged(path, teams))
    }

    fn is_damaged(&self, path: &Path, teams: &Teams) -> bool {
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

impl State {
    /// Labels anew what the damaged rows were about, as far as it is found below the folder of teams. Blocks.
    pub(super) fn distrust(&mut self, labels: Vec<String>, windows: Vec<String>) {
        self.damaged.paths = labels.into_iter().collect();
        let teams = self.teams.path().to_owned();
        if !windows.is_empty() {
            for folder in folders(&teams) {
                self.label_anew(&teams, &folder);
            }
        }
        self.damaged.windows = windows;
        if self.damaged.is_empty() {
            return;
        }
        let mut found = HashSet::new();
        let mut is_open = true;
        let is_whole = seen::walk(&teams, &mut |met| {
            let path = match met {
                Met::File(path, _) => path,
                Met::Closed(path) => {
                    is_open = false;
                    path
                }
            };
            let above = path.ancestors().take_while(|path| *path != teams);
            let damaged = above.filter(|path| self.damaged.is_damaged(path, &self.teams));
            found.extend(damaged.map(Path::to_owned));
        });
        for path in found {
            self.label_anew(&teams, &path);
        }
        self.damaged.searched = (is_whole && is_open).then_some(teams);
    }

    fn label_anew(&mut self, teams: &Path, path: &Path) {
        let inside = path.strip_prefix(teams).unwrap_or(path);
        let Some(team) = inside.components().next() else { return };
        let team = team.as_os_str().to_string_lossy();
        let extent = match (path.is_dir(), inside == Path::new(&*team)) {
            (true, true) => Extent::Workspace,
            (true, false) => Extent::Folder,
            (false, _) => Extent::File,
        };
        let worker = Worker::unknown(&team);
        let seen = (extent == Extent::File).then(|| Seen::path(path).ok()).flatten();
        let label = worker.label(path, seen, extent, Timestamp::default());
        self.insert(label.clone());
        self.damaged.anew.push(label);
    }

    /// What is to be stored in place of the damaged rows, with a word to the operator.
    pub(super) fn repairs(&mut self, at: Timestamp, ids: &Ids) -> Option<Writes> {
        let (anew, windows) =
            (std::mem::take(&mut self.damaged.anew), std::mem::take(&mut self.damaged.windows));
        if anew.is_empty() && windows.is_empty() {
            return None;
        }
        let mut writes = Writes::new();
        for label in anew {
            let (team, path) = (&label.team, &label.path);
            let text = format!(
                "It cannot be read any more who wrote `{path}`: it counts as untrusted. Look at it, and accept it on the page of team `{team}`."
            );
            let notice = Notice {
                id: ids.notice(),
                kind: NoticeKind::DamagedRecord,
                team: Some(team.clone()),
                text,
                refs: Vec::new(),
                at,
                read: false,
            };
            let label = UntrustedFile { at, ..label };
            writes = self.teams.put(writes, &label).put(&notice);
            self.insert(label);
        }
        for window in windows {
            writes = writes.delete::<WindowRow>(&window);
        }
        Some(writes)
    }
}
