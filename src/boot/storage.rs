//! First phase of the start: folders and their lock, settings, log, the listener for health, master key, sandbox,
//! storage and vault, opened in this order.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use hivewright_actors::{live::boot, router, spine};

use super::{
    Options, address_file, backup_home,
    certificate::Certificate,
    error::{ServiceError, machine},
    public_url,
    starting::{AddressFile, Phase, Starting},
    vault,
};
use crate::{
    logging::{self, Level, Secrets, tap::Tap},
    sandbox::{
        process::{Sandbox, SandboxSettings},
        workspace,
    },
    settings::{
        channels::Channels,
        config::Config,
        home::{Home, Lock},
        live::Live,
        load::{self, ChannelsState},
        problem::Problems,
        references::Environment,
        scaffold,
        zone::Zone,
    },
    storage::{self, sled::SledStorage},
    timezone::LocalTime,
    vault::Vault,
};

/// What is open before anything runs.
pub(super) struct Opened {
    pub(super) home: Home,
    pub(super) lock: Lock,
    pub(super) certificate: Option<Arc<Certificate>>,
    /// What answers until the service does.
    pub(super) starting: Starting,
    pub(super) address_file: AddressFile,
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
    pub(super) tap: Tap,
    pub(super) log: Level,
    pub(super) secrets: Secrets,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) storage: Arc<SledStorage>,
    /// Which start of this store it is.
    pub(super) boot: u64,
    pub(super) vault: Vault,
    /// Only the offline demo answers.
    pub(super) demo: Arc<AtomicBool>,
    /// What the operator should know.
    pub(super) notices: Vec<String>,
}

impl Opened {
    /// Opens everything, and reads what a former process left.
    pub(super) async fn open(options: &Options) -> Result<(Self, router::Recovered), ServiceError> {
        let home = options.home.clone();
        storage::open::check_disk(&home.store())?;
        home.prepare()?;
        check_kernel(&home, workspace::can_resolve_beneath)?;
        let lock = home.lock()?;
        scaffold::ensure_main(&home)?;
        let (mut config, warnings) = load::load_config(&home, &options.environment)?;
        let in_file = Arc::new(config.clone());
        config.server.bind = options.bind.unwrap_or(config.server.bind);
        config.server.port = options.port.unwrap_or(config.server.port);
        config.server.check_exposure()?;
        let certificate = config.server.tls.as_ref().map(Certificate::open);
        let certificate = certificate.transpose()?;
        let secrets = Secrets::default();
        let (tap, log) = logging::start(config.log.level.as_str(), secrets.clone());
        let starting = Starting::open(&config.server, certificate.as_ref())?;
        let url = public_url(&config.server, starting.address);
        let address_file = AddressFile::write(address_file(&home), &url)?;
        let mut notices: Vec<String> = warnings.iter().map(ToString::to_string).collect();

        let sandbox = Sandbox::new(SandboxSettings {
            launcher: options.launcher.clone(),
            memory: config.sandbox.memory.0,
            scratch: home.run().join("scratch"),
            private: vec![home.store(), home.secrets()],
        });
        // Whether there is a key is known before anything of the store is changed.
        let keys = vault::keys(&home, &options.environment).await?;
        // Trying the sandbox takes as long as opening a small store, so neither waits for the other.
        let (opened, sandbox) = tokio::join!(open_store(&home, &config, &starting.phase), sandbox);
        sandbox.quota().set(&config.limits);
        let (storage, recovered, boot) = opened?;
        starting.phase.set("opening the vault");
        let open = recovered.tasks.iter().map(|task| task.id.clone()).collect();
        let vault = vault::open(keys, storage.clone(), open, &secrets).await?;
        starting.phase.set("starting the teams");
        let environment = options.environment.clone().with_vault(vault.clone());
        let (channels, distrust, warnings) = load::load_channels(&home, &environment);
        notices.extend(warnings.iter().map(ToString::to_string));
        let (channels, fault) = match channels {
            ChannelsState::Open(channels) if distrust.0.is_empty() => {
                notices.extend(channels.topics.disabled.as_ref().map(ToString::to_string));
                (channels, None)
            }
            ChannelsState::Open(channels) => (channels, Some(distrust)),
            ChannelsState::Closed(problems) => (Channels::closed(), Some(problems)),
        };
        if let Some(fault) = &fault {
            tracing::error!(%fault, "only the operator's command line is let in");
        }
        let live = Live::new(home.clone(), environment.clone());
        live.hold(in_file.clone(), channels.topics.profile.clone());
        let demo = learn_secrets(&live, &secrets, &mut notices).await;
        let (machine_zone, zone_fault) = Zone::of_machine(&options.environment);
        if config.timezone.is_none() {
            notices.extend(zone_fault);
        }
        let zone = config.timezone.clone().unwrap_or(machine_zone);
        let opened = Self {
            home,
            lock,
            certificate,
            starting,
            address_file,
            environment,
            config,
            in_file,
            channels,
            fault,
            live,
            local: LocalTime::new(zone),
            tap,
            log,
            secrets,
            sandbox: Arc::new(sandbox),
            storage,
            boot,
            vault,
            demo: Arc::new(AtomicBool::new(demo)),
            notices,
        };
        Ok((opened, recovered))
    }
}

/// Refuses a kernel that cannot keep a path beneath a folder: no file of a team could be opened safely.
fn check_kernel(home: &Home, can: fn(&Path) -> io::Result<()>) -> Result<(), ServiceError> {
    let missing = "this kernel cannot open files beneath a folder (`openat2`), so teams' files are not safe; run \
                   Linux 5.6 or newer, and let a container pass that system call";
    can(home.run()).map_err(|error| machine(missing, error))
}

/// Opens the store and reads what a former process left. Blocks, so off the main thread.
async fn open_store(
    home: &Home,
    config: &Config,
    phase: &Phase,
) -> Result<(Arc<SledStorage>, router::Recovered, u64), ServiceError> {
    let layout = backup_home(home, config);
    let durability = config.store.durability;
    let phase = phase.clone();
    phase.set("opening the store");
    let opened = tokio::task::spawn_blocking(move || {
        let upgrading = |progress| phase.upgrading(progress);
        let storage = storage::open::open(&layout, durability, &upgrading)?;
        phase.set("reading what was left");
        let unreadable = |error| machine("the store cannot be read", error);
        let recovered = spine::recover(&storage).map_err(unreadable)?;
        let boot = boot::next(&storage).map_err(unreadable)?;
        Ok::<_, ServiceError>((Arc::new(storage), recovered, boot))
    });
    opened.await.map_err(|error| machine("the store cannot be opened", error))?
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
