//! The running service: all parts started in order, and stopped without losing anything.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix::{Arbiter, ArbiterHandle};
use actix_web::web;
use hivewright_actors::{
    channel::{CountConnections, Shutdown},
    live::event::{Event, Kind},
    notice::NoticeKind,
    queue::{self, schedule::Limits},
    router::{self, rate::Rate, resolve},
    scheduler::{self, retention::keeping::Terms},
    spine::{self, Spine, Threads},
    store::records::Writes,
    supervisor,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    engines::native::retry::RetryPolicy,
    http::origin::Gate,
    logging::keeper,
    settings::{
        channels::{Channels, TopicModel},
        config,
        home::{Home, Lock},
        load,
        references::Environment,
        socket_path::SocketPath,
    },
    storage::{self, sled::SledStorage},
    tools::host::Toolbox,
    triggers::upkeep::Upkeep,
};

mod backups;
mod certificate;
mod cures;
mod disk;
pub mod error;
mod facts;
mod front;
mod ground;
mod listener;
pub mod parts;
mod reload;
mod starting;
pub(crate) mod systemd;
mod vault;
mod workshop;

use backups::RegularBackups;
use cures::Cures;
use disk::DiskWatch;
use error::{ServiceError, machine};
use front::Front;
use ground::Ground;
use listener::{Listener, listen_locally};
use parts::{Part, Parts};
use reload::{Dials, Reload, Running, notify};
use starting::AddressFile;
use workshop::Workshop;

/// How long running turns have to reach their next commit point.
const DRAIN: Duration = Duration::from_secs(30);
/// Threads for blocking work of the teams on one arbiter: files, searches.
const BLOCKING_THREADS: usize = 32;
/// How long connections have to hear that they are closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// What is decided outside the settings files.
pub struct Options {
    /// Where everything is.
    pub home: Home,
    /// Variables of the process.
    pub environment: Environment,
    /// Listen here instead.
    pub bind: Option<IpAddr>,
    /// On this port instead.
    pub port: Option<u16>,
    /// The program that confines commands: this one.
    pub launcher: PathBuf,
    /// The tools that exist.
    pub toolbox: Toolbox,
    /// How often and how fast a failed model call is made again.
    pub retry: RetryPolicy,
}

/// The service, serving.
pub struct Service {
    /// The spine, for those in the same process.
    pub spine: Spine,
    /// The storage, for backups.
    pub storage: Arc<SledStorage>,
    /// Where it listens.
    pub url: String,
    login_code: String,
    /// Only the offline demo answers.
    pub demo: bool,
    /// How each part stands.
    pub parts: Vec<Part>,
    /// What the operator should know beyond that.
    pub notices: Vec<String>,
    draining: Arc<AtomicBool>,
    server: actix_web::dev::ServerHandle,
    _address_file: AddressFile,
    socket: SocketPath,
    _reload: Reload,
    _cures: Cures,
    _upkeep: Upkeep,
    _lock: Lock,
}

