//! The store of a service that is stopped, for commands that work on it directly.

use std::sync::Arc;

use super::{
    context::Context,
    failure::{Failure, chain},
};
use crate::{
    boot::{backups::backup_home, error::ServiceError},
    settings::{home::Lock, load},
    storage::{self, OnProgress, open, tiers::TieredStorage},
    system::WallClock,
    vault::{Vault, master::KeyFiles},
};

/// The store, kept from everyone else until this is dropped.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) storage: TieredStorage,
    /// Where the things are that a backup holds.
    pub(super) home: storage::Home,
    _lock: Lock,
}

impl Stopped {
    /// Opens the store of a home in which no service runs. May block.
    pub(super) fn open(context: &Context, progress: OnProgress<'_>) -> Result<Self, ServiceError> {
        open::check_disk(&context.home.store())?;
        context.home.prepare()?;
        let lock = context.home.lock()?;
        let config = load::load_config(&context.home, &context.environment)?.0;
        let home = backup_home(&context.home, &config.backup, &config.limits);
        let storage = open::open(&home, config.store.durability, progress)?;
        Ok(Self { storage, home, _lock: lock })
    }

    /// The vault, if its key is there.
    pub(super) fn vault(&self, context: &Context) -> Result<Vault, Failure> {
        let keys = KeyFiles::new(&context.home.secrets(), &context.environment).read();
        let vault = Vault::open(&self.storage, keys, Arc::new(WallClock))
            .map_err(|error| Failure::failed(chain(&error)))?;
        match vault.locked() {
            Some(locked) => Err(Failure::failed(format!("the vault is locked: {locked}"))),
            None => Ok(vault),
        }
    }
}

/// Whether a store was ever made in the home.
pub(super) fn has_store(context: &Context) -> bool {
    let entries = context.home.store().read_dir();
    entries.is_ok_and(|mut entries| entries.next().is_some())
}
