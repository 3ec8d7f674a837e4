//! The service: its parts started in order, and stopped without losing anything.
//!
//! Storage, vault and store, then the addresses of all actors, then what turns are made with, then the actors, then what
//! is served: each is made from what stands before it, and nothing is filled in later.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix::{Arbiter, ArbiterHandle};
use actix_web::dev::ServerHandle;
use hivewright_actors::{
    approvals::ports::Deciders,
    blocking,
    channel::{CountConnections, Shutdown},
    clock::Timestamp,
    identities::Owner,
    live::event::{Event, Kind},
    notice::NoticeKind,
    org::view::OrgView,
    queue::{self, schedule::Limits},
    retention::terms::Terms,
    router::{self, rate::Rate, resolve},
    scheduler,
    spine::{self, Spine, Threads},
    store::records::Writes,
    supervisor,
};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    api::scope::Scope,
    browser::Browsers,
    channels::discord::{self, Discord},
    engines::native::retry::RetryPolicy,
    http::{
        auth::{authenticator::Authenticator, registry::OPERATOR},
        kit::origin::Gate,
    },
    logging::keeper::LogKeeper,
    mcp::Servers,
    plugins::{host::process::Hosts, instance::Instances, listening, updates},
    settings::{
        channels::{Channels, TopicModel},
        config,
        home::{Home, Lock},
        references::Environment,
        socket_path::SocketPath,
    },
    storage::{Home as StorageHome, migrate, tiers::TieredStorage},
    system::WallClock,
    tools::toolbox::Toolbox,
    triggers::upkeep,
};

pub(crate) mod backups;
mod certificate;
mod code_pages;
mod disk;
pub mod error;
mod http;
mod listener;
mod notices;
pub mod parts;
mod plugin_packages;
mod plugins;
mod reload;
mod serving;
mod starting;
mod storage;
pub(crate) mod systemd;
mod turns;
mod unparking;
mod vault;

use backups::{RegularBackups, backup_home};
use certificate::Certificate;
use disk::DiskWatch;
use error::{ServiceError, machine};
use http::Served;
use listener::listen_locally;
use notices::notify;
use parts::Part;
use plugin_packages::PluginWatch;
use reload::{Reload, Told};
use starting::{AddressFile, Starting};
use storage::{Context, Opened};
use turns::Services;

/// Tells a service to stop and start again in its place.
pub const RESTART: Signal = Signal::USR1;
/// How long running turns have to reach their next commit point.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Threads for blocking work of the teams on one arbiter: files, searches.
const BLOCKING_THREADS: usize = 32;
/// How long connections have to hear that they are closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
const UNCLOSED: &str = "the store was not closed whole; the next start looks at it first";

/// What is decided outside the settings files.
pub struct Options {
    pub home: Home,
    pub environment: Environment,
    /// Listen here instead.
    pub bind: Option<IpAddr>,
    /// On this port instead.
    pub port: Option<u16>,
    /// The program that confines commands: this one.
    pub launcher: PathBuf,
    pub toolbox: Toolbox,
    /// How often and how fast a failed model call is made again.
    pub retry: RetryPolicy,
}

pub struct Service {
    pub spine: Spine,
    log: LogKeeper,
    pub storage: Arc<TieredStorage>,
    pub url: String,
    login_code: String,
    pub demo: bool,
    pub parts: Vec<Part>,
    /// What the operator should know beyond that.
    pub notices: Vec<String>,
    draining: Arc<AtomicBool>,
    server: ServerHandle,
    _address_file: AddressFile,
    socket: SocketPath,
    discord: Arc<Discord>,
    _reload: Reload,
    servers: Servers,
    browsers: Option<Browsers>,
    _packages: PluginWatch,
    plugins: Instances,
    hosts: Hosts,
    _tasks: Vec<AbortOnDropHandle<()>>,
    _lock: Lock,
}