impl Service {
    /// Starts everything, in order: folders and lock, settings, the listener for health alone, master key, store,
    /// recovery, then all that is served.
    pub async fn start(options: Options) -> Result<Self, ServiceError> {
        let (ground, recovered) = Ground::lay(&options).await?;
        let workshop = Workshop::open(&ground, options, &recovered)?;
        let config = &ground.config;
        let limits = Limits { running: config.runtime.max_running_turns, ..Limits::default() };
        let open_tasks = recovered.tasks.len();
        let (on_hindrance, hindrances) = cures::hear();
        let spine = Spine::start(
            workshop.ports(&ground, on_hindrance),
            threads(),
            limits,
            router_settings(&ground.channels, config.retention),
            recovered,
        );
        let lines = ground.tap.open(workshop.publisher.clone());
        actix::spawn(keeper::keep(lines, spine.store.clone()));
        let cures = Cures::start(
            hindrances,
            Arc::new(workshop.turns.clone()),
            ground.live.clone(),
            spine.queue.clone(),
        );
        let draining = Arc::new(AtomicBool::new(false));
        workshop.connect(&ground, &spine, &draining).await;
        let upkeep = Upkeep::start(
            spine.scheduler.clone(),
            spine.queue.clone(),
            workshop.view.clone(),
            ground.live.clone(),
            ground.home.clone(),
            workshop.outlook.clone(),
            workshop.last_caps.clone(),
        );
        let parts = Parts {
            store_bytes: facts::store_bytes(&ground.home),
            durability: config.store.durability,
            vault: &ground.vault,
            channels: &ground.channels,
            channels_fault: ground.fault.as_ref(),
            providers: ground.live.providers_held(),
            sandbox: &ground.sandbox,
            spine: &spine,
            teams: load::team_names(&ground.home).len(),
            open_tasks,
        };
        let parts = parts.look().await;
        let gate = Gate::new(&config.server);
        let certificate = ground.certificate.clone();
        let disk = watch_disk(&ground, &workshop, &spine)?;
        let dials = Dials {
            disk,
            log: ground.log.clone(),
            gate: gate.clone(),
            sandbox: ground.sandbox.clone(),
            backups: regular_backups(&ground, &workshop, &spine),
            certificate: certificate.clone(),
        };
        let reload = Reload::start(
            Running {
                live: ground.live.clone(),
                vault: &ground.vault,
                dials,
                home: ground.home.clone(),
                environment: ground.environment.clone(),
                spine: &spine,
                ids: workshop.ids.clone(),
                config: ground.in_file.clone(),
                channels: &ground.channels,
                local: ground.local.clone(),
            },
            ground.fault.clone(),
        );
        let front = Front::open(&ground, workshop, &spine, &reload, gate, &draining).await?;
        let state = web::Data::new(front.state);
        let socket = SocketPath::of(&ground.home)
            .map_err(|error| machine("the run dir cannot be opened", error))?;
        // Without it commands go by the address, which suffices where nothing stands before it.
        let local = listen_locally(socket.path()).inspect_err(|error| {
            tracing::warn!(%error, "commands cannot use a Unix socket");
        });
        let address = ground.starting.address;
        let tcp = ground.starting.listener()?;
        // In between, whoever connects waits: the socket goes on listening.
        ground.starting.end().await;
        let listener = Listener::open(tcp, state, front.door, certificate, local.ok())?;
        let url = public_url(&config.server, address);
        reload.listens_at(address);
        forget_replaced(backup_home(&ground.home, config));
        Ok(Self {
            spine,
            storage: ground.storage,
            url,
            login_code: front.login_code,
            demo: ground.demo.load(Ordering::Relaxed),
            parts,
            notices: ground.notices,
            draining,
            server: listener.server,
            _address_file: ground.address_file,
            socket,
            _reload: reload,
            _cures: cures,
            _upkeep: upkeep,
            _lock: ground.lock,
        })
    }

    /// An address that logs a browser in, once, within two minutes.
    pub fn login_link(&self) -> String {
        format!("{}/#code={}", self.url, self.login_code)
    }

    /// Serves until the first signal, then stops; a second one ends the process at once, which is as
    /// safe as a crash.
    pub async fn until_told_to_stop(self) {
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            tracing::error!("signals cannot be heard; stopping");
            return self.stop().await;
        };
        let mut told = async move || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let signal = told().await;
        tracing::info!(signal, "stopping: running turns go on to their next commit point");
        tokio::select! {
            () = self.stop() => {}
            signal = told() => {
                tracing::warn!(signal, "stopping at once");
                std::process::exit(1);
            }
        }
        tracing::info!("stopped");
    }

    /// Stops without losing anything: turns go on to their next commit point, tasks go back to the
    /// queue, clients are told to come back.
    pub async fn stop(self) {
        self.draining.store(true, Ordering::SeqCst);
        systemd::stopping();
        let live = &self.spine.live;
        live.publish(Event::new(Kind::Drain, serde_json::json!({})));
        self.spine.scheduler.do_send(scheduler::ring::Drain);
        self.spine.queue.do_send(queue::Drain);
        self.spine.supervisor.do_send(supervisor::Drain);
        let drained = tokio::time::timeout(DRAIN, self.no_turn_runs()).await;
        if drained.is_err() {
            tracing::warn!(
                "some turns did not reach a commit point; they go on after the next start"
            );
        }
        self.spine.channel.do_send(Shutdown);
        let _ = tokio::time::timeout(FAREWELL, self.nobody_is_connected()).await;
        self.spine.live.end();
        self.server.stop(true).await;
        let _ = std::fs::remove_file(self.socket.path());
    }

    async fn no_turn_runs(&self) {
        let runs = |counts: &queue::Counts| counts.teams.iter().any(|(_, _, running)| *running > 0);
        while let Ok(counts) = self.spine.queue.send(queue::Count).await
            && runs(&counts)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn nobody_is_connected(&self) {
        while let Ok(1..) = self.spine.channel.send(CountConnections).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Under which people and commands reach the service.
fn public_url(server: &config::Server, address: SocketAddr) -> String {
    if let Some(origin) = &server.public_url {
        return origin.text();
    }
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// The folders of the store and its backups.
pub(crate) fn backup_home(home: &Home, config: &config::Config) -> storage::Home {
    backups::layout(home, &config.backup)
}

/// After a good start, what an upgrade or a restore replaced is kept for one more day.
fn forget_replaced(layout: storage::Home) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = storage::migrate::forget_replaced(&layout) {
            tracing::warn!(%error, "a replaced store cannot be removed");
        }
    });
}

