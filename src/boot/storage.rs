//! First phase of the start: folders and their lock, settings, log, the listener for health, master key, sandbox,
//! storage, store and vault, opened in this order.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use actix::{Addr, Arbiter, AsyncContext};
use hivewright_actors::{
    archive::ArchiveHandle,
    archivist::{Archivist, OnFault},
    blocking,
    ids::Ids,
    live::{Publisher, boot_counter},
    notice::NoticeKind,
    router, spine,
    storage::StorageError,
    store::{Store, StoreHandle, StoreParts, records::Writes},
    tool::REPORT_RUN,
};

use super::{
    Options,
    backups::backup_home,
    certificate::Certificate,
    error::{ServiceError, machine},
    notices::notify,
    public_url,
    starting::{AddressFile, Phase, Starting},
    vault,
};
use crate::{
    files::FileStore,
    http::metrics::Metrics,
    logging::{self, Level, Secrets, tap::Lines},
    providers::client,
    sandbox::{
        process::{Sandbox, SandboxSettings},
        workspace,
    },
    settings::{
        channels::Channels,
        config::Config,
        home::{Home, Lock},
        live::Live,
        load,
        problem::Problems,
        references::Environment,
        scaffold,
        zone::Zone,
    },
    storage::{self, tiers::TieredStorage},
    system::{Randomness, WallClock},
    timezone::LocalTime,
    tools::REGISTRY,
    transcript::{files::Folder, follower::Follower},
    vault::Vault,
};

/// What everything that runs is made from.
pub(super) struct Context {
    pub(super) home: Home,
    pub(super) certificate: Option<Arc<Certificate>>,
    /// Where the service listens.
    pub(super) address: SocketAddr,
    /// Variables of the process, and the secrets that settings name.
    pub(super) environment: Environment,
    /// The settings with what the command line says instead.
    pub(super) config: Config,
    /// The settings as their file has them.
    pub(super) in_file: Arc<Config>,
    pub(super) channels: Channels,
    /// Why only the operator's command line is let in.
    pub(super) fault: Option<Problems>,
    pub(super) live: Live,
    pub(super) local: LocalTime,
    pub(super) log: Level,
    pub(super) secrets: Secrets,
    pub(super) sandbox: Arc<Sandbox>,
    /// The client for model APIs.
    pub(super) http: reqwest::Client,
    pub(super) storage: Arc<TieredStorage>,
    pub(super) store: StoreHandle,
    pub(super) ids: Ids,
    pub(super) metrics: Arc<Metrics>,
    /// Tells whoever watches of what happens.
    pub(super) publisher: Publisher,
    pub(super) vault: Vault,
    /// What writes transcripts to files, if the settings want it.
    pub(super) transcripts: Option<Arc<Follower>>,
    /// What people and teams hand each other.
    pub(super) files: FileStore,
    pub(super) demo: Arc<AtomicBool>,
}

/// What is open before anything runs.
pub(super) struct Opened {
    pub(super) context: Arc<Context>,
    /// What a former process left.
    pub(super) recovered: router::Recovered,
    pub(super) lock: Lock,
    /// What answers until the service does.
    pub(super) starting: Starting,
    pub(super) address_file: AddressFile,
    /// What is logged, from the first line on.
    pub(super) lines: Lines,
    /// What the operator should know.
    pub(super) notices: Vec<String>,
}

