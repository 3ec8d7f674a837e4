//! Reload: `channels.yaml` is read again when it changes, and counts at once if nothing is wrong with it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix::Addr;
use hivewright_actors::{
    clock::Clock,
    ids::Ids,
    notice::{Notice, NoticeKind},
    router::{Reconfigure, Router},
    spine::Spine,
    store::{StoreHandle, records::Writes},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};

use super::router_settings;
use crate::{
    machine::WallClock,
    settings::{
        channels::{self, WebSocket},
        file_cache::Stamp,
        home::Home,
        load,
        problem::Problems,
        references::Environment,
    },
};

/// A file that did not change for this long has been written.
const SETTLES_AFTER: Duration = Duration::from_millis(500);

/// How the channels stand, for those who ask.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// Clients may open WebSockets.
    pub(super) websocket: AtomicBool,
    fault: Mutex<Option<String>>,
}

impl Channels {
    /// What is wrong with their file, until it is cured.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn set(&self, settings: &channels::Channels) {
        let on = settings.ws != WebSocket::Off;
        self.websocket.store(on, Ordering::Relaxed);
    }
}

/// Looks after `channels.yaml`; ends when it is dropped.
pub(super) struct Reload {
    channels: Arc<Channels>,
    task: JoinHandle<()>,
}

impl Drop for Reload {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reload {
    /// Looks after the file of a service that runs with these settings.
    pub(super) fn start(
        home: Home,
        environment: Environment,
        spine: &Spine,
        ids: Ids,
        settings: &channels::Channels,
        fault: Option<Problems>,
    ) -> Self {
        let channels = Arc::new(Channels::default());
        channels.set(settings);
        let mut watch = Watch {
            applied: Stamp::at(&home.channels_file()),
            vault: environment.vault_version(),
            home,
            environment,
            router: spine.router.clone(),
            store: spine.store.clone(),
            ids,
            channels: channels.clone(),
        };
        if let Some(fault) = fault {
            watch.complain(&fault);
        }
        Self {
            channels,
            task: actix::spawn(async move { watch.run().await }),
        }
    }

    /// How the channels stand.
    pub(super) fn channels(&self) -> Arc<Channels> {
        self.channels.clone()
    }
}

struct Watch {
    home: Home,
    environment: Environment,
    router: Addr<Router>,
    store: StoreHandle,
    ids: Ids,
    channels: Arc<Channels>,
    /// The state of the file that counts, or that was refused.
    applied: Option<Stamp>,
    /// The version of the vault that it was read with.
    vault: u64,
}

impl Watch {
    async fn run(&mut self) {
        let mut hangup = signal(SignalKind::hangup()).ok();
        let mut seen = self.applied;
        loop {
            let told = tokio::select! {
                () = tokio::time::sleep(SETTLES_AFTER) => false,
                () = heard(&mut hangup) => true,
            };
            // One look at one file of the home: too little to bother another thread with.
            let now = Stamp::at(&self.home.channels_file());
            let has_settled = now == seen;
            seen = now;
            let vault = self.environment.vault_version();
            let has_other_secrets = vault != self.vault && load::channels_use_vault(&self.home);
            self.vault = vault;
            if told || has_other_secrets || (has_settled && now != self.applied) {
                self.applied = now;
                self.reread().await;
            }
        }
    }

    async fn reread(&mut self) {
        let (home, environment) = (self.home.clone(), self.environment.clone());
        let read = tokio::task::spawn_blocking(move || load::reread_channels(&home, &environment));
        match read.await {
            Ok(Ok(settings)) => {
                self.router.do_send(Reconfigure(router_settings(&settings)));
                self.channels.set(&settings);
                self.channels.set_fault(None);
                tracing::info!("`channels.yaml` was read again and counts from now on");
            }
            Ok(Err(problems)) => {
                tracing::error!(%problems, "`channels.yaml` is refused; what it said before still counts");
                self.complain(&problems);
            }
            Err(error) => tracing::error!(%error, "`channels.yaml` could not be read"),
        }
    }

    /// Tells whoever looks, and puts it into the operator's inbox.
    fn complain(&mut self, problems: &Problems) {
        self.channels.set_fault(Some(problems.to_string()));
        let notice = Notice {
            id: self.ids.notice(),
            kind: NoticeKind::ConfigInvalid,
            team: None,
            text: problems.to_string(),
            refs: Vec::new(),
            at: WallClock.now(),
            read: false,
        };
        // The store takes it in now; nobody waits until it is safe.
        drop(self.store.commit(Writes::new().notice(&notice)));
    }
}

async fn heard(hangup: &mut Option<Signal>) {
    match hangup {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
