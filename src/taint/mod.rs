//! Taint: which files untrusted turns wrote or changed. Whoever reads one is not to be believed any more, until a
//! trusted turn writes it anew or the operator accepts it.
//!
//! A file is known by its path and by its inode, so that it is found again after it was moved and after a backup
//! was restored. What a command changes is found out in its [`Window`](window::Window).

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    audit::Audit,
    blocking,
    clock::{Clock, Timestamp},
    ids::{Ids, MAIN, PrincipalId, TeamKey, TeamName},
    notice::{Notice, NoticeKind},
    org::belongings::Belongings,
    storage::{Storage, StorageError},
    store::{StoreHandle, records::Writes},
};
use parking_lot::{Mutex, MutexGuard};

use self::{
    label::{UntrustedFile, WindowRow, Worker},
    seen::Seen,
    state::State,
    stored::Teams,
};
use crate::sandbox::workspace::governance;

mod damage;
pub mod label;
pub mod seen;
mod state;
pub mod stored;
#[cfg(test)]
mod tests;
pub mod watch;
pub mod window;

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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
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

    /// The operator accepts files of a team as they are, by the names of their labels. `from`: where that comes from, for
    /// the audit.
    pub async fn accept(
        &self,
        team: &TeamName,
        ids: &[String],
        by: &PrincipalId,
        from: &str,
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
                let audit = Audit::new(ids, clock.now(), by, "file.accept", target, from, "ok");
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
        tracing::warn!(%team, error = text, "a file that governs a team is not read");
        if let Some(Kept { store, clock, ids }) = &self.0.kept {
            let (kind, text) = (NoticeKind::ConfigInvalid, text.to_owned());
            let notice = Notice::of_team(ids, kind, team, text, Vec::new(), clock.now());
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