impl Opened {
    pub(super) async fn open(options: &Options) -> Result<Self, ServiceError> {
        let home = options.home.clone();
        storage::open::check_disk(&home.store())?;
        home.prepare()?;
        check_kernel(&home, workspace::can_resolve_beneath)?;
        let lock = home.lock()?;
        scaffold::ensure_main(&home)?;
        let (in_file, warnings) = load::load_config(&home, &options.environment)?;
        let config = with_flags(&in_file, options)?;
        let certificate = config.server.tls.as_ref().map(Certificate::open);
        let certificate = certificate.transpose()?;
        let secrets = Secrets::default();
        let (lines, errors, log) = logging::start(config.log.level.as_str(), secrets.clone());
        let starting = Starting::open(&config.server, certificate.as_ref())?;
        let url = public_url(&config.server, starting.address);
        let address_file = AddressFile::write(&home, &url)?;
        let mut notices: Vec<String> = warnings.iter().map(ToString::to_string).collect();

        let sandbox = sandbox(&home, &config, options);
        // Whether there is a key is known before anything of the store is changed.
        let keys = vault::keys(&home, &options.environment).await?;
        // Trying the sandbox takes as long as opening a small store, and the client reads all certificates of the machine:
        // none of them waits for another.
        let transcripts = follow(&home, &config, &secrets);
        let opening = open_store(&home, &config, transcripts.clone(), &starting.phase);
        let (opened, sandbox, http) = tokio::join!(opening, sandbox, http_client());
        let http = http?;
        sandbox.quota().set(&config.limits);
        let (storage, recovered, boot) = opened?;
        let tools = REGISTRY.keys().chain([REPORT_RUN]).map(str::to_owned);
        let metrics = Arc::new(Metrics::new(tools, errors));
        starting.phase.set("opening the vault");
        let open = recovered.tasks.iter().map(|task| task.id.clone()).collect();
        let vault = vault::open(keys, storage.clone(), open, &secrets).await?;
        let (publisher, archivist) =
            (Publisher::new(boot, Arc::new(WallClock)), actix::Context::new());
        let store =
            start_store(&storage, &vault, publisher.clone(), archivist.address(), metrics.clone());
        let vault = vault.with_store(store.clone());
        let ids = Ids::new(Arc::new(Randomness));
        starting.phase.set("starting the teams");
        let environment = options.environment.clone().with_vault(vault.clone());
        let (channels, fault) = open_channels(&home, &environment, &mut notices);
        let live = Live::new(home.clone(), environment.clone());
        let in_file = Arc::new(in_file);
        live.hold(in_file.clone(), Arc::new(channels.clone()));
        let demo = learn_secrets(&live, &secrets, &mut notices).await;
        // Transcripts are written with what moves to the archive, and hold no secret that is known by now.
        archivist.run(Archivist::new(storage.clone(), tell_of_archive(&store, &ids)));
        vault::maintain(&vault, &store, &ids).await;
        let files = open_files(&home, &storage, &store, &ids, &live)?;
        let local = local_time(&config, &options.environment, &mut notices);
        let context = Context {
            home,
            certificate,
            address: starting.address,
            environment,
            config,
            in_file,
            channels,
            fault,
            live,
            local,
            log,
            secrets,
            sandbox: Arc::new(sandbox),
            http,
            storage,
            store,
            ids,
            metrics,
            publisher,
            vault,
            transcripts,
            files,
            demo: Arc::new(AtomicBool::new(demo)),
        };
        let context = Arc::new(context);
        Ok(Self { context, recovered, lock, starting, address_file, lines, notices })
    }
}

/// The settings with what the command line says instead.
fn with_flags(in_file: &Config, options: &Options) -> Result<Config, ServiceError> {
    let mut config = in_file.clone();
    config.server.bind = options.bind.unwrap_or(config.server.bind);
    config.server.port = options.port.unwrap_or(config.server.port);
    config.server.check_exposure()?;
    Ok(config)
}

fn sandbox(home: &Home, config: &Config, options: &Options) -> impl Future<Output = Sandbox> {
    Sandbox::new(SandboxSettings {
        launcher: options.launcher.clone(),
        memory: config.sandbox.memory.0,
        scratch: home.run().join("scratch"),
        private: vec![home.store(), home.secrets(), home.history(), home.files()],
    })
}

/// The client for model APIs. It reads the certificates of the machine, which blocks.
async fn http_client() -> Result<reqwest::Client, ServiceError> {
    let none = "the HTTP client cannot be made";
    let made = blocking::run(client::build).await.map_err(|error| machine(none, error))?;
    made.map_err(|error| machine(none, error))
}

/// What people and teams hand each other.
fn open_files(
    home: &Home,
    storage: &TieredStorage,
    store: &StoreHandle,
    ids: &Ids,
    live: &Live,
) -> Result<FileStore, ServiceError> {
    let clock = Arc::new(WallClock);
    let (store, ids, live) = (store.clone(), ids.clone(), live.clone());
    let opened = FileStore::open(home.files(), storage, store, clock, ids, live);
    opened.map_err(|error| machine("the files of conversations cannot be opened", error))
}

/// Refuses a kernel that cannot keep a path beneath a folder: no file of a team could be opened safely.
fn check_kernel(home: &Home, can: fn(&Path) -> io::Result<()>) -> Result<(), ServiceError> {
    let missing = "this kernel cannot open files beneath a folder (`openat2`), so teams' files are not safe; run \
                   Linux 5.6 or newer, and let a container pass that system call";
    can(home.run()).map_err(|error| machine(missing, error))
}

/// Tells the operator of an archive that cannot be written, and of its end.
fn tell_of_archive(store: &StoreHandle, ids: &Ids) -> OnFault {
    let (store, ids) = (store.clone(), ids.clone());
    Box::new(move |error| {
        store.note_archive(error.is_none());
        let text = match error {
            Some(error) => format!(
                "What is over cannot be moved to `history.db`, and takes memory until it can: {error}. It is tried \
                 again every few seconds; see to the disk and the rights of `run/store`."
            ),
            None => "What is over moves to `history.db` again.".to_owned(),
        };
        notify(&store, &ids, NoticeKind::Report, text, Writes::new());
    })
}

