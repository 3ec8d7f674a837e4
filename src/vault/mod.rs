//! The vault: values that teams use and models don't see.
//!
//! ```text
//! mod.rs     the handle: set, delete                 seal.rs    a value sealed to its place
//! reading.rs get, list, audit
//! state.rs   what is known without the store         master.rs  the key file
//! entry.rs   what is known of a value                unlock.rs  the key that fits
//! rows.rs    what is stored                          rotate.rs  another master key
//! audit.rs   who did what                            expand.rs  references in arguments
//! plan.rs    what a change would do                  teams.rs   entries that come and go with a team
//! aside.rs   credentials on their way to a team      settings.rs  references in settings files
//! scrubbers.rs  what must not be seen                at_rest.rs  changes without a store
//! health.rs  how it is, without changing it          redact.rs  what was written before
//! ```

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    ids::TeamName,
    spine,
    storage::Storage,
    store::StoreHandle,
};
use tokio::sync::OwnedMutexGuard;

use crate::{scrub::Mask, system::WallClock};

pub mod aside;
mod at_rest;
pub mod audit;
pub mod entry;
pub mod error;
pub mod expand;
pub mod health;
pub mod master;
mod plan;
pub mod reading;
mod redact;
pub mod rotate;
pub(crate) mod rows;
pub mod scope;
pub mod scrubbers;
pub mod seal;
mod settings;
mod state;
pub mod teams;
#[cfg(test)]
pub(crate) mod tests;
mod unlock;
pub mod webhooks;

use audit::{Action, Actor, AuditRow};
use entry::{Entry, Put};
use error::VaultError;
use master::{KeyFiles, Locked, MasterKeys};
use plan::Plan;
use redact::Lineages;
use rows::Change;
use scope::Scope;
use state::{Effect, State};

/// The vault. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    files: KeyFiles,
    clock: Arc<dyn Clock>,
    /// None: it can be looked at, and nothing else.
    store: Option<StoreHandle>,
    state: RwLock<State>,
    /// Whoever changes something holds it, from the decision until the state is up to date.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Rises whenever there is something else to be recognised.
    version: AtomicU64,
    /// Rises whenever something that was written has changed.
    redactions: AtomicU64,
    listeners: Mutex<Vec<Listener>>,
}

type Listener = Arc<dyn Fn(&Vault) + Send + Sync>;

/// The right to change something, until dropped.
type Turn = OwnedMutexGuard<()>;

impl Vault {
    /// Opens the vault of a storage that no store runs on, to look at it. Makes the master key at the
    /// first start. Blocks.
    pub fn open(
        storage: &dyn Storage,
        files: KeyFiles,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, VaultError> {
        Self::open_with(storage, files.read(), clock, None)
    }

    /// The same with keys that were read before the storage was opened. With a store, which nobody has used
    /// yet, it can be changed, and the store writes none of its secrets down. Blocks.
    pub fn open_with(
        storage: &dyn Storage,
        keys: MasterKeys,
        clock: Arc<dyn Clock>,
        store: Option<StoreHandle>,
    ) -> Result<Self, VaultError> {
        let files = keys.files.clone();
        let stored = rows::read(storage)?;
        let unlocked = unlock::unlock(keys, &stored)?;
        let now = clock.now();
        let mut change = Change::default();
        if let Some(row) = &unlocked.check {
            change.check(row);
        }
        let (state, left_behind) = State::new(unlocked, stored);
        if let Ok(master) = &state.master {
            for scope in left_behind {
                if let Some(data_key) = state.data_key(&scope) {
                    change.data_key(&scope, &plan::wrap(master, &scope, &data_key)?);
                }
            }
        } else {
            let mut row = AuditRow::new(now, &Scope::System, None, Action::Lock, &Actor::System);
            "vault_locked".clone_into(&mut row.outcome);
            change.audit(audit::name(now), &row);
        }
        let batch = change.batch()?;
        if !batch.changes.is_empty() {
            storage.commit(&batch)?;
        }
        let vault = Self::with(files, clock, state, store);
        if let Some(store) = &vault.0.store {
            store.redact_with(Arc::new(Lineages::new(&vault)), spine::TEXTS);
        }
        Ok(vault)
    }

    fn with(
        files: KeyFiles,
        clock: Arc<dyn Clock>,
        state: State,
        store: Option<StoreHandle>,
    ) -> Self {
        Self(Arc::new(Inner {
            files,
            clock,
            store,
            state: RwLock::new(state),
            turn: Arc::default(),
            version: AtomicU64::new(1),
            redactions: AtomicU64::new(0),
            listeners: Mutex::default(),
        }))
    }

    /// A vault that holds nothing and takes nothing, where no service runs.
    pub fn absent() -> Self {
        let state = State::locked(Locked::new("there is none here"));
        Self::with(KeyFiles::none(), Arc::new(WallClock), state, None)
    }

    /// Why it cannot be used, if it cannot.
    pub fn locked(&self) -> Option<Locked> {
        self.state().master.as_ref().err().cloned()
    }

    /// Rises whenever there is something else to be recognised.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Is told, now and whenever there is something else to be recognised. May block.
    pub fn on_change(&self, listener: impl Fn(&Self) + Send + Sync + 'static) {
        listener(self);
        self.listeners().push(Arc::new(listener));
    }

    /// What must be recognised of some scopes, and what stands in its place.
    pub fn secrets_of<'a>(&self, scopes: impl IntoIterator<Item = &'a Scope>) -> Vec<Mask> {
        let state = self.state();
        let scopes = scopes.into_iter();
        scopes.flat_map(|scope| state.masks(scope)).collect()
    }

