//! Taint: which files untrusted turns wrote or changed. Whoever reads one is not to be believed any more, until a
//! trusted turn writes it anew or the operator accepts it.
//!
//! A file is known by its path and by its inode, so that it is found again after it was moved and after a backup
//! was restored. What a command changes is found out in its [`Window`].

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    audit::Audit,
    blocking,
    clock::{Clock, Timestamp},
    ids::{Ids, MAIN, PrincipalId, TaskId, TeamKey, TeamName},
    notice::{Notice, NoticeKind},
    org::belongings::Belongings,
    storage::{Storage, StorageError},
    store::{StoreHandle, records::Writes},
    words,
};
use serde::{Deserialize, Serialize};

use self::{
    damage::Damaged,
    seen::{FileId, Moment, Seen},
    stored::Teams,
    window::{Window, WindowRow},
};
use crate::{sandbox::workspace::governance, system::sha256};

mod damage;
pub mod seen;
pub mod stored;
#[cfg(test)]
mod tests;
pub mod watch;
pub mod window;

/// What stands for the task and the tool that nobody knows any more.
const UNKNOWN: &str = "unknown";

/// Writes of governed files that are remembered, so that no window takes them for a command's.
const REMEMBERED: usize = 256;

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
    fn unknown(team: &str) -> Self {
        Self { team: team.into(), task: UNKNOWN.into(), tool: UNKNOWN.to_owned() }
    }

    fn label(
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

/// Why a label is not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaintError {
    #[error("the label of a file cannot be stored: {0}")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no label of that name, or the file was changed since.
    #[error("`{0}` is not the label of a file, or the file was changed since; list them again")]
    Unknown(String),
}

impl TaintError {
    fn store(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Store(Box::new(error))
    }
}

/// Labels of files, for all teams. Cheap to clone; without a store they last as long as the process.
#[derive(Clone, Default)]
pub struct Taint(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kept: Option<Kept>,
    state: Mutex<State>,
    version: AtomicU64,
}

/// Where labels are kept, with what their records need.
pub struct Kept {
    pub store: StoreHandle,
    pub clock: Arc<dyn Clock>,
    pub ids: Ids,
}

#[derive(Default)]
struct State {
    teams: Teams,
    labels: BTreeMap<String, UntrustedFile>,
    /// The labelled files, wherever they are now.
    inodes: HashMap<FileId, String>,
    windows: HashMap<String, WindowRow>,
    /// Governed files as the operator or a trusted turn left them. Only those: what a command can write, it can
    /// also write within the same tick of the clock.
    trusted: VecDeque<(FileId, Moment)>,
    damaged: Damaged,
}

impl State {
    fn insert(&mut self, label: UntrustedFile) {
        self.damaged.forget(&label.path, &self.teams);
        if let Some(seen) = label.seen {
            self.inodes.insert(seen.id, label.path.clone());
        }
        self.labels.insert(label.path.clone(), label);
    }

    fn remove(&mut self, path: &str) -> Option<UntrustedFile> {
        let label = self.labels.remove(path)?;
        if let Some(seen) = label.seen
            && self.inodes.get(&seen.id).is_some_and(|of| of == path)
        {
            self.inodes.remove(&seen.id);
        }
        Some(label)
    }

    fn remember(&mut self, seen: Option<Seen>) {
        if let Some(seen) = seen {
            if self.trusted.len() == REMEMBERED {
                self.trusted.pop_front();
            }
            self.trusted.push_back((seen.id, seen.changed));
        }
    }

    fn holds(&self, place: &Path, seen: &Seen) -> bool {
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

    fn below<'a>(&'a self, roots: &'a [PathBuf]) -> impl Iterator<Item = &'a UntrustedFile> {
        let is_below = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        self.labels.values().filter(move |label| is_below(Path::new(&label.path)))
    }
}

impl fmt::Debug for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taint")
    }
}