/// Opens the store and reads what a former process left. Blocks, so off the main thread.
async fn open_store(
    home: &Home,
    config: &Config,
    transcripts: Option<Arc<Follower>>,
    phase: &Phase,
) -> Result<(Arc<TieredStorage>, router::Recovered, u64), ServiceError> {
    let layout = backup_home(home, &config.backup, &config.limits);
    let durability = config.store.durability;
    let phase = phase.clone();
    phase.set("opening the store");
    let opened = blocking::run(move || {
        let upgrading = |progress| phase.upgrading(progress);
        let mut storage = storage::open::open(&layout, durability, &upgrading)?;
        if let Some(transcripts) = transcripts {
            storage = storage.with_observer(transcripts);
        }
        phase.set("reading what was left");
        let unreadable = |error| machine("the store cannot be read", error);
        let recovered = spine::recover(&storage).map_err(unreadable)?;
        let boot = boot_counter::next(&storage).map_err(unreadable)?;
        Ok::<_, ServiceError>((Arc::new(storage), recovered, boot))
    });
    opened.await.map_err(|error| machine("the store cannot be opened", error))?
}

/// What has transcript files go on with the store, if the settings want them.
fn follow(home: &Home, config: &Config, secrets: &Secrets) -> Option<Arc<Follower>> {
    let folder = Folder::new(home.history(), secrets.clone());
    if !config.sessions.transcripts {
        if let Err(error) = folder.set_incomplete() {
            tracing::warn!(%error, "it cannot be noted that transcripts are off; once they are on again they will lack what happens meanwhile");
        }
        return None;
    }
    Some(Arc::new(Follower::new(folder)))
}

/// The store, on a thread of its own.
fn start_store(
    storage: &Arc<TieredStorage>,
    vault: &Vault,
    live: Publisher,
    archivist: Addr<Archivist>,
    metrics: Arc<Metrics>,
) -> StoreHandle {
    let on_failure = |error: &StorageError| {
        // What was not answered may or may not be on the disk: only a new start can tell.
        tracing::error!(%error, "the store failed; stopping at once, run `hivewright doctor`");
        std::process::exit(1);
    };
    let parts = StoreParts {
        live: Some(live),
        archive: Some(ArchiveHandle::new(storage.clone(), archivist)),
        redaction: Some(vault.redaction(vault::EDGES)),
        on_failure: Box::new(on_failure),
        on_group: Box::new(move |_, took| metrics.committed(took)),
        ..StoreParts::of(storage.clone())
    };
    Store::start(&Arbiter::new().handle(), parts)
}

fn local_time(config: &Config, environment: &Environment, notices: &mut Vec<String>) -> LocalTime {
    let (of_machine, fault) = Zone::of_machine(environment);
    if config.timezone.is_none() {
        notices.extend(fault);
    }
    LocalTime::new(config.timezone.clone().unwrap_or(of_machine))
}

/// How people reach the teams, and why only the operator's command line is let in.
fn open_channels(
    home: &Home,
    environment: &Environment,
    notices: &mut Vec<String>,
) -> (Channels, Option<Problems>) {
    let (channels, fault) = match load::read_channels(home, environment) {
        Ok(read) => {
            notices.extend(read.warnings.iter().map(ToString::to_string));
            let fault = Some(read.distrust).filter(|distrust| !distrust.0.is_empty());
            if fault.is_none() {
                notices.extend(read.channels.disabled().map(ToString::to_string));
            }
            (read.channels, fault)
        }
        Err(problems) => (Channels::closed(), Some(problems)),
    };
    if let Some(fault) = &fault {
        tracing::error!(error = %fault, "the settings of channels are refused; only the operator's command line is let in");
    }
    (channels, fault)
}

/// Keeps keys out of the log, and tells whether only the demo answers.
async fn learn_secrets(live: &Live, secrets: &Secrets, notices: &mut Vec<String>) -> bool {
    match live.providers().await {
        Ok(providers) => {
            secrets.learn(providers.keys().map(ToOwned::to_owned));
            notices.extend(providers.warnings.iter().map(ToString::to_string));
            notices.extend(providers.disabled.values().map(ToString::to_string));
            providers.demo
        }
        Err(problems) => {
            tracing::error!(%problems, "the settings of providers are refused; no model can be asked");
            false
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::settings::home::Flags;

    /// SC-63
    #[test]
    fn a_kernel_that_cannot_keep_paths_beneath_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
        let home = Home::new(&flags, &Environment::fixed([])).unwrap();
        home.prepare().unwrap();

        let here = check_kernel(&home, workspace::can_resolve_beneath);
        let old = check_kernel(&home, |_| Err(rustix::io::Errno::NOSYS.into()));

        assert!(here.is_ok(), "{here:?}");
        let refused = old.unwrap_err().to_string();
        assert!(refused.contains("`openat2`"), "{refused}");
    }
}
