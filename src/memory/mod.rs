//! Memory: what a team knows from one turn to the next.
//!
//! Each version of each entry is a row. A decision is made over the versions of one key (`chain`),
//! committed, and only then answered. Beside the rows there is derived data for each team in use:
//! what is active (`catalog`), the search index (`search`) and the text for prompts (`inject`). It is
//! made from the rows when it is first needed, kept in step by the one writer a team has, and gone
//! with the process.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use dashmap::DashMap;
use hivewright_actors::{
    clock::{Clock, Timestamp},
    ids::{Ids, TeamKey},
    store::StoreHandle,
};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMappedMutexGuard, OwnedMutexGuard};

pub mod acts;
mod catalog;
pub mod chain;
#[cfg(test)]
pub(crate) mod doubles;
pub mod entry;
pub mod error;
pub mod inject;
pub mod provenance;
mod rate;
pub mod reading;
pub(crate) mod rows;
pub mod search;
mod words;

#[cfg(test)]
mod tests;

use self::{
    catalog::MemoryCatalog,
    entry::Key,
    error::{MemoryError, Result},
    rate::Rate,
};

/// Finds the values of secrets in what is about to be remembered.
pub trait SecretGuard: Send + Sync + 'static {
    /// The key of a secret of the team whose value is in the text.
    fn holds_secret(&self, team: &TeamKey, text: &str) -> Option<String>;

    /// The value of another secret that the team must not see is in the text.
    fn holds_hidden(&self, team: &TeamKey, text: &str) -> bool;
}

/// The memory of all teams. Cheap to clone.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    ids: Ids,
    guard: Arc<dyn SecretGuard>,
    teams: DashMap<TeamKey, Arc<Slot>>,
}

#[derive(Default)]
struct Slot {
    /// Held by whoever reads or changes the team's memory: one at a time.
    shelf: Arc<AsyncMutex<Shelf>>,
    /// Saves that were asked for and are not done yet, by key.
    under_way: Mutex<HashMap<Key, usize>>,
    /// What the next turn is told; none until someone asks.
    told: Mutex<Option<Told>>,
    forgotten: AtomicBool,
}

#[derive(Default)]
struct Shelf {
    /// Derived from the rows; none until someone asks.
    catalog: Option<MemoryCatalog>,
    /// The redactions that the rows had seen by then.
    redactions: u64,
    rate: Rate,
}

#[derive(Clone)]
struct Told {
    text: Arc<str>,
    /// An entry ends then.
    until: Option<Timestamp>,
    /// The redactions that the rows had seen by then.
    redactions: u64,
}

impl Memory {
    pub fn new(
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        ids: Ids,
        guard: Arc<dyn SecretGuard>,
    ) -> Self {
        Self(Arc::new(Inner { store, clock, ids, guard, teams: DashMap::new() }))
    }

    fn store(&self) -> &StoreHandle {
        &self.0.store
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn slot(&self, team: &TeamKey) -> Arc<Slot> {
        if let Some(slot) = self.0.teams.get(team) {
            return slot.clone();
        }
        self.0.teams.entry(team.clone()).or_default().clone()
    }

    /// The catalog of a team as it is now. Until it is dropped, nothing of the team changes.
    async fn catalog(&self, team: &TeamKey) -> Result<OwnedMappedMutexGuard<Shelf, MemoryCatalog>> {
        let slot = self.slot(team);
        let mut shelf = slot.shelf.clone().lock_owned().await;
        self.filled(team, &slot, &mut shelf).await?;
        Ok(OwnedMutexGuard::map(shelf, |shelf| shelf.catalog.get_or_insert_default()))
    }

    /// The catalog of a team, with what is over taken out.
    async fn filled<'a>(
        &self,
        team: &TeamKey,
        slot: &Slot,
        shelf: &'a mut Shelf,
    ) -> Result<&'a mut MemoryCatalog> {
        if slot.forgotten.load(Ordering::SeqCst) {
            return Err(MemoryError::Forgotten);
        }
        let redactions = self.store().redactions();
        if shelf.catalog.is_none() || shelf.redactions != redactions {
            shelf.redactions = redactions;
            let team = team.clone();
            let read = self.store().read(move |storage| {
                let mut catalog = MemoryCatalog::default();
                rows::of_team(storage, &team, &mut |entry| catalog.put(&entry))?;
                Ok(catalog)
            });
            shelf.catalog = Some(read.await?);
        }
        let catalog = shelf.catalog.get_or_insert_default();
        self.expire(team, slot, catalog).await?;
        Ok(catalog)
    }
}