impl Taint {
    /// The labels in this store, and windows that a kill left open. What is damaged among them counts as untrusted, and
    /// is looked for below the folder of teams. Blocks.
    pub fn open(
        storage: &dyn Storage,
        teams: &Path,
        kept: Option<Kept>,
    ) -> Result<Self, StorageError> {
        let mut state = State { teams: Teams::at(teams), ..State::default() };
        let (labels, damaged_labels) = damage::rows::<UntrustedFile>(storage)?;
        for label in labels {
            let label = state.teams.found(label);
            state.insert(label);
        }
        let (windows, damaged_windows) = damage::rows::<WindowRow>(storage)?;
        for window in windows {
            // Nobody can tell any more what its command has read.
            let window = WindowRow { sure: true, ..state.teams.found_window(window) };
            state.windows.insert(window.id.clone(), window);
        }
        state.distrust(damaged_labels, damaged_windows);
        let taint = Self(Arc::new(Inner { state: Mutex::new(state), kept, ..Inner::default() }));
        taint.repair();
        Ok(taint)
    }

    /// Looks through what a kill left open, and stores what damage has led to.
    fn repair(&self) {
        let Some(Kept { clock, ids, .. }) = &self.0.kept else { return };
        let repairs = self.state().repairs(clock.now(), ids);
        if let Some(repairs) = repairs {
            let this = self.clone();
            actix::spawn(async move {
                if let Err(error) = this.commit(repairs).await {
                    tracing::error!(%error, "damaged labels of files stay as they are");
                }
            });
        }
        let left: Vec<_> = self.state().windows.values().cloned().collect();
        for row in left {
            actix::spawn(Window { taint: self.clone(), row: Some(row) }.settle());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn teams(&self) -> Teams {
        self.state().teams.clone()
    }

    fn now(&self) -> Timestamp {
        self.0.kept.as_ref().map_or(Timestamp(0), |kept| kept.clock.now())
    }

    async fn commit(&self, writes: Writes) -> Result<(), TaintError> {
        self.0.version.fetch_add(1, Ordering::Relaxed);
        let Some(Kept { store, .. }) = &self.0.kept else { return Ok(()) };
        store.commit(writes).await.map(drop).map_err(TaintError::store)
    }

    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }

    /// Nothing is labelled and nothing untrusted is under way.
    pub fn is_quiet(&self) -> bool {
        let state = self.state();
        state.labels.is_empty() && state.windows.is_empty() && state.damaged.is_empty()
    }

    /// Whether a file that lies at this real path is labelled. Ask after it was read: what changed meanwhile
    /// counts.
    pub fn holds(&self, place: &Path, seen: &Seen) -> bool {
        self.state().holds(place, seen)
    }

    /// The labels of a team, by path.
    pub fn list(&self, team: &TeamName) -> Vec<UntrustedFile> {
        let state = self.state();
        state.labels.values().filter(|label| label.team == *team).cloned().collect()
    }

    /// A governed file is as it should be now, whatever runs. Blocks.
    pub fn trust(&self, path: &Path) {
        let seen = path.canonicalize().ok().and_then(|real| Seen::path(&real).ok());
        self.state().remember(seen);
    }

    /// The same, unless it is in doubt already. Blocks.
    pub fn trust_if_undoubted(&self, path: &Path) {
        let Ok(real) = path.canonicalize() else { return };
        let Ok(seen) = Seen::path(&real) else { return };
        let mut state = self.state();
        if !state.holds(&real, &seen) {
            state.remember(Some(seen));
        }
    }

    /// The operator wrote a governed file anew, whatever runs.
    pub async fn operator_wrote(&self, path: PathBuf) -> Result<(), TaintError> {
        let this = self.clone();
        let found = blocking::run(move || {
            this.trust(&path);
            path.canonicalize()
        });
        match found.await {
            Ok(Ok(real)) => self.written_anew(&real).await,
            // There is nothing that could be labelled.
            _ => Ok(()),
        }
    }

    /// A trusted turn wrote a file anew.
    pub async fn written_anew(&self, place: &Path) -> Result<(), TaintError> {
        let path = place.to_string_lossy();
        let writes = {
            let mut state = self.state();
            let State { damaged, teams, .. } = &mut *state;
            let was_damaged = damaged.forget(&path, teams);
            let is_known = state.remove(&path).is_some() || was_damaged;
            is_known.then(|| state.teams.delete(Writes::new(), &path))
        };
        match writes {
            Some(writes) => self.commit(writes).await,
            None => Ok(()),
        }
    }

    /// A trusted turn changed a part of a file: the rest is what it was.
    pub async fn edited(&self, place: &Path, seen: Option<Seen>) -> Result<(), TaintError> {
        let writes = {
            let mut state = self.state();
            state.remove(&place.to_string_lossy()).map(|label| {
                let label = UntrustedFile { seen, ..label };
                let writes = state.teams.put(Writes::new(), &label);
                state.insert(label);
                writes
            })
        };
        match writes {
            Some(writes) => self.commit(writes).await,
            None => Ok(()),
        }
    }

    /// The operator accepts files of a team as they are, by the names of their labels.
    pub async fn accept(
        &self,
        team: &TeamName,
        ids: &[String],
        by: &PrincipalId,
    ) -> Result<Vec<UntrustedFile>, TaintError> {
        let labels = self.list(team);
        let mut accepted = Vec::new();
        for id in ids {
            let label = labels.iter().find(|label| label.id() == *id);
            accepted.push(label.ok_or_else(|| TaintError::Unknown(id.clone()))?.clone());
        }
        let mut writes = Writes::new();
        let teams = self.teams();
        for label in &accepted {
            writes = teams.delete(writes, &label.path);
            if let Some(Kept { clock, ids, .. }) = &self.0.kept {
                let target = format!("{team}: {}", label.path);
                let audit = Audit::new(ids, clock.now(), by, "file.accept", target, "api", "ok");
                writes = writes.put(&audit);
            }
        }
        self.commit(writes).await?;
        let mut state = self.state();
        for label in &accepted {
            // One that was labelled again meanwhile stays.
            if state.labels.get(&label.path) == Some(label) {
                state.remove(&label.path);
            }
        }
        drop(state);
        self.0.version.fetch_add(1, Ordering::Relaxed);
        Ok(accepted)
    }

    /// A turn changed a file that governs its team: by what class of paths, for the audit.
    pub async fn audit_governed(
        &self,
        worker: &Worker,
        inside: &Path,
        class: governance::Class,
    ) -> Result<(), TaintError> {
        let Some(Kept { clock, ids, .. }) = &self.0.kept else { return Ok(()) };
        let audit = Audit::new(
            ids,
            clock.now(),
            &format!("team:{}", worker.team).as_str().into(),
            "file.write",
            format!("{}: {}", worker.team, inside.display()),
            worker.task.to_string(),
            class.as_str(),
        );
        self.commit(Writes::new().put(&audit)).await
    }

    /// Tells the operator of files by which a team is what it is, and which are not read.
    pub fn report(&self, team: &TeamName, text: &str) {
        tracing::warn!(%team, text, "a file that governs a team is not read");
        if let Some(Kept { store, clock, ids }) = &self.0.kept {
            let notice = Notice {
                id: ids.notice(),
                kind: NoticeKind::ConfigInvalid,
                team: Some(team.clone()),
                text: text.to_owned(),
                refs: Vec::new(),
                at: clock.now(),
                read: false,
            };
            drop(store.commit(Writes::new().put(&notice)));
        }
    }
}

/// Labels in the folder of a team that is shut down go with it. What it wrote elsewhere others still read: those labels become
/// the main team's, where the operator finds them.
impl Belongings for Taint {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let labels = self.list(&team.name);
        let mut state = self.state();
        let folder = state.teams.folder(&team.name);
        let mut writes = Writes::new();
        for label in labels {
            if Path::new(&label.path).starts_with(&folder) {
                writes = state.teams.delete(writes, &label.path);
                state.remove(&label.path);
            } else {
                let label = UntrustedFile { team: MAIN.into(), ..label };
                writes = state.teams.put(writes, &label);
                state.insert(label);
            }
        }
        let writes = if writes.is_empty() { Vec::new() } else { vec![writes] };
        std::future::ready(writes).boxed()
    }
}