/// Backups in time, and word of those that fail.
fn regular_backups(ground: &Ground, workshop: &Workshop, spine: &Spine) -> RegularBackups {
    let (told, names) = (spine.store.clone(), workshop.ids.clone());
    let settings = ground.config.backup.clone();
    RegularBackups::start(ground.storage.clone(), ground.home.clone(), settings, move |why| {
        let text = format!("The regular backup failed and is tried again: {why}");
        notify(&told, &names, NoticeKind::Report, text, Writes::new());
    })
}

/// Closes the door to new work before the disk is full, and tells the operator.
fn watch_disk(
    ground: &Ground,
    workshop: &Workshop,
    spine: &Spine,
) -> Result<DiskWatch, ServiceError> {
    let (store, ids) = (spine.store.clone(), workshop.ids.clone());
    let places = vec![ground.home.run().to_owned(), ground.home.data().to_owned()];
    let (floor, room) = (ground.config.disk.free_space, spine.store.room().clone());
    let tell = move |text| notify(&store, &ids, NoticeKind::DiskSpace, text, Writes::new());
    DiskWatch::start(places, floor, room, tell)
        .map_err(|error| machine("the disk cannot be watched", error))
}

/// One thread for the store, and one per core for teams.
fn threads() -> Threads {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Threads {
        store: Arbiter::new().handle(),
        teams: (0..cores).map(|_| team_arbiter()).collect(),
        answers_within: spine::ANSWERS_WITHIN,
    }
}

/// A burst of turns looks at files on a few threads instead of hundreds, whose memory would stay.
fn team_arbiter() -> ArbiterHandle {
    let arbiter = Arbiter::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .unwrap_or_else(|error| {
                tracing::error!(%error, "a thread for teams cannot be started");
                std::process::exit(1)
            })
    });
    arbiter.handle()
}

fn router_settings(channels: &Channels, kept: Terms) -> router::Settings {
    router::Settings {
        topics: resolve::Settings {
            max_active: channels
                .topics
                .max_active
                .try_into()
                .unwrap_or(std::num::NonZeroUsize::MIN),
            idle_after: channels.topics.idle_after,
        },
        ask_model: channels.topics.model == TopicModel::Ambiguous,
        rate: Rate {
            per_minute: channels.limits.rate.ws.per_minute,
            burst: channels.limits.rate.ws.burst,
        },
        trust: channels.trust.clone(),
        channels_kept: kept.tasks,
    }
}

/// Where commands of this machine look up how to reach the service.
fn address_file(home: &Home) -> PathBuf {
    home.run().join("service.json")
}

fn write_address(file: &std::path::Path, url: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let text = serde_json::json!({ "pid": std::process::id(), "url": url }).to_string();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    io::Write::write_all(&mut options.open(file)?, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-122: channels and their topics stay as long as their history does.
    #[test]
    fn channels_are_kept_as_long_as_finished_tasks() {
        let kept = Terms::default();

        let settings = router_settings(&Channels::default(), kept);

        assert_eq!(settings.channels_kept, kept.tasks);
    }
}
