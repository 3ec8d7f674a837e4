//! The running service: all parts started in order, and stopped without losing anything.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use actix::{Arbiter, ArbiterHandle};
use actix_web::web;
use hivewright_actors::{
    budget::{Days, Ledger},
    channel::{CountConnections, Shutdown},
    clock::Clock,
    ids::Ids,
    live::{
        self, Publisher,
        event::{Event, Kind},
    },
    notice::NoticeKind,
    org::{self, inboxes::Inboxes, tree::Tree, view::OrgView, waiting::Waiting, work::Actors},
    queue::{self, schedule::Limits},
    router::{self, gate::Identify, rate::Rate, resolve},
    scheduler::{self, board::Board},
    spine::{self, Ports, Spine, Threads},
    store::records::Writes,
    supervisor,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    briefing::{Sources, Turns, till::Till},
    changes::Changes,
    channels::websocket::Door,
    days::LocalTime,
    engines::{Engines, native::retry::RetryPolicy},
    http::{
        self,
        access::Access,
        auth::{authenticator::Authenticator, identities::Identities},
        jobs::Jobs,
        metrics::Metrics,
        origin::Gate,
        webhooks::Callers,
    },
    logging::{self, Secrets, keeper},
    machine::{Randomness, WallClock, sha256},
    memory::Memory,
    providers::client,
    retention::Keeper,
    rulebook::Rulebook,
    sandbox::process::{Sandbox, SandboxSettings},
    settings::{
        channels::{Channels, TopicModel},
        config,
        home::{Home, Lock},
        live::Live,
        load::{self, ChannelsState},
        references::Environment,
        scaffold,
        zone::Zone,
    },
    storage::{
        self,
        sled::{Durability, SledStorage},
    },
    teams::folders::TeamFolders,
    tools::{
        self,
        agent::session::Sessions,
        host::Toolbox,
        org::office::{self, Office},
    },
    triggers::{
        calendar::Zones,
        desk::{self, Desk},
        expressions::LinearExpressions,
        premises::Outlook,
        upkeep::{Triggers, Upkeep},
    },
    vault::scrubbers::Scrubbers,
};

mod backups;
mod certificate;
mod cures;
pub mod error;
mod facts;
mod listener;
pub mod parts;
mod reload;
pub(crate) mod systemd;
mod vault;

use backups::RegularBackups;
use certificate::Certificate;
use cures::Cures;
use error::{ServiceError, machine};
use facts::{Archive, Facts};
use listener::Listener;
use parts::{Part, Parts};
use reload::{Dials, Reload, Running, notify};

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
    address_file: PathBuf,
    _reload: Reload,
    _cures: Cures,
    _upkeep: Upkeep,
    _lock: Lock,
}

