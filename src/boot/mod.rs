//! The service: its parts started in order, and stopped without losing anything.
//!
//! Storage, then the store and the addresses of all actors, then what turns are made with, then the actors, then what
//! is served: each is made from what stands before it, and nothing is filled in later.

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
    approvals::deciders::Deciders,
    channel::{CountConnections, Shutdown},
    ids::Ids,
    live::{
        Publisher,
        event::{Event, Kind},
    },
    notice::NoticeKind,
    org::{self, view::OrgView},
    queue::{self, schedule::Limits},
    retention::{self, terms::Terms},
    router::{self, rate::Rate, resolve},
    scheduler,
    spine::{self, Spine, Threads},
    storage::StorageError,
    store::{Store, StoreHandle, records::Writes},
    supervisor,
    team::turn::REPORT_RUN,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    api::scope::Scope,
    engines::native::retry::RetryPolicy,
    http::{auth::authenticator::Authenticator, metrics::Metrics, origin::Gate},
    logging::keeper,
    settings::{
        channels::{Channels, TopicModel},
        config,
        home::{Home, Lock},
        load,
        references::Environment,
        socket_path::SocketPath,
    },
    storage::{Home as StorageHome, migrate, sled::SledStorage},
    system::{Randomness, WallClock},
    tools::{registry, toolbox::Toolbox},
    triggers::upkeep::Upkeep,
};

mod backups;
mod certificate;
mod disk;
pub mod error;
mod health;
mod http;
mod listener;
pub mod parts;
mod reload;
mod starting;
mod storage;
pub(crate) mod systemd;
mod turns;
mod unparking;
mod vault;

use backups::RegularBackups;
use disk::DiskWatch;
use error::{ServiceError, machine};
use http::Served;
use listener::{Listener, listen_locally};
use parts::{Part, Parts};
use reload::{Dials, Reload, Running, notify};
use starting::AddressFile;
use storage::Opened;
use turns::Services;
use unparking::Unparking;

/// How long running turns have to reach their next commit point.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Threads for blocking work of the teams on one arbiter: files, searches.
const BLOCKING_THREADS: usize = 32;
/// How long connections have to hear that they are closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

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
    _unparking: Unparking,
    _upkeep: Upkeep,
    _lock: Lock,
}

impl Service {
    /// Starts everything, in order: folders and lock, settings, the listener for health alone, master key, store,
    /// recovery, then all that is served.
    pub async fn start(options: Options) -> Result<Self, ServiceError> {
        let (opened, recovered) = Opened::open(&options).await?;
        let config = &opened.config;
        let ids = Ids::new(Arc::new(Randomness));
        let tools = registry::keys().chain([REPORT_RUN]).map(str::to_owned);
        let metrics = Arc::new(Metrics::new(tools, opened.tap.errors.clone()));
        let store = start_store(&opened, metrics.clone());
        vault::attach(&opened.vault, &store, &ids);
        // What a crash cut off.
        opened.vault.redact().await;
        let publisher = Publisher::new(opened.boot, Arc::new(WallClock));
        let (spine, contexts) = Spine::new(store, OrgView::default(), publisher);
        let draining = Arc::new(AtomicBool::new(false));
        let services =
            Services::open(&opened, &spine, options, ids, metrics, &draining, &recovered)?;
        let auth = authenticator(&opened, &spine).await?;
        let (on_hindrance, hindrances) = unparking::hear();
        let ports = services.ports(&opened, &spine, on_hindrance, deciders(auth.clone()));
        let limits = Limits { running: config.runtime.max_running_turns, ..Limits::default() };
        let settings = router_settings(&opened.channels, config.retention);
        let open_tasks = recovered.tasks.len();
        contexts.start(&spine, ports, threads(), limits, settings, recovered);
        spine.org.do_send(org::Settle { belongings: services.belongings(&opened, &spine) });
        let lines = opened.tap.open(spine.live.clone());
        actix::spawn(keeper::keep(lines, spine.store.clone()));
        let unparking = Unparking::start(
            hindrances,
            Arc::new(services.turns.clone()),
            opened.live.clone(),
            spine.queue.clone(),
        );
        let upkeep = Upkeep::start(
            spine.scheduler.clone(),
            spine.queue.clone(),
            spine.view.clone(),
            opened.live.clone(),
            opened.home.clone(),
            services.outlook.clone(),
            services.last_caps.clone(),
        );
        let parts = Parts {
            store_bytes: health::store_bytes(&opened.home),
            durability: config.store.durability,
            vault: &opened.vault,
            channels: &opened.channels,
            channels_fault: opened.fault.as_ref(),
            providers: opened.live.providers_held(),
            sandbox: &opened.sandbox,
            spine: &spine,
            teams: load::team_names(&opened.home).len(),
            open_tasks,
        };
        let parts = parts.look().await;
        let gate = Gate::new(&config.server);
        let certificate = opened.certificate.clone();
        let disk = watch_disk(&opened, &services, &spine)?;
        let dials = Dials {
            disk,
            log: opened.log.clone(),
            gate: gate.clone(),
            sandbox: opened.sandbox.clone(),
            backups: regular_backups(&opened, &services, &spine),
            certificate: certificate.clone(),
        };
        let reload = Reload::start(
            Running {
                live: opened.live.clone(),
                vault: &opened.vault,
                dials,
                home: opened.home.clone(),
                environment: opened.environment.clone(),
                spine: &spine,
                ids: services.ids.clone(),
                config: opened.in_file.clone(),
                channels: &opened.channels,
                local: opened.local.clone(),
                address: opened.starting.address,
            },
            opened.fault.clone(),
        );
        let served =
            Served::open(&opened, services, &spine, auth, &reload, gate, &draining).await?;
        let state = web::Data::new(served.state);
        let socket = SocketPath::of(&opened.home)
            .map_err(|error| machine("the run dir cannot be opened", error))?;
        // Without it commands go by the address, which suffices where nothing stands before it.
        let local = listen_locally(socket.path()).inspect_err(|error| {
            tracing::warn!(%error, "commands cannot use a Unix socket");
        });
        let address = opened.starting.address;
        let tcp = opened.starting.listener()?;
        // In between, whoever connects waits: the socket goes on listening.
        opened.starting.end().await;
        let listener = Listener::open(tcp, state, served.door, certificate, local.ok())?;
        let url = public_url(&config.server, address);
        forget_replaced(backup_home(&opened.home, config));
        Ok(Self {
            spine,
            storage: opened.storage,
            url,
            login_code: served.login_code,
            demo: opened.demo.load(Ordering::Relaxed),
            parts,
            notices: opened.notices,
            draining,
            server: listener.server,
            _address_file: opened.address_file,
            socket,
            _reload: reload,
            _unparking: unparking,
            _upkeep: upkeep,
            _lock: opened.lock,
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
        self.spine.scheduler.do_send(scheduler::alarm::Drain);
        self.spine.retention.do_send(retention::Drain);
        self.spine.queue.do_send(queue::Drain);
        self.spine.supervisor.do_send(supervisor::Drain);
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, self.no_turn_runs()).await;
        if drained.is_err() {
            tracing::warn!(
                "some turns did not reach a commit point; they go on after the next start"
            );
        }
        self.spine.channel.do_send(Shutdown);
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.nobody_is_connected()).await;
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
pub(crate) fn backup_home(home: &Home, config: &config::Config) -> StorageHome {
    backups::layout(home, &config.backup)
}

/// After a good start, what an upgrade or a restore replaced is kept for one more day.
fn forget_replaced(layout: StorageHome) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = migrate::forget_replaced(&layout) {
            tracing::warn!(%error, "a replaced store cannot be removed");
        }
    });
}

