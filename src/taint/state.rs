//! State of the labels in memory.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    path::{Path, PathBuf},
};

use hivewright_actors::{
    clock::Timestamp,
    ids::Ids,
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

use super::{
    damage::Damaged,
    label::{Extent, UntrustedFile, WindowRow, Worker},
    seen::{self, FileId, Met, Moment, Seen},
    stored::{Teams, folders},
};
use crate::sandbox::workspace::governance;

/// Writes of governed files that are remembered, so that no window takes them for a command's.
const REMEMBERED: usize = 256;

/// What is labelled, and what is under way.
#[derive(Default)]
pub(super) struct State {
    pub(super) teams: Teams,
    pub(super) labels: BTreeMap<String, UntrustedFile>,
    /// The labelled files, wherever they are now.
    pub(super) inodes: HashMap<FileId, String>,
    pub(super) windows: HashMap<String, WindowRow>,
    /// Governed files as the operator or a trusted turn left them. Only those: what a command can write, it can
    /// also write within the same tick of the clock.
    pub(super) trusted: VecDeque<(FileId, Moment)>,
    pub(super) damaged: Damaged,
}

impl State {
    pub(super) fn insert(&mut self, label: UntrustedFile) {
        self.damaged.forget(&label.path, &self.teams);
        if let Some(seen) = label.seen {
            self.inodes.insert(seen.id, label.path.clone());
        }
        self.labels.insert(label.path.clone(), label);
    }

    pub(super) fn remove(&mut self, path: &str) -> Option<UntrustedFile> {
        let label = self.labels.remove(path)?;
        if let Some(seen) = label.seen
            && self.inodes.get(&seen.id).is_some_and(|of| of == path)
        {
            self.inodes.remove(&seen.id);
        }
        Some(label)
    }

    pub(super) fn remember(&mut self, seen: Option<Seen>) {
        if let Some(seen) = seen {
            if self.trusted.len() == REMEMBERED {
                self.trusted.pop_front();
            }
            self.trusted.push_back((seen.id, seen.changed));
        }
    }

    pub(super) fn holds(&self, place: &Path, seen: &Seen) -> bool {
        let path = place.to_string_lossy();
        let by_inode = || {
            let label = self.labels.get(self.inodes.get(&seen.id)?)?;
            label.seen.filter(|labelled| labelled.is_same_file(seen))
        };
        let in_window = |window: &WindowRow| {
            window.sure && window.is_above(place) && seen.changed >= window.since
        };
        self.labels.contains_key(&*path)
            || by_inode().is_some()
            || self.is_in_labelled_folder(place)
            || self.damaged.holds(place, &self.teams)
            || self.windows.values().any(in_window)
                && !self.trusted.contains(&(seen.id, seen.changed))
    }

    fn is_in_labelled_folder(&self, place: &Path) -> bool {
        let mut above = place.ancestors().skip(1);
        above.any(|folder| match self.labels.get(&*folder.to_string_lossy()) {
            None => false,
            Some(label) => match label.extent {
                Extent::File => false,
                Extent::Folder => true,
                Extent::Workspace => {
                    let inside = place.strip_prefix(folder).unwrap_or(place);
                    !governance::is_governed(inside)
                }
            },
        })
    }

    pub(super) fn below<'a>(
        &'a self,
        roots: &'a [PathBuf],
    ) -> impl Iterator<Item = &'a UntrustedFile> {
        let is_below = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        self.labels.values().filter(move |label| is_below(Path::new(&label.path)))
    }

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
            let kind = NoticeKind::DamagedRecord;
            let notice = Notice::of_team(ids, kind, team, text, Vec::new(), at);
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
