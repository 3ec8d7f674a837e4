//! The vault: values that teams use and models don't see.
//!
//! ```text
//! mod.rs     the handle: set, delete                 seal.rs    a value sealed to its place
//! reading.rs get, list, values in the clear          master.rs  the key file
//! state.rs   what is known without the store         unlock.rs  the key that fits
//! entry.rs   what is known of a value                rotate.rs  another master key
//! rows.rs    what is stored                          expand.rs  references in arguments
//! change.rs  what is to be stored                    teams.rs   entries that come and go with a team
//! audit.rs   who did what                            escrow.rs  credentials on their way to a team
//! redact.rs  what was written before                 scrubbers.rs  what must not be seen
//! ```

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hivewright_actors::{
    blocking,
    clock::{Clock, Timestamp},
    ids::TeamName,
    storage::Storage,
    store::{StoreHandle, records::Writes},
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::OwnedMutexGuard;

use crate::{scrub::Mask, system::WallClock};

pub mod audit;
mod change;
pub mod entry;
pub mod error;
pub mod escrow;
pub mod expand;
pub mod health;
pub mod limit;
pub mod master;
pub mod reading;
mod redact;
pub mod rotate;
pub(crate) mod rows;
pub mod scope;
pub mod scrubbers;
pub mod seal;
mod state;
pub mod teams;
#[cfg(test)]
pub(crate) mod tests;
mod unlock;

use audit::{Action, Actor, AuditRow};
use change::Change;
use entry::{Entry, Put};
use error::{Locked, Result, VaultError};
use master::{KeyFiles, MasterKeys};
use scope::Scope;
use state::{Effect, State};

/// The vault. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    shared: Arc<Shared>,
    /// None: it can be looked at, and nothing else.
    store: Option<StoreHandle>,
}

/// What the vault of a store and the one that this store's records are cleaned by have in common.
struct Shared {
    files: KeyFiles,
    clock: Arc<dyn Clock>,
    state: RwLock<State>,
    /// Whoever changes something holds it, from the decision until the state is up to date.
    turn: Arc<tokio::sync::Mutex<()>>,
    version: AtomicU64,
    /// Whoever takes secrets out of what was written holds it.
    redacting: tokio::sync::Mutex<()>,
    listeners: Mutex<Vec<Listener>>,
}

type Listener = Arc<dyn Fn(&Vault) + Send + Sync>;

/// The right to change something, until dropped.
type Turn = OwnedMutexGuard<()>;

impl Vault {
    /// Opens the vault of a storage that no store runs on yet, to look at it. Makes the master key at the
    /// first start. Blocks.
    pub fn open(storage: &dyn Storage, keys: MasterKeys, clock: Arc<dyn Clock>) -> Result<Self> {
        let files = keys.files.clone();
        let stored = rows::read(storage)?;
        let is_checked = stored.check.is_some();
        let (state, left_behind) = State::new(unlock::unlock(keys, &stored)?, stored);
        let mut change = Change::default();
        if let Ok(master) = &state.master {
            if !is_checked {
                change.check(master)?;
            }
            for (scope, data_key) in left_behind {
                change.wrap(master, &scope, &data_key)?;
            }
        } else {
            let now = clock.now();
            let mut row = AuditRow::new(now, &Scope::System, None, Action::Lock, &Actor::System);
            "vault_locked".clone_into(&mut row.outcome);
            change.audit(&row);
        }
        let batch = change.writes.batch()?;
        if !batch.changes.is_empty() {
            storage.commit(&batch)?;
        }
        Ok(Self::with(files, clock, state))
    }

    /// The same vault, which can be changed: in the store that runs on its storage by now.
    pub fn with_store(self, store: StoreHandle) -> Self {
        Self { store: Some(store), ..self }
    }