/// Backups in time, and word of those that fail.
fn regular_backups(opened: &Opened, services: &Services, spine: &Spine) -> RegularBackups {
    let (told, names) = (spine.store.clone(), services.ids.clone());
    let settings = opened.config.backup.clone();
    RegularBackups::start(opened.storage.clone(), opened.home.clone(), settings, move |why| {
        let text = format!("The regular backup failed and is tried again: {why}");
        notify(&told, &names, NoticeKind::Report, text, Writes::new());
    })
}

/// Closes the door to new work before the disk is full, and tells the operator.
fn watch_disk(
    opened: &Opened,
    services: &Services,
    spine: &Spine,
) -> Result<DiskWatch, ServiceError> {
    let (store, ids) = (spine.store.clone(), services.ids.clone());
    let places = vec![opened.home.run().to_owned(), opened.home.data().to_owned()];
    let (floor, room) = (opened.config.limits.free_space.0, spine.store.room().clone());
    let tell = move |text| notify(&store, &ids, NoticeKind::DiskSpace, text, Writes::new());
    DiskWatch::start(places, floor, room, tell)
        .map_err(|error| machine("the disk cannot be watched", error))
}

/// The store, on a thread of its own.
fn start_store(opened: &Opened, metrics: Arc<Metrics>) -> StoreHandle {
    let on_failure = |error: &StorageError| {
        // What was not answered may or may not be on the disk: only a new start can tell.
        tracing::error!(%error, "the store failed; stopping at once, run `hivewright doctor`");
        std::process::exit(1);
    };
    Store::start(
        &Arbiter::new().handle(),
        opened.storage.clone(),
        Box::new(on_failure),
        Box::new(move |_, took| metrics.committed(took)),
    )
}

async fn authenticator(opened: &Opened, spine: &Spine) -> Result<Authenticator, ServiceError> {
    let (store, clock) = (spine.store.clone(), Arc::new(WallClock));
    Authenticator::open(store, clock, &opened.home.secrets())
        .await
        .map_err(|error| machine("credentials cannot be opened", error))
}

fn deciders(auth: Authenticator) -> Deciders {
    Deciders::new(move |who, team| auth.others_may(Scope::Approve, who, team.as_str()))
}

/// One thread per core for teams.
fn threads() -> Threads {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Threads {
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
