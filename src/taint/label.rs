//! Labels: what untrusted turns wrote or changed, and the windows in which they may change more.

use std::path::{Path, PathBuf};

use hivewright_actors::{
    clock::Timestamp,
    ids::{TaskId, TeamName},
    words,
};
use serde::{Deserialize, Serialize};

use super::seen::{Moment, Seen};
use crate::system::sha256;

/// What stands for the task and the tool that nobody knows any more.
const UNKNOWN: &str = "unknown";

words! {
    /// How far a label reaches.
    pub enum Extent {
        /// One file.
        File = "file",
        /// All that is below a folder.
        Folder = "folder",
        /// All that is in the workspace, but for the files that govern it.
        Workspace = "workspace",
    }
}

/// A label: something that an untrusted turn wrote or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntrustedFile {
    /// The team whose turn it was.
    pub team: TeamName,
    /// The real path; letters that are not UTF-8 are replaced.
    pub path: String,
    pub extent: Extent,
    /// The file, as it was labelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    pub task: TaskId,
    pub tool: String,
    pub at: Timestamp,
}

impl UntrustedFile {
    /// Names this state of the file: another change makes another name.
    pub fn id(&self) -> String {
        let state = self.seen.map(|seen| (seen.id, seen.changed));
        let mut id = sha256(format!("{}\0{state:?}\0{}", self.path, self.at).as_bytes());
        id.truncate(16);
        id
    }
}

hivewright_actors::records! {
    /// The hash of its path, as that is stored.
    UntrustedFile: "edge\0untrusted-file", String, |row| sha256(row.path.as_bytes());
    /// The hash of its id.
    WindowRow: "edge\0untrusted-window", String, |row| sha256(row.id.as_bytes());
}

/// Whose work changes files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub team: TeamName,
    pub task: TaskId,
    pub tool: String,
}

impl Worker {
    /// Somebody in a team.
    pub(super) fn unknown(team: &str) -> Self {
        Self { team: team.into(), task: UNKNOWN.into(), tool: UNKNOWN.to_owned() }
    }

    pub(super) fn label(
        &self,
        path: &Path,
        seen: Option<Seen>,
        extent: Extent,
        at: Timestamp,
    ) -> UntrustedFile {
        let path = path.to_string_lossy().into_owned();
        let Self { team, task, tool } = self.clone();
        UntrustedFile { team, path, extent, seen, task, tool, at }
    }
}

/// Files may be changed by somebody from a moment on, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WindowRow {
    pub(super) id: String,
    pub(super) worker: Worker,
    pub(super) roots: Vec<PathBuf>,
    pub(super) since: Moment,
    /// It is known that what changes is not to be believed.
    pub(super) sure: bool,
}

impl WindowRow {
    pub(super) fn is_above(&self, place: &Path) -> bool {
        self.roots.iter().any(|root| place.starts_with(root))
    }
}
