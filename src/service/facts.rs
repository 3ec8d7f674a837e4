//! What the HTTP side asks of the service.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{ids::TeamKey, org::view::OrgView};

use super::reload::Channels;
use crate::{
    http::{self, jobs},
    settings::{home::Home, live::Live, load},
    storage::{self, sled::SledStorage},
};

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

    fn has_websocket(&self) -> bool {
        self.channels.websocket.load(Ordering::Relaxed)
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
        let files = std::fs::read_dir(self.home.store()).into_iter().flatten();
        let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
        sizes.sum()
    }

    fn teams(&self) -> usize {
        load::team_names(&self.home).len()
    }

    fn team(&self, name: &str) -> Option<TeamKey> {
        self.organisation.now().key(name)
    }
}

/// Makes a backup, for the HTTP side. Blocks.
pub(super) fn back_up(
    storage: &SledStorage,
    layout: &storage::Home,
    file: Option<PathBuf>,
    progress: &dyn Fn(jobs::Progress),
) -> Result<PathBuf, String> {
    let report = |step: storage::Progress| {
        progress(jobs::Progress {
            done: step.done,
            total: step.total,
            unit: step.unit.as_str(),
        });
    };
    let made = match file {
        Some(file) => storage::backup::create_at(storage, layout, &file, &report).map(|()| file),
        None => storage::backup::create(storage, layout, &report),
    };
    made.map_err(|error| error.to_string())
}
