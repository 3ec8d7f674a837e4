//! Taint: which files untrusted turns wrote or changed. Whoever reads one is not to be believed any more, until a
//! trusted turn writes it anew or the operator accepts it.
//!
//! A file is known by its path and by its inode, so that it is found again after it was moved and after a backup
//! was restored. What a command changed is told by the kernel: no process can set the time of a file's last
//! change back. While a command runs, whatever changed since it began counts; its [`Window`] is stored before it
//! begins, so that a kill in between forgets nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
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
    clock::{Clock, Timestamp},
    ids::{Ids, PrincipalId, TaskId, TeamKey, TeamName},
    notice::{Notice, NoticeKind},
    org::belongings::Belongings,
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        records::{Keyed, Writes},
    },
    words,
};
use serde::{Deserialize, Serialize};

use self::{
    damage::Damaged,
    seen::{FileId, Met, Moment, Seen},
};
use crate::{sandbox::workspace::governance, system::sha256};

mod damage;
pub mod seen;
#[cfg(test)]
mod tests;
pub mod watch;

/// A command that changed more files than this labels their folders instead.
const MOST_CHANGED: usize = 1_000;
/// The most labels of a team; more become one of the whole workspace.
const MOST_LABELS: usize = 5_000;
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
    /// How far it reaches.
    pub extent: Extent,
    /// The file, as it was labelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// The work that wrote it.
    pub task: TaskId,
    /// The tool it was written with.
    pub tool: String,
    /// When it was labelled.
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
    /// The hash of its path.
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

/// Why a label is not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaintError {
    /// The store cannot be written.
    #[error("the label of a file cannot be stored: {0}")]
    Store(String),
    /// There is no label of that name, or the file was changed since.
    #[error("`{0}` is not the label of a file, or the file was changed since; list them again")]
    Unknown(String),
}

/// Files may be changed by somebody from a moment on, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct WindowRow {
    id: String,
    worker: Worker,
    roots: Vec<PathBuf>,
    since: Moment,
    /// It is known that what changes is not to be believed.
    sure: bool,
}

impl WindowRow {
    fn is_above(&self, place: &Path) -> bool {
        self.roots.iter().any(|root| place.starts_with(root))
    }
}

