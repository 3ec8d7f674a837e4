//! Windows: times during which somebody who is not believed may change files.
//!
//! What a command changed is told by the kernel: no process can set the time of a file's last change back. While a
//! window is open, whatever changed since it began counts; it is stored before the command begins, so that a kill in
//! between forgets nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use hivewright_actors::{
    blocking,
    policy::caution::SELF_FILE,
    store::records::{Keyed, Writes},
};

use super::{
    Kept, Taint, TaintError,
    label::{Extent, UntrustedFile, WindowRow, Worker},
    seen::{self, FileId, Met, Moment, Seen},
};
use crate::{
    sandbox::{
        process::{self, SandboxError},
        workspace::{Workspace, governance},
    },
    settings::folder_access::Access,
};

/// A command that changed more files than this labels their folders instead.
pub(super) const MOST_CHANGED: usize = 1_000;
/// The most labels of a team; more become one of the whole workspace.
const MOST_LABELS: usize = 5_000;

/// What is labelled, and how far.
type Label = (PathBuf, Option<Seen>, Extent);

/// A time during which somebody who is not believed may change files. What changed is labelled when it ends, also
/// if it is only dropped.
#[must_use]
#[derive(Debug)]
pub struct Window {
    pub(super) taint: Taint,
    /// Taken when it has ended.
    pub(super) row: Option<WindowRow>,
}

impl Window {
    /// Ends it with these files labelled, and no others.
    pub async fn label(mut self, files: Vec<(PathBuf, Option<Seen>)>) -> Result<(), TaintError> {
        let Some(row) = self.row.clone() else { return Ok(()) };
        let labels = files.into_iter().map(|(path, seen)| (path, seen, Extent::File));
        let taint = self.taint.clone();
        let writes = taint.write_labels(&row, labels, Writes::new());
        self.row = None;
        taint.close(&row, writes).await
    }

    /// Ends it: what it was opened for did not happen, or a person agreed to it.
    pub async fn dismiss(mut self) -> Result<(), TaintError> {
        let Some(row) = self.row.take() else { return Ok(()) };
        self.taint.clone().close(&row, Writes::new()).await
    }

    /// Ends it with all that changed since it began. Whoever changed it must have ended.
    pub async fn label_changes(mut self) -> Result<(), TaintError> {
        let Some(row) = self.row.clone() else { return Ok(()) };
        let taint = self.taint.clone();
        let (of, within) = (taint.clone(), row.clone());
        let looked = blocking::run(move || of.look_through(&within)).await;
        let writes = looked.map_err(TaintError::store)?;
        self.row = None;
        taint.close(&row, writes).await
    }

    /// The same where nobody waits for it.
    pub(super) async fn settle(self) {
        if let Err(error) = self.label_changes().await {
            tracing::error!(%error, "files that an untrusted turn changed cannot be labelled; they count as untrusted until the next start looks at them");
        }
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
                tokio::time::sleep(process::SETTLED).await;
                window.settle().await;
            });
        }
    }
}

impl Taint {
    /// Looks through what a kill left open, and stores what damage has led to.
    pub(super) fn repair(&self) {
        let Some(Kept { clock, ids, .. }) = &self.0.kept else { return };
        let repairs = self.state().repairs(clock.now(), ids);
        if let Some(repairs) = repairs {
            let this = self.clone();
            hivewright_actors::spawn::local(async move {
                if let Err(error) = this.commit(repairs).await {
                    tracing::error!(%error, "damaged labels of files cannot be mended; the files count as untrusted");
                }
            });
        }
        let left: Vec<_> = self.state().windows.values().cloned().collect();
        for row in left {
            hivewright_actors::spawn::local(
                Window { taint: self.clone(), row: Some(row) }.settle(),
            );
        }
    }

    /// Begins to watch what an untrusted turn changes at or below these real paths. Durable when it returns.
    pub async fn begin(&self, worker: Worker, roots: Vec<PathBuf>) -> Result<Window, TaintError> {
        self.begin_at(worker, roots, seen::now(), true).await
    }

    /// The same for a command that may change all that its team may change. What tells the team what it is, is made
    /// before, so that it is nobody's work.
    pub async fn begin_for_command(
        &self,
        worker: Worker,
        workspace: &Arc<Workspace>,
    ) -> Result<Window, TaintError> {
        let (taint, protected) = (self.clone(), Arc::clone(workspace));
        let prepared = blocking::run(move || {
            process::protect_self(&protected)?;
            for name in [SELF_FILE, governance::GOVERNED_FILE] {
                taint.trust_if_undoubted(&protected.real_path().join(name));
            }
            Ok::<_, SandboxError>(())
        });
        prepared.await.map_err(TaintError::store)?.map_err(TaintError::store)?;
        let roots = workspace.real_roots().filter(|(_, access)| *access == Access::ReadWrite);
        self.begin(worker, roots.map(|(path, _)| path.to_owned()).collect()).await
    }

    pub(super) async fn begin_at(
        &self,
        worker: Worker,
        roots: Vec<PathBuf>,
        since: Moment,
        sure: bool,
    ) -> Result<Window, TaintError> {
        let bits = getrandom::u64().map_err(TaintError::store)?;
        let row = WindowRow { id: format!("{bits:016x}"), worker, roots, since, sure };
        self.state().windows.insert(row.id.clone(), row.clone());
        let window = Window { taint: self.clone(), row: Some(row.clone()) };
        self.commit(self.teams().put_window(Writes::new(), &row)).await?;
        Ok(window)
    }

    async fn close(&self, row: &WindowRow, writes: Writes) -> Result<(), TaintError> {
        let closed = self.commit(writes.delete::<WindowRow>(&row.key())).await;
        // Only now: until the labels are durable, the window stands for them.
        self.state().windows.remove(&row.id);
        self.0.version.fetch_add(1, Ordering::Relaxed);
        closed
    }

    /// Labels what changed in a window. Blocks.
    pub(super) fn look_through(&self, row: &WindowRow) -> Writes {
        let wanted: HashSet<FileId> = {
            let state = self.state();
            state.below(&row.roots).filter_map(|label| label.seen).map(|seen| seen.id).collect()
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
                writes = state.teams.put(writes, &moved);
                state.insert(moved);
            }
            // Something else at its path may be the same file, restored from a backup.
            if !Path::new(&label.path).exists() {
                state.remove(&label.path);
                writes = state.teams.delete(writes, &label.path);
            }
        }
        writes
    }

    fn write_labels(
        &self,
        row: &WindowRow,
        labels: impl IntoIterator<Item = Label>,
        mut writes: Writes,
    ) -> Writes {
        let at = self.now();
        let mut state = self.state();
        for (path, seen, extent) in labels {
            let label = row.worker.label(&path, seen, extent, at);
            writes = state.teams.put(writes, &label);
            state.insert(label);
        }
        for root in &row.roots {
            let one = std::slice::from_ref(root);
            let below: Vec<_> = state.below(one).map(|label| label.path.clone()).collect();
            if below.len() <= MOST_LABELS {
                continue;
            }
            let whole = row.worker.label(root, None, Extent::Workspace, at);
            for path in below {
                let inside = Path::new(&path).strip_prefix(root);
                if inside.is_ok_and(|inside| !governance::is_governed(inside))
                    && state.remove(&path).is_some()
                {
                    writes = state.teams.delete(writes, &path);
                }
            }
            writes = state.teams.put(writes, &whole);
            state.insert(whole);
        }
        writes
    }
}

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
    labels.into_iter().map(|(path, (seen, extent))| (path, seen, extent)).collect()
}