impl Service {
    /// Starts everything, in order: folders and lock, settings, store, recovery, listener.
    pub async fn start(options: Options) -> Result<Self, ServiceError> {
        let home = options.home;
        home.prepare()?;
        let lock = home.lock()?;
        scaffold::ensure_main(&home)?;
        let (mut config, warnings) = load::load_config(&home, &options.environment)?;
        let in_file = Arc::new(config.clone());
        config.server.bind = options.bind.unwrap_or(config.server.bind);
        config.server.port = options.port.unwrap_or(config.server.port);
        config.server.check_exposure()?;
        let secrets = Secrets::default();
        let (tap, log) = logging::start(config.log.level.as_str(), secrets.clone());
        let mut notices: Vec<String> = warnings.iter().map(ToString::to_string).collect();

        let sandbox = Sandbox::new(SandboxSettings {
            launcher: options.launcher,
            memory: config.sandbox.memory,
            scratch: home.run().join("scratch"),
            private: vec![home.store(), home.secrets()],
        });
        // Trying the sandbox takes as long as opening a small store, so neither waits for the other.
        let (opened, sandbox) = tokio::join!(open_store(&home, &config), sandbox);
        let (storage, recovered, boot) = opened?;
        let layers = sandbox.layers();
        let sandbox = Arc::new(sandbox);
        let open_tasks = recovered.tasks.len();
        let open = recovered.tasks.iter().map(|task| task.id.clone()).collect();
        let vault =
            vault::open(&home, &options.environment, storage.clone(), open, &secrets).await?;
        let environment = options.environment.clone().with_vault(vault.clone());
        let (channels, distrust, warnings) = load::load_channels(&home, &environment);
        notices.extend(warnings.iter().map(ToString::to_string));
        let (channels, fault) = match channels {
            ChannelsState::Open(channels) if distrust.0.is_empty() => (channels, None),
            ChannelsState::Open(channels) => (channels, Some(distrust)),
            ChannelsState::Closed(problems) => (Channels::closed(), Some(problems)),
        };
        if let Some(fault) = &fault {
            tracing::error!(%fault, "only the operator's command line is let in");
        }
        let live = Live::new(home.clone(), environment.clone());
        live.hold(in_file.clone(), channels.topics.profile.clone());
        let demo = Arc::new(AtomicBool::new(
            learn_secrets(&live, &secrets, &mut notices).await,
        ));
        let engines = Engines::new(
            client::build().map_err(|error| machine("the HTTP client cannot be made", error))?,
            options.retry,
        )
        .with_vault(vault.clone());
        let agents = Sessions::default();
        let ids = Ids::new(Arc::new(Randomness));
        let zone = config
            .timezone
            .clone()
            .unwrap_or_else(|| Zone::of_machine(&options.environment));
        let local = LocalTime::new(zone);
        let view = OrgView::default();
        let ledger = Ledger::default();
        let tree = Tree::new(recovered.teams.clone());
        spine::recover_spending(&*storage, &ledger, local.day_of(WallClock.now()), &tree)
            .map_err(|error| machine("the store cannot be read", error))?;
        let memory = Memory::new(
            Arc::new(WallClock),
            ids.clone(),
            Arc::new(vault::Guard::new(&vault)),
        );
        let changes = Changes::new(home.clone(), Arc::new(WallClock), ids.clone());
        let gate = tools::trust::Gate::default();
        let toolbox = tools::memory::add(gate.equip(options.toolbox), &memory);
        let toolbox = tools::vault::add(toolbox);
        let rules = Rulebook::open(live.clone(), &*storage)
            .map_err(|error| machine("the store cannot be read", error))?;
        let line = tools::ask_operator::Line::default();
        let toolbox = line.equip(toolbox);
        let office = Office::default();
        let toolbox = tools::org::add(toolbox, &office);
        let desk = Desk::default();
        let toolbox = tools::triggers::add(toolbox, &desk);
        let (settings_now, today) = (live.clone(), local.clone());
        let tool_names = tools::BUILT_INS
            .iter()
            .chain(&tools::org::NAMES)
            .chain(&tools::triggers::NAMES)
            .chain(&tools::memory::NAMES)
            .chain(&tools::trust::NAMES)
            .chain(&tools::vault::NAMES)
            .chain([&tools::ask_operator::NAME]);
        let tool_names = tool_names.map(ToString::to_string);
        let metrics = Arc::new(Metrics::new(tool_names, tap.errors.clone()));
        let turns = Turns::new(Sources {
            rules: rules.clone(),
            home: home.clone(),
            live,
            engines,
            toolbox,
            memory: memory.clone(),
            changes: changes.clone(),
            sandbox: sandbox.clone(),
            agents: Some(Arc::new(agents.clone())),
            demo: demo.clone(),
            secrets: secrets.clone(),
            vault: vault.clone(),
            till: Till {
                ledger: ledger.clone(),
                days: Arc::new(local.clone()),
                meter: metrics.clone(),
            },
        });
        let publisher = Publisher::new(boot, Arc::new(WallClock));
        let prompts = turns.clone();
        let (explained, equipped) = (turns.clone(), turns.clone());
        let roster: office::Roster = Arc::new(move |team| prompts.subagents(team));
        let outlook = Outlook::new(home.clone(), turns.prompts(), view.clone());
        let commits = metrics.clone();
        let (on_hindrance, hindrances) = cures::hear();
        let board = Board::default();
        let ports = Ports {
            storage: storage.clone(),
            on_store_failure: Box::new(|error| {
                // What was not answered may or may not be on the disk: only a new start can tell.
                tracing::error!(%error, "the store failed; stopping at once, run `hivewright doctor`");
                std::process::exit(1);
            }),
            on_store_group: Box::new(move |_, took| commits.committed(took)),
            briefing: Arc::new(turns.clone()),
            classifier: Arc::new(turns.clone()),
            clock: Arc::new(WallClock),
            ids: ids.clone(),
            on_hindrance,
            ledger: ledger.clone(),
            grants: rules.grants(),
            days: Arc::new(local.clone()),
            secrets: Arc::new(vault.clone()),
            digester: sha256,
            approvals_last: config.approvals.ttl,
            meter: metrics.clone(),
            live: publisher.clone(),
            folders: Arc::new(TeamFolders::new(home.clone())),
            view: view.clone(),
            triggers: scheduler::Ports {
                board: board.clone(),
                calendar: Arc::new(Zones),
                expressions: Arc::new(LinearExpressions),
                roster: Arc::new(view.clone()),
                premises: Arc::new(outlook.clone()),
                timezone: local.name(),
                retention: Arc::new(Keeper::new(settings_now.clone(), home.clone())),
            },
        };
        let limits = Limits {
            running: config.runtime.max_running_turns,
            ..Limits::default()
        };
        let spine = Spine::start(
            ports,
            threads(),
            limits,
            router_settings(&channels),
            recovered,
        );
        actix::spawn(keeper::keep(
            tap.open(publisher.clone()),
            spine.store.clone(),
        ));
        let cures = Cures::start(
            hindrances,
            Arc::new(turns),
            settings_now.clone(),
            spine.queue.clone(),
        );
        memory.connect(spine.store.clone());
        changes.connect(spine.store.clone());
        rules.connect(spine.store.clone(), ids.clone());
        vault::attach(&vault, &spine.store, &ids);
        // What a crash cut off.
        vault.redact().await;
        spine.org.do_send(org::Settle {
            belongings: vec![
                Arc::new(memory.clone()),
                Arc::new(vault.clone()),
                Arc::new(Inboxes(spine.store.clone())),
                Arc::new(Triggers(spine.scheduler.clone())),
                Arc::new(Waiting(spine.approvals.clone())),
                Arc::new(ledger.clone()),
            ],
        });
        outlook.connect(spine.store.clone());
        desk.open(desk::Parts {
            scheduler: spine.scheduler.clone(),
            store: spine.store.clone(),
            view: view.clone(),
            clock: Arc::new(WallClock),
            calendar: Arc::new(Zones),
            expressions: Arc::new(LinearExpressions),
            zone: local.clone(),
            board,
            subagents: roster.clone(),
            secrets: Arc::new(vault.clone()),
        });
        let upkeep = Upkeep::start(
            spine.scheduler.clone(),
            spine.queue.clone(),
            view.clone(),
            settings_now.clone(),
            home.clone(),
            outlook,
        );
        office.open(office::Parts {
            org: spine.org.clone(),
            view: view.clone(),
            work: Arc::new(Actors {
                queue: spine.queue.clone(),
            }),
            store: spine.store.clone(),
            channel: spine.channel.clone(),
            clock: Arc::new(WallClock),
            ids: ids.clone(),
            live: settings_now.clone(),
            credentials: Arc::new(vault.clone()),
            roster,
            spent: Arc::new(move |team| ledger.drawn(team, today.day_of(WallClock.now()))),
        });

        gate.open(spine.router.clone());
        line.open(spine.approvals.clone());
        let gate = Gate::new(&config.server);
        let (told, names) = (spine.store.clone(), ids.clone());
        let backups = RegularBackups::start(
            storage.clone(),
            home.clone(),
            config.backup.clone(),
            move |why| {
                let text = format!("The regular backup failed and is tried again: {why}");
                notify(&told, &names, NoticeKind::Report, text, Writes::new());
            },
        );
        let settings_held = settings_now.clone();
        let parts = Parts {
            store_bytes: facts::store_bytes(&home),
            durability: config.store.durability,
            vault: &vault,
            channels: &channels,
            channels_fault: fault.as_ref(),
            providers: settings_now.providers_held(),
            layers,
            spine: &spine,
            teams: load::team_names(&home).len(),
            open_tasks,
        };
        let parts = parts.look().await;
        let certificate = config.server.tls.as_ref().map(Certificate::open);
        let certificate = certificate.transpose()?;
        let reload = Reload::start(
            Running {
                live: settings_now.clone(),
                vault: &vault,
                dials: Dials {
                    log,
                    gate: gate.clone(),
                    sandbox,
                    backups,
                    certificate: certificate.clone(),
                },
                home: home.clone(),
                environment: environment.clone(),
                spine: &spine,
                ids: ids.clone(),
                config: in_file,
                channels: &channels,
                local: local.clone(),
            },
            fault,
        );
        let draining = Arc::new(AtomicBool::new(false));
        let clock = Arc::new(WallClock);
        agents.connect(
            spine.queue.clone(),
            spine.store.clone(),
            clock.clone(),
            draining.clone(),
        );
        let auth = Authenticator::open(spine.store.clone(), clock.clone(), &home.secrets())
            .await
            .map_err(|error| machine("credentials cannot be opened", error))?;
        let login_code = auth
            .operator_link()
            .map_err(|error| machine("a login code cannot be made", error))?;
        let identities = Identities::open(auth.clone(), spine.store.clone(), clock.clone())
            .await
            .map_err(|error| machine("identities cannot be opened", error))?;
        spine.router.do_send(Identify(Arc::new(identities.clone())));
        let state = http::State {
            limits: http::limits::Limits::default(),
            strangers: http::record::Strangers::default(),
            repeats: http::idempotency::Repeats::default(),
            access: Access { auth, gate },
            identities,
            spine: spine.clone(),
            memory,
            changes,
            office,
            rules,
            explainer: Arc::new(move |team, tool, args, subject| {
                explained.explain(team, tool, args, subject)
            }),
            equipment: Arc::new(move |team, ancestors| equipped.equipment(team, ancestors)),
            vault: vault.clone(),
            desk,
            callers: Callers::default(),
            service: Arc::new(Facts {
                demo: demo.clone(),
                draining: draining.clone(),
                channels: reload.channels(),
                live: settings_now,
                home: home.clone(),
                organisation: view.clone(),
            }),
            metrics,
            jobs: Jobs::new(clock, publisher.clone()),
            secrets: secrets.clone(),
            files: http::config::Files {
                home: home.clone(),
                environment: environment.clone(),
                reload: reload.order(),
            },
            days: Arc::new(local),
            backups: Arc::new(Archive {
                storage: storage.clone(),
                home: home.clone(),
                live: settings_held,
            }),
            started: Instant::now(),
        };
        let door = Door {
            router: spine.router.clone(),
            ids,
            connections: AtomicU64::new(0),
            secrets: Arc::new(Scrubbers::new(vault, [])),
        };
        let state = web::Data::new(state);
        let listener = Listener::open(&config.server, state, door, certificate)?;
        let url = public_url(&config.server, listener.address);
        reload.listens_at(listener.address);
        let address_file = address_file(&home);
        write_address(&address_file, &url)
            .map_err(|error| machine("the address file cannot be written", error))?;
        forget_replaced(backup_home(&home, &config));
        Ok(Self {
            spine,
            storage,
            url,
            login_code: login_code.expose().to_owned(),
            demo: demo.load(Ordering::Relaxed),
            parts,
            notices,
            draining,
            server: listener.server,
            address_file,
            _reload: reload,
            _cures: cures,
            _upkeep: upkeep,
            _lock: lock,
        })
    }

