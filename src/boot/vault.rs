//! The vault at the start: opened with the store, told to whoever must know.

use std::{collections::HashSet, sync::Arc, time::Duration};

use hivewright_actors::{
    clock::Clock,
    ids::{Ids, TaskId, TeamKey},
    notice::{Notice, NoticeKind},
    store::{StoreHandle, records::Writes},
};

use super::error::{ServiceError, machine};
use crate::{
    logging::Secrets,
    memory::SecretGuard,
    settings::{home::Home, references::Environment},
    storage::sled::SledStorage,
    system::WallClock,
    vault::{
        Vault,
        error::VaultError,
        master::{KeyFiles, MasterKeys},
        scrubbers::Scrubbers,
    },
};

/// How often the vault lets go of credentials that nobody decides on any more.
const SWEEP: Duration = Duration::from_secs(60 * 60);

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

    fn redactions(&self) -> u64 {
        self.0.vault().redactions()
    }
}

/// Reads the master keys that there are.
pub(super) async fn keys(
    home: &Home,
    environment: &Environment,
) -> Result<MasterKeys, ServiceError> {
    no_core_dumps();
    let files = KeyFiles::new(&home.secrets(), environment);
    tokio::task::spawn_blocking(move || files.read())
        .await
        .map_err(|error| machine("the master key cannot be read", error))
}

/// Opens the vault of a store that is not yet running, and lets go of what was kept for tasks that are
/// not open any more. From now on the log shows none of its secrets.
pub(super) async fn open(
    keys: MasterKeys,
    storage: Arc<SledStorage>,
    open: HashSet<TaskId>,
    secrets: &Secrets,
) -> Result<Vault, ServiceError> {
    let opened = tokio::task::spawn_blocking(move || {
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

/// Gives it the running store, and the operator a notice if it cannot be used.
pub(super) fn attach(vault: &Vault, store: &StoreHandle, ids: &Ids) {
    vault.attach(store.clone());
    actix::spawn(sweep(vault.clone()));
    let Some(locked) = vault.locked() else { return };
    let text = format!("the vault is locked: {locked}");
    tracing::error!("{text}");
    let notice = Notice {
        id: ids.notice(),
        kind: NoticeKind::VaultLocked,
        team: None,
        text,
        refs: Vec::new(),
        at: WallClock.now(),
        read: false,
    };
    // The store takes it in now; nobody waits until it is safe.
    drop(store.commit(Writes::new().put(&notice)));
}

/// Their tasks end before they are so old: this is for what a failure left.
async fn sweep(vault: Vault) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if let Err(error) = vault.release_forgotten().await {
            tracing::error!(%error, "old credentials of teams that were never made stay for now");
        }
    }
}

/// What is in memory stays there when the process dies.
fn no_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "a crash may leave an image of the memory on the disk");
    }
}
