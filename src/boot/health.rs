//! Facts about the running service that the HTTP side shows: faults, sizes, backups.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use hivewright_actors::{
    clock::{Timestamp, millis},
    ids::TeamKey,
    org::view::OrgView,
};

use super::{backups::backup_home, reload::SharedStanding, storage::Context};
use crate::{
    api::jobs::JobProgress,
    http::{
        self,
        backups::{Backup, Backups},
        jobs,
    },
    sandbox::quota,
    settings::{channels::WebSocket, home::Home, load},
    storage::{self, backup::BackupName},
};

/// How large the store is on the disk.
pub(super) fn store_bytes(home: &Home) -> u64 {
    let files = std::fs::read_dir(home.store()).into_iter().flatten();
    let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
    sizes.sum()
}

/// What the HTTP side asks about the service.
pub(super) struct Facts {
    pub(super) context: Arc<Context>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) standing: SharedStanding,
    pub(super) organisation: OrgView,
}

impl http::Service for Facts {
    fn is_demo(&self) -> bool {
        self.context.demo.load(Ordering::Relaxed)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn websocket(&self) -> WebSocket {
        self.standing.now().websocket
    }

    fn channels_fault(&self) -> Option<String> {
        self.standing.now().channels_fault
    }

    fn settings_fault(&self) -> Option<String> {
        self.standing.now().fault
    }

    fn providers_fault(&self) -> Option<String> {
        Some(self.context.live.held()?.providers.err()?.to_string())
    }

    fn topics_idle_after(&self) -> Duration {
        self.standing.now().idle_after
    }

    fn store_bytes(&self) -> u64 {
        store_bytes(&self.context.home)
    }

    fn free_bytes(&self) -> Option<u64> {
        quota::free(self.context.home.run()).ok()
    }

    fn teams(&self) -> usize {
        load::team_names(&self.context.home).len()
    }

    fn team(&self, name: &str) -> Option<TeamKey> {
        self.organisation.now().key(name)
    }
}

/// Makes and lists backups, for the HTTP side.
pub(super) struct Archive(pub(super) Arc<Context>);

impl Archive {
    fn layout(&self) -> storage::Home {
        let backup = self.0.live.held().map(|held| held.config.backup.clone());
        backup_home(&self.0.home, &backup.unwrap_or_default())
    }
}

impl Backups for Archive {
    fn make(&self, name: Option<BackupName>, work: &jobs::Work) -> Result<PathBuf, String> {
        let layout = self.layout();
        let file = name.map(|name| name.file(&layout.backups));
        let report = |step: storage::Progress| {
            work.report(JobProgress {
                done: step.done,
                total: step.total,
                unit: step.unit.as_str().to_owned(),
            });
        };
        let is_stopped = || work.is_cancelled();
        storage::backup::create_unless(
            &self.0.storage,
            &layout,
            file.as_deref(),
            &report,
            &is_stopped,
        )
        .map_err(|error| error.to_string())
    }

    fn list(&self) -> io::Result<Vec<Backup>> {
        let files = storage::backup::list_all(&self.layout().backups)?;
        let known = files.into_iter().filter_map(|(file, bytes, made)| {
            let made = Timestamp(millis(made.duration_since(UNIX_EPOCH).ok()?));
            Some(Backup { file, bytes, made })
        });
        Ok(known.collect())
    }
}
