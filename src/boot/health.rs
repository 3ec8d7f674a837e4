//! Facts about the running service that the HTTP side shows: faults, sizes, backups.

use std::{
    io,
    ops::ControlFlow,
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

use super::{backups::layout, reload::Channels};
use crate::{
    api::jobs::JobProgress,
    http::{
        self,
        backups::{Backup, Backups},
        jobs,
    },
    sandbox::quota,
    settings::{channels::WebSocket, home::Home, live::Live, load},
    storage::{self, backup::BackupName, sled::SledStorage},
};

/// How large the store is on the disk.
pub(super) fn store_bytes(home: &Home) -> u64 {
    let files = std::fs::read_dir(home.store()).into_iter().flatten();
    let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
    sizes.sum()
}

/// What the HTTP side asks about the service.
pub(super) struct Facts {
    pub(super) demo: Arc<AtomicBool>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) channels: Arc<Channels>,
    pub(super) live: Live,
    pub(super) home: Home,
    pub(super) organisation: OrgView,
}

impl http::Service for Facts {
    fn is_demo(&self) -> bool {
        self.demo.load(Ordering::Relaxed)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn websocket(&self) -> WebSocket {
        self.channels.websocket()
    }

    fn channels_fault(&self) -> Option<String> {
        self.channels.fault()
    }

    fn settings_fault(&self) -> Option<String> {
        self.channels.settings_fault()
    }

    fn providers_fault(&self) -> Option<String> {
        let providers = self.live.providers_held()?;
        Some(providers.err()?.to_string())
    }

    fn topics_idle_after(&self) -> Duration {
        self.channels.idle_after()
    }

    fn store_bytes(&self) -> u64 {
        store_bytes(&self.home)
    }

    fn free_bytes(&self) -> Option<u64> {
        quota::free(self.home.run()).ok()
    }

    fn teams(&self) -> usize {
        load::team_names(&self.home).len()
    }

    fn team(&self, name: &str) -> Option<TeamKey> {
        self.organisation.now().key(name)
    }
}

/// Makes and lists backups, for the HTTP side.
pub(super) struct Archive {
    pub(super) storage: Arc<SledStorage>,
    pub(super) home: Home,
    /// Says where they go.
    pub(super) live: Live,
}

impl Archive {
    fn layout(&self) -> storage::Home {
        let config = self.live.config_held().unwrap_or_default();
        layout(&self.home, &config.backup)
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
            if work.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        storage::backup::create(&self.storage, &layout, file.as_deref(), &report)
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
