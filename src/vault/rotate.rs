//! Rotation: another master key, under which all data keys are wrapped anew.
//!
//! Whatever step a crash comes after, the key that fits what is stored is in one of its places, and
//! the next start finds it there.

use std::sync::Arc;

use hivewright_actors::{blocking, clock::Clock, storage::Storage, store::records::Writes};

use super::{
    Vault,
    audit::{Action, Actor, AuditRow},
    change::Change,
    error::{Result, VaultError},
    master::{KeyFiles, Place},
    scope::Scope,
    seal::Key,
    state::{Effect, State},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotated {
    pub data_keys: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The new key is written beside the old one.
    Write,
    /// All data keys are wrapped anew in one commit, the check value last.
    Commit,
    /// The old key is kept under another name.
    SetAside,
    /// The new key gets the name in use.
    PutInUse,
}

impl Step {
    pub(super) const ALL: [Self; 4] = [Self::Write, Self::Commit, Self::SetAside, Self::PutInUse];
}

pub(super) struct Rotation {
    files: KeyFiles,
    key: Key,
    writes: Writes,
    pub(super) data_keys: usize,
}

impl Rotation {
    pub(super) fn new(state: &State, files: &KeyFiles, row: &AuditRow) -> Result<Self> {
        state.unlocked()?;
        if state.place == Place::Credential {
            return Err(VaultError::NotOurKey);
        }
        refuse_replaced(files, state)?;
        let key = Key::random()?;
        let mut change = Change::default();
        let mut data_keys = 0;
        for (scope, data_key) in state.data_keys() {
            change.wrap(&key, scope, data_key)?;
            data_keys += 1;
        }
        change.audit(row);
        change.check(&key)?;
        Ok(Self { files: files.clone(), key, writes: change.writes, data_keys })
    }

    /// Does a step. `commit` makes its writes durable.
    pub(super) async fn perform(
        &mut self,
        step: Step,
        commit: impl AsyncFnOnce(Writes) -> Result<()>,
    ) -> Result<()> {
        let (files, key) = (self.files.clone(), self.key.clone());
        match step {
            Step::Write => blocking(move || files.write_new(&key)).await,
            Step::Commit => commit(std::mem::take(&mut self.writes)).await,
            Step::SetAside => blocking(move || files.set_aside()).await,
            Step::PutInUse => blocking(move || files.put_in_use()).await,
        }
    }
}

impl Vault {
    /// Replaces the master key. The replaced one is kept beside it, for backups made before.
    pub async fn rotate_master(&self, actor: &Actor) -> Result<Rotated> {
        let row = self.row(&Scope::System, None, Action::Rotate, actor);
        let turn = self.turn().await;
        let finished = self.finish_rotation().await;
        self.or_record(finished, &row).await?;
        let begun = Rotation::new(&self.state(), &self.shared.files, &row);
        let mut rotation = self.or_record(begun, &row).await?;
        for step in Step::ALL {
            rotation.perform(step, async |writes| self.store_writes(writes).await).await?;
            if step == Step::Commit {
                // From here on this is the key, whatever becomes of the files.
                self.apply(vec![Effect::Master(rotation.key.clone())]);
            }
        }
        self.apply(vec![Effect::MasterInUse]);
        drop(turn);
        tracing::info!(data_keys = rotation.data_keys, "the master key was replaced");
        Ok(Rotated { data_keys: rotation.data_keys })
    }

    /// Ends a rotation whose files could not be put in place: the key in use is only in the file that
    /// the next one would write.
    async fn finish_rotation(&self) -> Result<()> {
        if self.state().place != Place::New {
            return Ok(());
        }
        let files = self.shared.files.clone();
        blocking(move || files.finish()).await?;
        self.apply(vec![Effect::MasterInUse]);
        Ok(())
    }

    /// Removes the keys that rotations replaced; false if there is none. The vaults of backups from before
    /// those rotations cannot be opened any more.
    pub async fn forget_old_master(&self, actor: &Actor) -> Result<bool> {
        let row = self.row(&Scope::System, None, Action::Rotate, actor);
        let turn = self.turn().await;
        let may = may_forget(&self.shared.files, &self.state());
        let files = self.shared.files.clone();
        let forgotten = match may {
            Ok(()) => blocking(move || files.forget_replaced()).await,
            Err(error) => Err(error),
        };
        drop(turn);
        self.recorded(forgotten, &row).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    blocking::run(work).await.unwrap_or(Err(VaultError::NotReady))
}

/// Replaces the master key of a storage that no store is running on, and tells how many steps of how many
/// are done.
pub async fn rotate_at_rest(
    storage: &dyn Storage,
    files: KeyFiles,
    clock: Arc<dyn Clock>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Rotated> {
    let vault = Vault::open(storage, files.read(), clock)?;
    let row = vault.row(&Scope::System, None, Action::Rotate, &Actor::System);
    let mut rotation = Rotation::new(&vault.state(), &vault.shared.files, &row)?;
    for (done, step) in (0..).zip(Step::ALL) {
        progress(done, Step::ALL.len() as u64);
        rotation.perform(step, async |writes| Ok(storage.commit(&writes.batch()?)?)).await?;
    }
    Ok(Rotated { data_keys: rotation.data_keys })
}

/// Removes the replaced keys of a storage that no store is running on; false if there is none.
pub fn forget_old_at_rest(
    storage: &dyn Storage,
    files: KeyFiles,
    clock: Arc<dyn Clock>,
) -> Result<bool> {
    let vault = Vault::open(storage, files.read(), clock)?;
    may_forget(&vault.shared.files, &vault.state())?;
    vault.shared.files.forget_replaced()
}

/// Whether no key is needed but the one in use.
fn may_forget(files: &KeyFiles, state: &State) -> Result<()> {
    state.unlocked()?;
    refuse_replaced(files, state)
}

fn refuse_replaced(files: &KeyFiles, state: &State) -> Result<()> {
    if state.place.is_replaced() {
        return Err(VaultError::OldKey(files.name(&state.place)));
    }
    Ok(())
}
