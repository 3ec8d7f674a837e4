//! Reload: `channels.yaml` is read again when it changes, and counts at once if nothing is wrong with it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::Addr;
use hivewright_actors::{
    clock::{Clock, millis},
    ids::Ids,
    live::{
        Publisher,
        event::{Event, Kind},
    },
    notice::{Notice, NoticeKind},
    router::{Reconfigure, Router},
    spine::Spine,
    store::{StoreHandle, records::Writes},
};
use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::router_settings;
use crate::{
    http,
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

const FILE: &str = "config/channels.yaml";
/// A file that did not change for this long has been written.
const SETTLES_AFTER: Duration = Duration::from_millis(500);

/// How the channels stand, for those who ask.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// Clients may open WebSockets.
    pub(super) websocket: AtomicBool,
    /// A topic without work for this long is idle, in milliseconds.
    idle_after: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl Channels {
    /// What is wrong with their file, until it is cured.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A topic without work for this long is idle.
    pub(super) fn idle_after(&self) -> Duration {
        Duration::from_millis(self.idle_after.load(Ordering::Relaxed))
    }

    fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn set(&self, settings: &channels::Channels) {
        let on = settings.ws != WebSocket::Off;
        self.websocket.store(on, Ordering::Relaxed);
        let idle_after = millis(settings.topics.idle_after);
        self.idle_after.store(idle_after, Ordering::Relaxed);
    }
}

/// Someone wants the file to be read now, and to know what came of it.
type Order = oneshot::Sender<Result<(), Problems>>;

/// Looks after `channels.yaml`; ends when it is dropped.
pub(super) struct Reload {
    channels: Arc<Channels>,
    orders: mpsc::UnboundedSender<Order>,
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
            home,
            environment,
            router: spine.router.clone(),
            store: spine.store.clone(),
            ids,
            channels: channels.clone(),
            live: spine.live.clone(),
        };
        if let Some(fault) = fault {
            watch.complain(&fault);
        }
        let (orders, mut ordered) = mpsc::unbounded_channel();
        Self {
            channels,
            orders,
            task: actix::spawn(async move { watch.run(&mut ordered).await }),
        }
    }

    /// Has the file read now.
    pub(super) fn order(&self) -> Arc<http::config::Reload> {
        let orders = self.orders.clone();
        Arc::new(move || {
            let (order, outcome) = oneshot::channel();
            let _gone = orders.send(order);
            // Whoever looks after it is gone only when the service stops.
            Box::pin(async move { outcome.await.unwrap_or(Ok(())) })
        })
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
    live: Publisher,
    /// The state of the file that counts, or that was refused.
    applied: Option<Stamp>,
}

impl Watch {
    async fn run(&mut self, ordered: &mut mpsc::UnboundedReceiver<Order>) {
        let mut hangup = signal(SignalKind::hangup()).ok();
        let mut seen = self.applied;
        loop {
            let mut order = None;
            let told = tokio::select! {
                () = tokio::time::sleep(SETTLES_AFTER) => false,
                () = heard(&mut hangup) => true,
                Some(wanted) = ordered.recv() => {
                    order = Some(wanted);
                    true
                }
            };
            // One look at one file of the home: too little to bother another thread with.
            let now = Stamp::at(&self.home.channels_file());
            let has_settled = now == seen;
            seen = now;
            if told || (has_settled && now != self.applied) {
                self.applied = now;
                let outcome = self.reread().await;
                if let Some(order) = order {
                    let _gone = order.send(outcome);
                }
            }
        }
    }

    async fn reread(&mut self) -> Result<(), Problems> {
        let (home, environment) = (self.home.clone(), self.environment.clone());
        let read = tokio::task::spawn_blocking(move || load::reread_channels(&home, &environment));
        match read.await {
            Ok(Ok(settings)) => {
                self.router.do_send(Reconfigure(router_settings(&settings)));
                self.channels.set(&settings);
                self.channels.set_fault(None);
                self.tell(Kind::ConfigReloaded, json!({ "file": FILE }));
                tracing::info!("`channels.yaml` was read again and counts from now on");
                Ok(())
            }
            Ok(Err(problems)) => {
                tracing::error!(%problems, "`channels.yaml` is refused; what it said before still counts");
                self.complain(&problems);
                Err(problems)
            }
            Err(error) => {
                tracing::error!(%error, "`channels.yaml` could not be read");
                let path = self.home.channels_file();
                Err(Problems(vec![load::whole(&path, "could not be read")]))
            }
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
        let problems = json!({ "file": FILE, "problems": problems.to_string() });
        let told = Event::new(Kind::ConfigInvalid, problems);
        drop(self.store.commit(Writes::new().notice(&notice).tell(told)));
    }

    fn tell(&self, kind: Kind, data: serde_json::Value) {
        self.live.publish(Event::new(kind, data));
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