    /// An address that logs a browser in, once, within two minutes.
    pub fn login_link(&self) -> String {
        format!("{}/#code={}", self.url, self.login_code)
    }

    /// Serves until the first signal, then stops; a second one ends the process at once, which is as
    /// safe as a crash.
    pub async fn until_told_to_stop(self) {
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        );
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
        tracing::info!(
            signal,
            "stopping: running turns go on to their next commit point"
        );
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
        let _ = std::fs::remove_file(&self.address_file);
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
    let scheme = if server.tls.is_some() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{address}")
}

/// Opens the store and reads what a former process left. Blocks, so off the main thread.
async fn open_store(
    home: &Home,
    config: &config::Config,
) -> Result<(Arc<SledStorage>, router::Recovered, u64), ServiceError> {
    let layout = backup_home(home, config);
    let durability = match config.store.durability {
        config::Durability::Power => Durability::Power,
        config::Durability::Process => Durability::Process,
    };
    let opened = tokio::task::spawn_blocking(move || {
        let storage = storage::open::open(&layout, durability, &|_| {})?;
        let unreadable = |error| machine("the store cannot be read", error);
        let recovered = spine::recover(&storage).map_err(unreadable)?;
        let boot = live::boot::next(&storage).map_err(unreadable)?;
        Ok::<_, ServiceError>((Arc::new(storage), recovered, boot))
    });
    opened
        .await
        .map_err(|error| machine("the store cannot be opened", error))?
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

/// Keeps keys out of the log, and tells whether only the demo answers.
async fn learn_secrets(live: &Live, secrets: &Secrets, notices: &mut Vec<String>) -> bool {
    match live.providers().await {
        Ok(providers) => {
            let keys = providers.profiles.values().filter_map(|profile| {
                let key = profile.api_key.as_ref()?;
                Some(key.expose().to_owned())
            });
            secrets.learn(keys);
            notices.extend(providers.warnings.iter().map(ToString::to_string));
            notices.extend(providers.disabled.values().map(ToString::to_string));
            providers.demo
        }
        Err(problems) => {
            tracing::error!(%problems, "no model can be asked");
            false
        }
    }
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

fn router_settings(channels: &Channels) -> router::Settings {
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
    }
}

/// Tells the commands of this home where the service is.
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