/// Labels of files, for all teams. Cheap to clone; without a store they last as long as the process.
#[derive(Clone, Default)]
pub struct Taint(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kept: Option<Kept>,
    state: Mutex<State>,
    /// Counts the changes of labels.
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
        self.damaged.forget(&label.path);
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
            || self.damaged.holds(place)
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
        let labels = self.labels.values();
        labels.filter(move |label| is_below(Path::new(&label.path)))
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
        let mut state = State::default();
        let (labels, damaged_labels) = damage::rows::<UntrustedFile>(storage)?;
        for label in labels {
            state.insert(label);
        }
        let (windows, damaged_windows) = damage::rows::<WindowRow>(storage)?;
        for mut window in windows {
            // Nobody can tell any more what its command has read.
            window.sure = true;
            state.windows.insert(window.id.clone(), window);
        }
        state.distrust(damaged_labels, damaged_windows, teams);
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
            let window = Window { taint: self.clone(), row: Some(row) };
            actix::spawn(async move {
                if let Err(error) = window.label_changes().await {
                    tracing::error!(%error, "files that an untrusted turn changed stay in doubt");
                }
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.0.kept.as_ref().map_or(Timestamp(0), |kept| kept.clock.now())
    }

    async fn commit(&self, writes: Writes) -> Result<(), TaintError> {
        self.0.version.fetch_add(1, Ordering::Relaxed);
        let Some(Kept { store, .. }) = &self.0.kept else {
            return Ok(());
        };
        let failed =
            |error: hivewright_actors::store::StoreError| TaintError::Store(error.to_string());
        store.commit(writes).await.map(drop).map_err(failed)
    }

    /// Grows whenever labels change.
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
        let labels = state.labels.values();
        labels.filter(|label| label.team == *team).cloned().collect()
    }

    /// Begins to watch what an untrusted turn changes at or below these real paths. Durable when it returns.
    pub async fn begin(&self, worker: Worker, roots: Vec<PathBuf>) -> Result<Window, TaintError> {
        self.begin_at(worker, roots, seen::now(), true).await
    }

    async fn begin_at(
        &self,
        worker: Worker,
        roots: Vec<PathBuf>,
        since: Moment,
        sure: bool,
    ) -> Result<Window, TaintError> {
        let bits = getrandom::u64().map_err(|error| TaintError::Store(error.to_string()))?;
        let row = WindowRow { id: format!("{bits:016x}"), worker, roots, since, sure };
        self.state().windows.insert(row.id.clone(), row.clone());
        let window = Window { taint: self.clone(), row: Some(row.clone()) };
        self.commit(Writes::new().put(&row)).await?;
        Ok(window)
    }

    /// A governed file is as it should be now, whatever runs. Blocks.
    pub fn trust(&self, path: &Path) {
        let seen = path.canonicalize().ok();
        let seen = seen.and_then(|real| Seen::path(&real).ok());
        self.state().remember(seen);
    }

    /// The same, unless it is in doubt already. Blocks.
    pub fn trust_if_undoubted(&self, path: &Path) {
        let Ok(real) = path.canonicalize() else {
            return;
        };
        let Ok(seen) = Seen::path(&real) else {
            return;
        };
        let mut state = self.state();
        if !state.holds(&real, &seen) {
            state.remember(Some(seen));
        }
    }

    /// The operator wrote a governed file anew, whatever runs.
    pub async fn operator_wrote(&self, path: PathBuf) -> Result<(), TaintError> {
        let this = self.clone();
        let found = tokio::task::spawn_blocking(move || {
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
        let (label, was_damaged) = {
            let mut state = self.state();
            (state.remove(&path), state.damaged.forget(&path))
        };
        match label {
            Some(label) => self.commit(Writes::new().delete::<UntrustedFile>(&label.key())).await,
            None if was_damaged => self.commit(damage::dropped(&path)).await,
            None => Ok(()),
        }
    }

    /// A trusted turn changed a part of a file: the rest is what it was.
    pub async fn edited(&self, place: &Path, seen: Option<Seen>) -> Result<(), TaintError> {
        let label = {
            let mut state = self.state();
            let label = state.remove(&place.to_string_lossy());
            let label = label.map(|label| UntrustedFile { seen, ..label });
            if let Some(label) = &label {
                state.insert(label.clone());
            }
            label
        };
        match label {
            Some(label) => self.commit(Writes::new().put(&label)).await,
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
            let label = label.ok_or_else(|| TaintError::Unknown(id.clone()))?;
            accepted.push(label.clone());
        }
        let mut writes = Writes::new();
        for label in &accepted {
            writes = writes.delete::<UntrustedFile>(&label.key());
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
        let Some(Kept { clock, ids, .. }) = &self.0.kept else {
            return Ok(());
        };
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

    /// Labels follow files that were moved, and go with those that are gone. `met` says where files are now. Blocks.
    fn follow(&self, roots: &[PathBuf], met: &HashMap<FileId, PathBuf>) -> Writes {
        let labelled: Vec<_> = self.state().below(roots).cloned().collect();
        let is_astray = |label: &UntrustedFile| {
            let now = Seen::path(Path::new(&label.path)).ok();
            let is_there =
                now.is_some_and(|now| label.seen.is_none_or(|seen| seen.is_same_file(&now)));
            label.extent == Extent::File && !is_there
        };
        let astray: Vec<_> = labelled.into_iter().filter(is_astray).collect();
        let mut writes = Writes::new();
        let mut state = self.state();
        for label in astray {
            if let Some(path) = label.seen.and_then(|seen| met.get(&seen.id)) {
                let moved =
                    UntrustedFile { path: path.to_string_lossy().into_owned(), ..label.clone() };
                writes = writes.put(&moved);
                state.insert(moved);
            }
            // Something else at its path may be the same file, restored from a backup.
            if !Path::new(&label.path).exists() {
                state.remove(&label.path);
                writes = writes.delete::<UntrustedFile>(&label.key());
            }
        }
        writes
    }
}

impl State {
    fn remember(&mut self, seen: Option<Seen>) {
        if let Some(seen) = seen {
            if self.trusted.len() == REMEMBERED {
                self.trusted.pop_front();
            }
            self.trusted.push_back((seen.id, seen.changed));
        }
    }
}

/// A time during which somebody who is not believed may change files. What changed is labelled when it ends, also
/// if it is only dropped.
#[must_use]
#[derive(Debug)]
pub struct Window {
    taint: Taint,
    /// Taken when it has ended.
    row: Option<WindowRow>,
}

impl Window {
    /// Ends it with these files labelled, and no others.
    pub async fn label(mut self, files: Vec<(PathBuf, Option<Seen>)>) -> Result<(), TaintError> {
        let Some(row) = self.row.clone() else {
            return Ok(());
        };
        let labels = files.into_iter().map(|(path, seen)| (path, seen, Extent::File));
        let taint = self.taint.clone();
        let writes = taint.write_labels(&row, labels.collect(), Writes::new());
        self.row = None;
        taint.close(&row, writes).await
    }

    /// Ends it: what it was opened for did not happen, or a person agreed to it.
    pub async fn dismiss(mut self) -> Result<(), TaintError> {
        let Some(row) = self.row.take() else {
            return Ok(());
        };
        let taint = self.taint.clone();
        taint.close(&row, Writes::new()).await
    }

    /// Ends it with all that changed since it began. Whoever changed it must have ended.
    pub async fn label_changes(mut self) -> Result<(), TaintError> {
        let Some(row) = self.row.clone() else {
            return Ok(());
        };
        let taint = self.taint.clone();
        let (of, within) = (taint.clone(), row.clone());
        let looked = tokio::task::spawn_blocking(move || of.look_through(&within)).await;
        let writes = looked.map_err(|error| TaintError::Store(error.to_string()))?;
        self.row = None;
        taint.close(&row, writes).await
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let Some(row) = self.row.take() else { return };
        // Without a runtime the process ends: the window is found open at the next start.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let window = Self { taint: self.taint.clone(), row: Some(row) };
            runtime.spawn(async move {
                // Whatever was cut off has been killed by then; until then all that changes is in doubt.
                tokio::time::sleep(crate::sandbox::process::SETTLED).await;
                if let Err(error) = window.label_changes().await {
                    tracing::error!(%error, "files that an untrusted turn changed stay in doubt");
                }
            });
        }
    }
}

impl Taint {
    async fn close(&self, row: &WindowRow, writes: Writes) -> Result<(), TaintError> {
        let closed = self.commit(writes.delete::<WindowRow>(&row.key())).await;
        // Only now: until the labels are durable, the window stands for them.
        self.state().windows.remove(&row.id);
        self.0.version.fetch_add(1, Ordering::Relaxed);
        closed
    }

    /// Labels what changed in a window. Blocks.
    fn look_through(&self, row: &WindowRow) -> Writes {
        let wanted: HashSet<FileId> = {
            let state = self.state();
            let labelled = state.below(&row.roots).filter_map(|label| label.seen);
            labelled.map(|seen| seen.id).collect()
        };
        let mut met = HashMap::new();
        let mut labels = Vec::new();
        for root in &row.roots {
            let mut changed = Vec::new();
            let whole = seen::walk(root, &mut |found| match found {
                Met::File(path, seen) => {
                    if wanted.contains(&seen.id) {
                        met.insert(seen.id, path.clone());
                    }
                    if seen.changed >= row.since {
                        changed.push((path, Some(seen), Extent::File));
                    }
                }
                Met::Closed(path) => changed.push((path, None, Extent::Folder)),
            });
            let state = self.state();
            changed.retain(|(_, seen, _)| {
                seen.is_none_or(|seen| !state.trusted.contains(&(seen.id, seen.changed)))
            });
            drop(state);
            labels.extend(gathered(root, changed, whole));
        }
        let moved = self.follow(&row.roots, &met);
        self.write_labels(row, labels, moved)
    }

    fn write_labels(
        &self,
        row: &WindowRow,
        labels: Vec<(PathBuf, Option<Seen>, Extent)>,
        mut writes: Writes,
    ) -> Writes {
        let at = self.now();
        let mut state = self.state();
        for (path, seen, extent) in labels {
            let label = UntrustedFile {
                team: row.worker.team.clone(),
                path: path.to_string_lossy().into_owned(),
                extent,
                seen,
                task: row.worker.task.clone(),
                tool: row.worker.tool.clone(),
                at,
            };
            writes = writes.put(&label);
            state.insert(label);
        }
        for root in &row.roots {
            let one = std::slice::from_ref(root);
            let below: Vec<_> = state.below(one).map(|label| label.path.clone()).collect();
            if below.len() <= MOST_LABELS {
                continue;
            }
            let whole = UntrustedFile {
                team: row.worker.team.clone(),
                path: root.to_string_lossy().into_owned(),
                extent: Extent::Workspace,
                seen: None,
                task: row.worker.task.clone(),
                tool: row.worker.tool.clone(),
                at,
            };
            for path in below {
                let inside = Path::new(&path).strip_prefix(root);
                if inside.is_ok_and(|inside| !governance::is_governed(inside))
                    && let Some(label) = state.remove(&path)
                {
                    writes = writes.delete::<UntrustedFile>(&label.key());
                }
            }
            writes = writes.put(&whole);
            state.insert(whole);
        }
        writes
    }
}

type Label = (PathBuf, Option<Seen>, Extent);

/// Many changes become labels of the folders right below the root, or of the whole root if not all was seen. What
/// governs a team keeps labels of its own.
fn gathered(root: &Path, changed: Vec<Label>, whole: bool) -> Vec<Label> {
    if whole && changed.len() <= MOST_CHANGED {
        return changed;
    }
    let mut labels: BTreeMap<PathBuf, (Option<Seen>, Extent)> = BTreeMap::new();
    if !whole {
        labels.insert(root.to_owned(), (None, Extent::Workspace));
    }
    for (path, seen, extent) in changed {
        let inside = path.strip_prefix(root).unwrap_or(&path);
        let mut parts = inside.components();
        let top = parts.next().map(|top| root.join(top));
        match top {
            _ if governance::is_governed(inside) => {
                labels.insert(path, (seen, extent));
            }
            Some(top) if whole && top != path => {
                labels.insert(top, (None, Extent::Folder));
            }
            _ if whole => {
                labels.insert(path, (seen, extent));
            }
            _ => {}
        }
    }
    let labels = labels.into_iter();
    labels.map(|(path, (seen, extent))| (path, seen, extent)).collect()
}

impl Belongings for Taint {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let labels = self.list(&team.name);
        let mut state = self.state();
        let mut writes = Writes::new();
        for label in &labels {
            state.remove(&label.path);
            writes = writes.delete::<UntrustedFile>(&label.key());
        }
        let writes = if labels.is_empty() { Vec::new() } else { vec![writes] };
        std::future::ready(writes).boxed()
    }
}