    /// What must be recognised of a team, in whichever life of it.
    pub fn secrets_of_team(&self, name: &TeamName) -> Vec<Mask> {
        let state = self.state();
        let of_team = |scope: &&Scope| matches!(scope, Scope::Team(team) if team.name == *name);
        let scopes = state.scopes().filter(of_team);
        scopes.flat_map(|scope| state.masks(scope)).collect()
    }

    /// What must be recognised of what a team gave to teams that are not made yet.
    pub fn secrets_aside_of(&self, name: &TeamName) -> Vec<Mask> {
        let state = self.state();
        let by_team = |scope: &&Scope| matches!(scope, Scope::Aside(team) if team.name == *name);
        let scopes = state.scopes().filter(by_team);
        scopes.flat_map(|scope| state.masks(scope)).collect()
    }

    /// What must be recognised of all scopes.
    pub fn all_secrets(&self) -> Vec<Mask> {
        let state = self.state();
        let scopes = state.scopes();
        scopes.flat_map(|scope| state.masks(scope)).collect()
    }

    pub fn has_secrets(&self, scope: &Scope) -> bool {
        self.state().has_secrets(scope)
    }

    /// The version of an entry, if there is one.
    pub fn version_of(&self, scope: &Scope, key: &str) -> Option<u64> {
        let state = self.state();
        let mut entries = state.entries(scope).map(|item| &item.entry);
        entries.find(|entry| entry.key == key).map(|entry| entry.version)
    }

    /// Sets an entry. A team can make no secrets, and change none.
    pub async fn set(
        &self,
        scope: &Scope,
        key: &str,
        put: Put,
        actor: &Actor,
    ) -> Result<Entry, VaultError> {
        let row = self.row(scope, Some(key), Action::Set, actor);
        let turn = self.turn().await;
        let planned = self.plan_set(scope, key, &put, actor).await;
        let (plan, entry) = self.or_record(planned, row.clone()).await?;
        self.commit(turn, plan, [row]).await?;
        if entry.secret {
            self.redact().await;
        }
        Ok(entry)
    }

    /// Deletes an entry; false if there was none. A team can delete no secret.
    pub async fn delete(
        &self,
        scope: &Scope,
        key: &str,
        actor: &Actor,
    ) -> Result<bool, VaultError> {
        let row = self.row(scope, Some(key), Action::Delete, actor);
        let turn = self.turn().await;
        let planned = plan::delete(&self.state(), scope, key, actor);
        let Some(plan) = self.or_record(planned, row.clone()).await? else {
            drop(turn);
            self.record([row]).await?;
            return Ok(false);
        };
        self.commit(turn, plan, [row]).await?;
        Ok(true)
    }

    async fn plan_set(
        &self,
        scope: &Scope,
        key: &str,
        put: &Put,
        actor: &Actor,
    ) -> Result<(Plan, Entry), VaultError> {
        self.state().unlocked()?;
        let value = match &put.value {
            Some(value) => Some(value.clone()),
            None => self.stored_value(scope, key).await?,
        };
        plan::set(&self.state(), scope, key, put, value, actor, self.now())
    }

    /// Writes a row of the audit for a refusal.
    async fn or_record<T>(
        &self,
        outcome: Result<T, VaultError>,
        row: AuditRow,
    ) -> Result<T, VaultError> {
        if let Err(error) = &outcome {
            self.record([row.refused(error)]).await?;
        }
        outcome
    }

    /// Writes rows of the audit.
    async fn record(&self, rows: impl IntoIterator<Item = AuditRow>) -> Result<(), VaultError> {
        let mut change = Change::default();
        for row in rows {
            change.audit(audit::name(row.at), &row);
        }
        self.store()?.commit(change.writes()).await?;
        Ok(())
    }

    /// Makes a plan durable with its audit, then real.
    async fn commit(
        &self,
        turn: Turn,
        mut plan: Plan,
        rows: impl IntoIterator<Item = AuditRow>,
    ) -> Result<(), VaultError> {
        for row in rows {
            plan.change.audit(audit::name(row.at), &row);
        }
        let writes = std::mem::take(&mut plan.change).writes();
        self.store()?.commit(writes).await?;
        self.realise(turn, plan.effects).await;
        Ok(())
    }

    /// What is durable becomes real. Whoever must recognise secrets knows them when this ends.
    async fn realise(&self, turn: Turn, effects: Vec<Effect>) {
        if self.apply(effects) {
            let vault = self.clone();
            // A listener that failed is no reason to say that nothing was stored.
            let _ = tokio::task::spawn_blocking(move || vault.tell()).await;
        }
        drop(turn);
    }

    /// Returns whether there is something else to be recognised.
    fn apply(&self, effects: Vec<Effect>) -> bool {
        self.apply_to(&mut self.state_mut(), effects)
    }

    fn apply_to(&self, state: &mut State, effects: Vec<Effect>) -> bool {
        let mut changed = false;
        for effect in effects {
            changed |= effect.changes_secrets(state);
            state.apply(effect);
        }
        if changed {
            self.0.version.fetch_add(1, Ordering::AcqRel);
        }
        changed
    }

    fn tell(&self) {
        let listeners: Vec<Listener> = self.listeners().clone();
        for listener in listeners {
            listener(self);
        }
    }

    fn row(&self, scope: &Scope, key: Option<&str>, action: Action, actor: &Actor) -> AuditRow {
        // What is no key may be anything, a value in the wrong place too.
        let key = key.filter(|key| entry::is_key(key));
        AuditRow::new(self.now(), scope, key, action, actor)
    }

    /// By its clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    async fn turn(&self) -> Turn {
        self.0.turn.clone().lock_owned().await
    }

    fn store(&self) -> Result<&StoreHandle, VaultError> {
        self.0.store.as_ref().ok_or(VaultError::NotReady)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<Listener>> {
        let listeners = self.0.listeners.lock();
        listeners.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}