    fn with(files: KeyFiles, clock: Arc<dyn Clock>, state: State) -> Self {
        let shared = Arc::new(Shared {
            files,
            clock,
            state: RwLock::new(state),
            turn: Arc::default(),
            version: AtomicU64::new(1),
            redacting: tokio::sync::Mutex::default(),
            listeners: Mutex::default(),
        });
        Self { shared, store: None }
    }

    /// A vault that holds nothing and takes nothing, where no service runs.
    pub fn absent() -> Self {
        let state = State::locked(Locked("there is none here".to_owned()));
        Self::with(KeyFiles::default(), Arc::new(WallClock), state)
    }

    /// Why it cannot be used, if it cannot.
    pub fn locked(&self) -> Option<Locked> {
        self.state().master.as_ref().err().cloned()
    }

    /// Rises whenever there is something else to be recognised.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// Is told, now and whenever there is something else to be recognised. May block.
    pub fn on_change(&self, listener: impl Fn(&Self) + Send + Sync + 'static) {
        listener(self);
        self.shared.listeners.lock().push(Arc::new(listener));
    }

    /// What must be recognised of the scopes that are wanted, and what stands in its place.
    pub fn secrets_of(&self, wanted: impl Fn(&Scope) -> bool) -> Vec<Mask> {
        let state = self.state();
        state.scopes().filter(|scope| wanted(scope)).flat_map(|scope| state.masks(scope)).collect()
    }

    /// What must be recognised of a team, in whichever life of it.
    pub fn secrets_of_team(&self, name: &TeamName) -> Vec<Mask> {
        self.secrets_of(|scope| matches!(scope, Scope::Team(team) if team.name == *name))
    }

    pub fn all_secrets(&self) -> Vec<Mask> {
        self.secrets_of(|_| true)
    }

    pub fn has_secrets(&self, scope: &Scope) -> bool {
        self.state().has_secrets(scope)
    }

    /// The version of an entry, if there is one.
    pub fn version_of(&self, scope: &Scope, key: &str) -> Option<u64> {
        self.state().find(scope, key).map(|item| item.entry.version)
    }

    /// Whether an entry may be sent to a host. One that is not there may: its use fails by itself.
    pub fn may_send(&self, scope: &Scope, key: &str, host: &str) -> bool {
        self.state().find(scope, key).is_none_or(|item| item.entry.may_go_to(host))
    }

    /// Names one more host that a secret may be sent to, for good.
    pub async fn add_host(&self, scope: &Scope, key: &str, host: &str, by: &Actor) -> Result<()> {
        // What others change meanwhile counts: the list is read when nobody can.
        let turn = self.turn().await;
        if self.may_send(scope, key, host) {
            return Ok(());
        }
        let hosts = self.state().find(scope, key).map(|item| item.entry.hosts.clone());
        let mut hosts = hosts.unwrap_or_default();
        hosts.push(host.to_owned());
        let put = Put { hosts: Some(hosts), ..Put::default() };
        self.set_in(turn, scope, key, put, by).await.map(drop)
    }

    /// Sets an entry. A team can make no secrets, and change none.
    pub async fn set(&self, scope: &Scope, key: &str, put: Put, actor: &Actor) -> Result<Entry> {
        let turn = self.turn().await;
        self.set_in(turn, scope, key, put, actor).await
    }

    async fn set_in(
        &self,
        turn: Turn,
        scope: &Scope,
        key: &str,
        put: Put,
        actor: &Actor,
    ) -> Result<Entry> {
        let row = self.row(scope, Some(key), Action::Set, actor);
        let planned = self.plan_set(scope, key, &put, actor).await;
        let (mut change, entry) = self.or_record(planned, &row).await?;
        change.audit(&row);
        self.commit(turn, change).await?;
        if entry.secret {
            self.redact_soon().await;
        }
        Ok(entry)
    }

