//! Labels and windows as they are stored: paths below the folder of teams are told from there on, so that they hold where a
//! backup is restored into another home.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hivewright_actors::{
    clock::Timestamp,
    ids::TeamName,
    store::{
        keys::key_of,
        records::{Keyed, Record, Writes},
    },
};

use super::{
    label::{UntrustedFile, WindowRow, Worker},
    seen,
};
use crate::system::sha256;

/// The folder of teams, by its real path. The default is nowhere, and changes no path.
#[derive(Clone, Debug, Default)]
pub(super) struct Teams(PathBuf);

impl Teams {
    /// Blocks.
    pub(super) fn at(teams: &Path) -> Self {
        Self(teams.canonicalize().unwrap_or_else(|_| teams.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn folder(&self, team: &TeamName) -> PathBuf {
        self.0.join(team.as_str())
    }

    /// Names that the row of a path may have: former versions told the whole path.
    pub(super) fn keys(&self, path: &str) -> [String; 2] {
        [self.stored(Path::new(path)), Path::new(path)]
            .map(|path| sha256(path.to_string_lossy().as_bytes()))
    }

    pub(super) fn put(&self, writes: Writes, label: &UntrustedFile) -> Writes {
        let path = self.stored(Path::new(&label.path)).to_string_lossy().into_owned();
        self.delete(writes, &label.path).put(&UntrustedFile { path, ..label.clone() })
    }

    pub(super) fn delete(&self, writes: Writes, path: &str) -> Writes {
        self.keys(path).iter().fold(writes, |writes, key| writes.delete::<UntrustedFile>(key))
    }

    pub(super) fn put_window(&self, writes: Writes, window: &WindowRow) -> Writes {
        let roots = window.roots.iter().map(|root| self.stored(root).to_owned()).collect();
        writes.put(&WindowRow { roots, ..window.clone() })
    }

    pub(super) fn found(&self, label: UntrustedFile) -> UntrustedFile {
        let path = self.0.join(&label.path).to_string_lossy().into_owned();
        UntrustedFile { path, ..label }
    }

    pub(super) fn found_window(&self, window: WindowRow) -> WindowRow {
        let roots = window.roots.iter().map(|root| self.0.join(root)).collect();
        WindowRow { roots, ..window }
    }

    fn stored<'a>(&self, path: &'a Path) -> &'a Path {
        let inside = path.strip_prefix(&self.0).ok();
        inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path)
    }
}

/// The folders of all teams. Blocks.
pub(super) fn folders(teams: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(teams).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Records for a store that is older than the folders of its teams: nobody knows who changed what since, so that all of it
/// is in doubt. Blocks.
pub fn doubts(teams: &Path, since: Timestamp) -> serde_json::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = folders(teams)
        .into_iter()
        .filter_map(|folder| folder.file_name()?.to_str().map(str::to_owned));
    let rows = names.map(|team| {
        let window = WindowRow {
            id: format!("restored {team}"),
            worker: Worker::unknown(&team),
            roots: vec![team.into()],
            since: seen::moment(since),
            sure: true,
        };
        Ok((key_of(WindowRow::KIND, &window.key()), serde_json::to_vec(&window)?))
    });
    rows.collect()
}