impl Service {
    /// Starts everything, in order: folders and lock, settings, the listener for health alone, master key, store,
    /// recovery, then all that is served.
    pub async fn start(options: Options) -> Result<Self, ServiceError> {
        let opened = Opened::open(&options).await?;
        let (context, recovered) = (opened.context, opened.recovered);
        let config = &context.config;
        let (store, publisher) = (context.store.clone(), context.publisher.clone());
        let (spine, contexts) = Spine::new(store, OrgView::default(), publisher);
        let draining = Arc::new(AtomicBool::new(false));
        let services = Services::open(&context, &spine, options, &draining, &recovered)?;
        let auth = authenticator(&context, &spine).await?;
        let (on_hindrance, hindrances) = unparking::hear();
        let ports = services.ports(&context, &spine, on_hindrance, deciders(auth.clone()));
        let limits = Limits { running: config.runtime.max_running_turns, ..Limits::default() };
        let settings = router_settings(&context.channels, config.retention);
        let open_tasks = recovered.tasks.len();
        contexts.start(&spine, ports, threads(), limits, settings, recovered);
        let log = LogKeeper::start(opened.lines, spine.store.clone(), spine.live.clone());
        let unparking = unparking::start(
            hindrances,
            Arc::new(services.turns.clone()),
            context.live.clone(),
            spine.queue.clone(),
        );
        let upkeep = upkeep(&context, &spine, &services);
        let parts = parts::look(&context, &spine, open_tasks).await;
        let gate = Gate::new(&config.server);
        let (servers, browsers) = (services.servers.clone(), services.browsers.clone());
        let plugins = services.plugins.clone();
        let tasks = background_tasks(&context, &spine, &services);
        let hosts = services.plugin_tools.hosts().clone();
        let disk = watch_disk(&context)?;
        let backups = regular_backups(&context);
        let discord = Arc::new(start_discord(&context, &spine));
        let packages = PluginWatch::start(services.depot.clone(), context.clone());
        let told = Told { discord: discord.clone(), disk, backups, packages: packages.nudge() };
        let reload = Reload::start(&context, &spine, &gate, told);
        let served =
            Served::open(&context, services, &spine, auth, &reload, gate, &draining).await?;
        let login_code = served.login_code.clone();
        let url = public_url(&config.server, context.address);
        let socket = SocketPath::of(&context.home)
            .map_err(|error| machine("the run dir cannot be opened", error))?;
        let server = listen(opened.starting, served, context.certificate.clone(), &socket).await?;
        forget_replaced(backup_home(&context.home, &config.backup, &config.limits));
        catch_up(&context);
        hivewright_actors::spawn::local(code_pages::let_go());
        Ok(Self {
            spine,
            storage: context.storage.clone(),
            url,
            login_code,
            demo: context.demo.load(Ordering::Relaxed),
            parts,
            log,
            notices: opened.notices,
            draining,
            server,
            _address_file: opened.address_file,
            socket,
            discord,
            _reload: reload,
            servers,
            browsers,
            _packages: packages,
            plugins,
            hosts,
            _tasks: tasks.into_iter().chain([unparking, upkeep]).collect(),
            _lock: opened.lock,
        })
    }

    /// An address that logs a browser in, once, within two minutes.
    pub fn login_link(&self) -> String {
        format!("{}/#code={}", self.url, self.login_code)
    }

    /// Serves until the first signal, then stops; a second one ends the process at once, which is as
    /// safe as a crash. Returns whether it is to start again.
    pub async fn until_told_to_stop(self) -> bool {
        let hear = |kind: Signal| signal(SignalKind::from_raw(kind.as_raw()));
        let signals = (hear(Signal::TERM), hear(Signal::INT), hear(RESTART));
        let (Ok(mut terminate), Ok(mut interrupt), Ok(mut restart)) = signals else {
            tracing::error!("signals cannot be heard; stopping");
            self.stop().await;
            return false;
        };
        let mut told = async move || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let restarts = tokio::select! {
            signal = told() => {
                tracing::info!(signal, "stopping: running turns go on to their next commit point");
                systemd::stopping();
                false
            }
            _ = restart.recv() => {
                tracing::info!("restarting: running turns go on to their next commit point");
                systemd::restarting();
                true
            }
        };
        tokio::select! {
            () = self.stop() => {}
            signal = told() => {
                tracing::warn!(signal, "stopping at once: running turns go on after the next start");
                std::process::exit(1);
            }
        }
        tracing::info!("stopped");
        restarts
    }

    /// Stops without losing anything: turns go on to their next commit point, tasks go back to the
    /// queue, clients are told to come back.
    pub async fn stop(self) {
        self.draining.store(true, Ordering::SeqCst);
        self.discord.drain();
        let live = &self.spine.live;
        live.publish(Event::new(Kind::Drain, serde_json::json!({})));
        self.spine.scheduler.do_send(scheduler::alarm::Drain);
        self.spine.retention.do_send(scheduler::alarm::Drain);
        self.spine.queue.do_send(queue::Drain);
        self.spine.supervisor.do_send(supervisor::Drain);
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, self.no_turn_runs()).await;
        if drained.is_err() {
            tracing::warn!(
                "some turns did not reach a commit point; they go on after the next start"
            );
        }
        // Also those of turns that wait for other teams, and hold no slot meanwhile.
        let _gone = self.spine.queue.send(queue::UncountLeased).await;
        tokio::join!(self.servers.end(), self.plugins.end(), self.hosts.end());
        if let Some(browsers) = &self.browsers {
            browsers.end().await;
        }
        self.spine.channel.do_send(Shutdown);
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.nobody_is_connected()).await;
        self.spine.live.end();
        self.server.stop(true).await;
        let _ = std::fs::remove_file(self.socket.path());
        self.log.stop().await;
        let storage = self.storage.clone();
        match blocking::run(move || storage.rest()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "{UNCLOSED}"),
            Err(error) => tracing::warn!(%error, "{UNCLOSED}"),
        }
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

/// Does for triggers and teams what is due, while the service runs.
fn upkeep(context: &Context, spine: &Spine, services: &Services) -> AbortOnDropHandle<()> {
    let upkeep = upkeep::Keeper {
        scheduler: spine.scheduler.clone(),
        queue: spine.queue.clone(),
        view: spine.view.clone(),
        live: context.live.clone(),
        home: context.home.clone(),
        prompts: services.preconditions.prompts.clone(),
        last_caps: services.last_caps.clone(),
    };
    upkeep.start()
}

