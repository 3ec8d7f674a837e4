//! The vault at the start: opened with the store, told to whoever must know.

use std::{collections::HashSet, sync::Arc, time::Duration};

use hivewright_actors::{
    blocking,
    ids::{Ids, TaskId, TeamKey},
    notice::NoticeKind,
    store::{StoreHandle, records::Writes, redact::Texts},
};

use super::{
    error::{ServiceError, machine},
    notices::notify,
};
use crate::{
    logging::Secrets,
    memory::{self, SecretGuard},
    settings::{home::Home, references::Environment},
    storage::tiers::TieredStorage,
    system::WallClock,
    teams::self_changes,
    vault::{
        Vault,
        error::VaultError,
        master::{KeyFiles, MasterKeys},
        scrubbers::Scrubbers,
    },
};

/// How often the vault lets go of credentials that nobody decides on any more.
const SWEEP: Duration = Duration::from_secs(60 * 60);

/// Where records of the edges hold words: what redaction looks through besides those of the spine.
pub(super) const EDGES: &[&[Texts]] = &[memory::rows::TEXTS, self_changes::TEXTS];

/// Keeps secrets out of what teams remember.
pub(super) struct Guard(Scrubbers);

impl Guard {
    pub(super) fn new(vault: &Vault) -> Self {
        Self(Scrubbers::new(vault.clone(), []))
    }
}

impl SecretGuard for Guard {
    fn holds_secret(&self, team: &TeamKey, text: &str) -> Option<String> {
        let scrubber = self.0.of(&team.name);
        scrubber.key_in(text).map(str::to_owned)
    }

    fn holds_hidden(&self, team: &TeamKey, text: &str) -> bool {
        self.0.of(&team.name).knows(text)
    }
}

pub(super) async fn keys(
    home: &Home,
    environment: &Environment,
) -> Result<MasterKeys, ServiceError> {
    no_core_dumps();
    let files = KeyFiles::new(&home.secrets(), environment);
    blocking::run(move || files.read())
        .await
        .map_err(|error| machine("the master key cannot be read", error))
}

/// Opens the vault before a store runs on its storage, and lets go of what was kept for tasks that are not open any
/// more. From now on the log shows none of its secrets.
pub(super) async fn open(
    keys: MasterKeys,
    storage: Arc<TieredStorage>,
    open: HashSet<TaskId>,
    secrets: &Secrets,
) -> Result<Vault, ServiceError> {
    let opened = blocking::run(move || {
        let vault = Vault::open(&*storage, keys, Arc::new(WallClock))?;
        vault.release_at_rest(&*storage, &open)?;
        Ok::<_, VaultError>(vault)
    });
    let vault = opened
        .await
        .map_err(|error| machine("the vault cannot be opened", error))?
        .map_err(|error| machine("the vault cannot be opened", error))?;
    let log = secrets.clone();
    vault.on_change(move |vault| log.learn_vault(vault.all_secrets()));
    Ok(vault)
}

/// Tells the operator of a vault that is locked, and sees to what is due: what a crash cut off at once, old credentials
/// from time to time.
pub(super) async fn maintain(vault: &Vault, store: &StoreHandle, ids: &Ids) {
    hivewright_actors::spawn::local(sweep(vault.clone()));
    if let Some(locked) = vault.locked() {
        let text = format!("the vault is locked: {locked}");
        tracing::error!("{text}");
        notify(store, ids, NoticeKind::VaultLocked, text, Writes::new());
    }
    vault.redact_soon().await;
}

/// Their tasks end before they are so old: this is for what a failure left.
async fn sweep(vault: Vault) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if let Err(error) = vault.release_forgotten().await {
            tracing::warn!(%error, "old credentials of teams that were never made stay for now");
        }
    }
}

/// What is in memory stays there when the process dies.
fn no_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps cannot be switched off: a crash may leave an image of the memory, secrets included, on the disk");
    }
}
