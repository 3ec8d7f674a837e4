//! Escrow: values in a call, kept from the moment it was let through until it has its result.
//!
//! A call that makes a team holds credentials in the clear. They leave it before it is journalled,
//! and become secrets of the new team when that is made, be it at once or days later when a person
//! has allowed it. They belong to the team that asked until then, and to the task whose end is also
//! theirs. A call that sets a fact of the team holds a text that is not written down with it either; nobody is
//! kept from seeing that text elsewhere.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{
    clock::Timestamp,
    ids::{CallId, TaskId, TeamKey},
    storage::Storage,
};

use super::{
    Vault,
    audit::{Action, Actor},
    change::Change,
    entry::{self, Entry, Put},
    error::{Result, VaultError},
    limit::Limit,
    scope::Scope,
    seal::Plain,
    state::{Content, Effect, Item, State},
    teams::Pending,
};
use crate::system::sha256;

/// Nobody decides on a call any more that is older.
const FORGOTTEN: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Digits of a digest that tell calls and keys apart.
const TOLD_APART: usize = 32;

/// Values of secrets, by the names of their references.
pub type SecretValues = BTreeMap<String, String>;

/// The call that credentials were taken out of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub team: TeamKey,
    /// At work on what.
    pub task: TaskId,
    /// The model's name for it.
    pub call: CallId,
}

impl Origin {
    fn scope(&self) -> Scope {
        Scope::Escrow(self.team.clone())
    }

    fn actor(&self) -> Actor {
        Actor::Team { team: self.team.clone(), task: self.task.clone() }
    }

    /// What the entries of the call begin with. Models wrote the rest, so it is not used as it is.
    fn prefix(&self) -> String {
        format!("{}:{}:", self.task, digest(self.call.as_str()))
    }

    fn key_of(&self, key: &str) -> String {
        format!("{}{}", self.prefix(), digest(key))
    }
}

/// Credentials that are known here and not durable yet.
#[derive(Clone)]
pub struct Escrow {
    vault: Vault,
    of: Origin,
    values: Arc<[(Entry, Plain)]>,
}

impl Escrow {
    /// What makes them durable.
    pub async fn keep(&self) -> Result<Pending> {
        let Self { vault, of, values } = self;
        let (scope, actor) = (of.scope(), of.actor());
        let turn = vault.turn().await;
        let mut change = Change::default();
        {
            let state = vault.state();
            let data_key = change.data_key(&state, &scope)?;
            // Its task may have ended meanwhile.
            let wanted = |(entry, _): &&(Entry, Plain)| state.find(&scope, &entry.key).is_some();
            for (entry, value) in values.iter().filter(wanted) {
                change.entry(&scope, &data_key, entry.clone(), value.clone())?;
                // Whoever sets a fact hears of that alone.
                if entry.secret {
                    change.audit(&vault.row(&scope, Some(&entry.note), Action::Set, &actor));
                }
            }
        }
        // The values are known already.
        change.effects.retain(|effect| matches!(effect, Effect::DataKey(..)));
        Ok(vault.pending(turn, change))
    }
}

impl Vault {
    /// Takes the credentials of a call, all or none. They are scrubbed from now on for the team that
    /// asks and at the borders, and count once what [`Escrow::keep`] says is durable. Does not wait.
    pub fn escrow(&self, of: &Origin, values: &SecretValues) -> Result<Escrow> {
        check_given(values)?;
        self.take_in(of, values, Put::secret)
    }

    /// Takes texts of a call that are no secrets, all or none. Does not wait.
    pub fn escrow_facts(&self, of: &Origin, values: &SecretValues) -> Result<Escrow> {
        self.take_in(of, values, Put::public)
    }

    fn take_in(
        &self,
        of: &Origin,
        values: &SecretValues,
        put: fn(String) -> Put,
    ) -> Result<Escrow> {
        let (scope, now) = (of.scope(), self.now());
        let mut taken = Vec::new();
        let changed = {
            let mut state = self.state_mut();
            state.unlocked()?;
            for (key, value) in values {
                let put = Put {
                    // The key that it will have.
                    note: Some(key.clone()),
                    ..put(value.clone())
                };
                let (kept, by) = (of.key_of(key), of.actor().name());
                entry::check(&kept, &put)?;
                let entry = entry::merge(&kept, &put, None, value.len(), &by, now)?;
                taken.push((entry, Plain::new(value.as_str())));
            }
            let others = state.entries(&scope).map(|item| &item.entry.key);
            let others = others.filter(|key| taken.iter().all(|(entry, _)| entry.key != **key));
            let most = entry::most_entries(&scope);
            if others.count() + taken.len() > most {
                return Err(Limit::Waiting(most).into());
            }
            let items = taken.iter().map(|(entry, value)| Item::new(entry.clone(), value.clone()));
            let effects = items.map(|item| Effect::Put(scope.clone(), item)).collect();
            self.apply_to(&mut state, effects)
        };
        if changed {
            self.tell();
        }
        Ok(Escrow { vault: self.clone(), of: of.clone(), values: taken.into() })
    }

    /// Makes the credentials of a call secrets of a team that is being made.
    pub async fn hand_over(&self, of: &Origin, keys: &[String], team: &TeamKey) -> Result<Pending> {
        let turn = self.turn().await;
        let mut values = Vec::new();
        for key in keys {
            values.push((key.clone(), self.kept(of, key)?));
        }
        let mut change = self.plan_given(values, team, &of.actor())?;
        for key in keys {
            change.drop_entry(&of.scope(), &of.key_of(key));
        }
        Ok(self.pending(turn, change))
    }