    /// Deletes an entry; false if there was none. A team can delete no secret.
    pub async fn delete(&self, scope: &Scope, key: &str, actor: &Actor) -> Result<bool> {
        let row = self.row(scope, Some(key), Action::Delete, actor);
        let turn = self.turn().await;
        let planned = Change::delete(&self.state(), scope, key, actor);
        let planned = self.or_record(planned, &row).await?;
        let deleted = planned.is_some();
        let mut change = planned.unwrap_or_default();
        change.audit(&row);
        self.commit(turn, change).await?;
        Ok(deleted)
    }

    /// Sets entries of a scope of a storage that no store is running on. Returns what is to be committed, with
    /// whatever else belongs to it.
    ///
    /// Here they count from this call on, so a vault whose commit failed is not to be used further.
    pub fn set_at_rest(
        &self,
        scope: &Scope,
        puts: impl IntoIterator<Item = (String, Put)>,
        actor: &Actor,
    ) -> Result<Writes> {
        let mut writes = Writes::new();
        for (key, put) in puts {
            let planned = Change::set(&self.state(), scope, &key, &put, None, actor, self.now());
            let (mut change, _) = planned?;
            change.audit(&self.row(scope, Some(&key), Action::Set, actor));
            writes = writes.and(change.writes);
            self.apply(change.effects);
        }
        Ok(writes)
    }

    async fn plan_set(
        &self,
        scope: &Scope,
        key: &str,
        put: &Put,
        actor: &Actor,
    ) -> Result<(Change, Entry)> {
        self.state().unlocked()?;
        let stored = match &put.value {
            Some(_) => None,
            None => self.stored_value(scope, key).await?,
        };
        Change::set(&self.state(), scope, key, put, stored, actor, self.now())
    }

    /// Writes a row of the audit for a refusal.
    async fn or_record<T>(&self, outcome: Result<T>, row: &AuditRow) -> Result<T> {
        if let Err(error) = &outcome {
            self.record(&row.clone().refused(error)).await?;
        }
        outcome
    }

    /// Writes a row of the audit for what was done or refused.
    async fn recorded<T>(&self, outcome: Result<T>, row: &AuditRow) -> Result<T> {
        let outcome = self.or_record(outcome, row).await?;
        self.record(row).await?;
        Ok(outcome)
    }

    async fn record(&self, row: &AuditRow) -> Result<()> {
        let mut change = Change::default();
        change.audit(row);
        self.store_writes(change.writes).await
    }

    /// Makes a change durable, then real.
    async fn commit(&self, turn: Turn, change: Change) -> Result<()> {
        self.store_writes(change.writes).await?;
        self.realise(turn, change.effects).await;
        Ok(())
    }

    async fn store_writes(&self, writes: Writes) -> Result<()> {
        self.store()?.commit(writes).await?;
        Ok(())
    }

    /// What is durable becomes real. Whoever must recognise secrets knows them when this ends.
    async fn realise(&self, turn: Turn, effects: Vec<Effect>) {
        if self.apply(effects) {
            let vault = self.clone();
            // A listener that failed is no reason to say that nothing was stored.
            let _ = blocking::run(move || vault.tell()).await;
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
            changed |= state.apply(effect);
        }
        if changed {
            self.shared.version.fetch_add(1, Ordering::AcqRel);
        }
        changed
    }

    fn tell(&self) {
        let listeners: Vec<Listener> = self.shared.listeners.lock().clone();
        for listener in listeners {
            listener(self);
        }
    }

    fn row(&self, scope: &Scope, key: Option<&str>, action: Action, actor: &Actor) -> AuditRow {
        // What is no key may be anything, a value in the wrong place too.
        let key = key.filter(|key| entry::is_key(key));
        AuditRow::new(self.now(), scope, key, action, actor)
    }

    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    async fn turn(&self) -> Turn {
        self.shared.turn.clone().lock_owned().await
    }

    fn store(&self) -> Result<&StoreHandle> {
        self.store.as_ref().ok_or(VaultError::NotReady)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.shared.state.read()
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.shared.state.write()
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}