/// Tidies the files of conversations, settles plugins with what teams there are, and follows their updates.
fn background_tasks(
    context: &Context,
    spine: &Spine,
    services: &Services,
) -> [AbortOnDropHandle<()>; 4] {
    let (plugins, store) = (&services.plugins, &spine.store);
    let listening = listening::listen(&spine.live, plugins.clone(), &spine.view, store.clone());
    let updates = updates::follow(services.depot.clone(), store.clone(), spine.live.clone());
    let tasks = [
        hivewright_actors::spawn::local(plugins::settle(plugins.clone(), context, spine)),
        hivewright_actors::spawn::local(listening),
        hivewright_actors::spawn::local(updates),
        hivewright_actors::spawn::local(context.files.clone().keep_tidy()),
    ];
    tasks.map(AbortOnDropHandle::new)
}

/// Serves in place of what answered during the start.
async fn listen(
    starting: Starting,
    served: Served,
    certificate: Option<Arc<Certificate>>,
    socket: &SocketPath,
) -> Result<ServerHandle, ServiceError> {
    // Without it commands go by the address, which suffices where nothing stands before it.
    let local = listen_locally(socket.path()).inspect_err(|error| {
        tracing::warn!(%error, "there is no Unix socket for commands; they use the address");
    });
    let tcp = starting.listener()?;
    // In between, whoever connects waits: the socket goes on listening.
    starting.end().await;
    listener::serve(tcp, served, certificate, local.ok())
}

/// Under which people and commands reach the service.
fn public_url(server: &config::Server, address: SocketAddr) -> String {
    if let Some(origin) = &server.public_url {
        return origin.text();
    }
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// After a good start, what an upgrade or a restore replaced is kept for one more day.
fn forget_replaced(layout: StorageHome) {
    blocking::begin(move || {
        if let Err(error) = migrate::forget_replaced(&layout) {
            tracing::warn!(%error, "the store that an upgrade or a restore replaced cannot be removed; the next start tries again");
        }
    });
}

/// Writes what transcripts lack, beside everything else.
fn catch_up(context: &Context) {
    if let Some(transcripts) = context.transcripts.clone() {
        let storage = context.storage.clone();
        blocking::begin(move || transcripts.catch_up(&storage));
    }
}

/// Backups in time, and word of those that fail.
fn regular_backups(context: &Context) -> RegularBackups {
    let (told, names) = (context.store.clone(), context.ids.clone());
    let (storage, home) = (context.storage.clone(), context.home.clone());
    RegularBackups::start(storage, home, &context.config, move |why| {
        let text = format!("The regular backup failed and is tried again: {why}");
        notify(&told, &names, NoticeKind::Report, text, Writes::new());
    })
}

/// Whose the channels of chat networks are.
fn operator() -> Owner {
    Owner { principal: OPERATOR.into(), grant: OPERATOR.into(), since: Timestamp::default() }
}

/// A bot on Discord, if there is a token. Its channels are the operator's.
fn start_discord(context: &Context, spine: &Spine) -> Discord {
    let parts = discord::Parts {
        router: spine.router.clone(),
        channel: spine.channel.clone(),
        store: spine.store.clone(),
        vault: context.vault.clone(),
        log: context.secrets.clone(),
        owner: operator(),
        live: spine.live.clone(),
        files: context.files.clone(),
    };
    Discord::start(parts, context.channels.discord.clone())
}

/// Closes the door to new work before the disk is full, and tells the operator.
fn watch_disk(context: &Context) -> Result<DiskWatch, ServiceError> {
    let (store, ids) = (context.store.clone(), context.ids.clone());
    let places = vec![context.home.run().to_owned(), context.home.data().to_owned()];
    let (floor, room) = (context.config.limits.free_space.0, context.store.room().clone());
    let tell = move |text| notify(&store, &ids, NoticeKind::DiskSpace, text, Writes::new());
    DiskWatch::start(places, floor, room, tell)
        .map_err(|error| machine("the disk cannot be watched", error))
}

async fn authenticator(context: &Context, spine: &Spine) -> Result<Authenticator, ServiceError> {
    let (store, clock) = (spine.store.clone(), Arc::new(WallClock));
    Authenticator::open(store, clock, &context.home.secrets())
        .await
        .map_err(|error| machine("credentials cannot be opened", error))
}

fn deciders(auth: Authenticator) -> Deciders {
    Deciders::new(move |who, team| auth.others_may(Scope::Approve, who, team.as_str()))
}

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
                tracing::error!(%error, "a thread for teams cannot be started; the service ends");
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
        titles: channels.topics.titles,
        rate: Rate {
            per_minute: channels.limits.rate.ws.per_minute,
            burst: channels.limits.rate.ws.burst,
        },
        discord_rate: Rate {
            per_minute: channels.limits.rate.discord.per_minute,
            burst: channels.limits.rate.discord.burst,
        },
        trust: channels.trust.clone(),
        channels_kept: kept.tasks,
    }
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