    /// Makes values secrets of a team that is being made.
    pub async fn give(
        &self,
        values: &SecretValues,
        team: &TeamKey,
        actor: &Actor,
    ) -> Result<Pending> {
        let turn = self.turn().await;
        let values = values.iter().map(|(key, value)| (key.clone(), Plain::new(value.as_str())));
        let change = self.plan_given(values, team, actor)?;
        Ok(self.pending(turn, change))
    }

    fn plan_given(
        &self,
        values: impl IntoIterator<Item = (String, Plain)>,
        team: &TeamKey,
        actor: &Actor,
    ) -> Result<Change> {
        let scope = Scope::Team(team.clone());
        let mut change = Change::default();
        // A team of this key that was not made in the end has left nothing that counts.
        change.effects.push(Effect::Forget(scope.clone()));
        let mut state = self.state().emptied();
        for (key, value) in values {
            let put = Put {
                value: Some(value),
                secret: Some(true),
                note: Some("given when the team was made".to_owned()),
                ..Put::default()
            };
            let (step, _) = Change::set(&state, &scope, &key, &put, None, actor, self.now())?;
            change.follow(&mut state, step);
            change.audit(&self.row(&scope, Some(&key), Action::Set, actor));
        }
        Ok(change)
    }

    fn kept(&self, of: &Origin, key: &str) -> Result<Plain> {
        let state = self.state();
        state.unlocked()?;
        let item = state.find(&of.scope(), &of.key_of(key));
        match item.map(|item| &item.content) {
            Some(Content::Secret(value)) => Ok(value.clone()),
            _ => Err(VaultError::NotFound { key: key.to_owned(), near: Vec::new() }),
        }
    }

    /// A text of a call that is no secret; none if none was kept.
    pub async fn escrowed_fact(&self, of: &Origin, key: &str) -> Result<Option<Plain>> {
        self.state().unlocked()?;
        self.stored_value(&of.scope(), &of.key_of(key)).await
    }

    /// Lets go of the credentials of a call that has its result, soon.
    pub fn release_call(&self, of: &Origin) {
        let (scope, prefix) = (of.scope(), of.prefix());
        self.release_soon(move |of, entry| *of == scope && entry.key.starts_with(&prefix));
    }

    /// Lets go of the credentials of all calls of a task that has its outcome, soon.
    pub fn release_task(&self, task: &TaskId) {
        let task = task.clone();
        self.release_soon(move |_, entry| task_of(entry) == task.as_str());
    }

    /// A failure leaves them to the end of their task, and to the next start.
    fn release_soon(&self, which: impl Fn(&Scope, &Entry) -> bool + Send + Sync + 'static) {
        if self.state().escrowed(&which).is_empty() {
            return;
        }
        let vault = self.clone();
        hivewright_actors::spawn::local(async move {
            if let Err(error) = vault.release(which).await {
                tracing::warn!(%error, "credentials of a team that is not made stay for now");
            }
        });
    }

    /// Lets go of what is so old that nobody decides on it any more.
    pub async fn release_forgotten(&self) -> Result<()> {
        let now = self.now();
        self.release(move |_, entry| is_forgotten(entry, now)).await
    }

    async fn release(&self, which: impl Fn(&Scope, &Entry) -> bool + Send + Sync) -> Result<()> {
        let turn = self.turn().await;
        let change = self.plan_release(&which);
        if change.effects.is_empty() {
            return Ok(());
        }
        self.commit(turn, change).await
    }

    fn plan_release(&self, which: &dyn Fn(&Scope, &Entry) -> bool) -> Change {
        let mut change = Change::default();
        for (scope, entry) in self.state().escrowed(which) {
            change.drop_entry(&scope, &entry.key);
            if entry.secret {
                change.audit(&self.row(&scope, Some(&entry.note), Action::Delete, &Actor::System));
            }
        }
        change
    }

    /// Lets go of what no open task will come for, before the store is used. Blocks.
    pub fn release_at_rest(&self, storage: &dyn Storage, open: &HashSet<TaskId>) -> Result<()> {
        let now = self.now();
        let is_open = |entry: &Entry| open.contains(&TaskId::from(task_of(entry)));
        let change = self.plan_release(&|_, entry| !is_open(entry) || is_forgotten(entry, now));
        if !change.effects.is_empty() {
            storage.commit(&change.writes.batch()?)?;
            self.apply(change.effects);
        }
        Ok(())
    }
}

impl State {
    /// Entries that are kept for teams that are not made yet.
    fn escrowed(&self, which: &dyn Fn(&Scope, &Entry) -> bool) -> Vec<(Scope, Entry)> {
        let scopes = self.scopes().filter(|scope| matches!(scope, Scope::Escrow(_)));
        let entries = scopes.flat_map(|scope| {
            let entries = self.entries(scope).map(|item| &item.entry);
            entries.filter(|entry| which(scope, entry)).map(|entry| (scope.clone(), entry.clone()))
        });
        entries.collect()
    }
}

/// Says what is wrong with credentials, if something is.
pub fn check_given(values: &SecretValues) -> Result<()> {
    for (key, value) in values {
        let put = Put::secret(value.as_str());
        entry::check(key, &put)?;
        entry::merge(key, &put, None, value.len(), "", Timestamp(0))?;
    }
    Ok(())
}

fn digest(text: &str) -> String {
    let mut digest = sha256(text.as_bytes());
    digest.truncate(TOLD_APART);
    digest
}

/// The task whose call an entry was taken out of.
fn task_of(entry: &Entry) -> &str {
    entry.key.rsplitn(3, ':').nth(2).unwrap_or_default()
}

fn is_forgotten(entry: &Entry, now: Timestamp) -> bool {
    entry.created_at + FORGOTTEN < now
}
