//! Aside: credentials in a call, kept from the moment it was let through until it has its result.
//!
//! A call that makes a team holds credentials in the clear. They leave it before it is journalled,
//! and become secrets of the new team when that is made, be it at once or days later when a person
//! has allowed it. They belong to the team that asked until then, and to the task whose end is also
//! theirs.

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
use sha2::{Digest, Sha256};

use super::{
    Turn, Vault,
    audit::{self, Action, Actor},
    entry::{self, Entry, Limit, Put},
    error::VaultError,
    plan::{self, Plan},
    rows::Change,
    scope::Scope,
    seal::Plain,
    state::{Content, Effect, Item, State},
    teams::Pending,
};

/// Nobody decides on a call any more that is older.
const FORGOTTEN: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Bytes of a digest that tell calls and keys apart.
const TOLD_APART: usize = 16;

/// The call that credentials were taken out of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The team that makes it.
    pub team: TeamKey,
    /// At work on what.
    pub task: TaskId,
    /// The model's name for it.
    pub call: CallId,
}

impl Origin {
    fn scope(&self) -> Scope {
        Scope::Aside(self.team.clone())
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
pub struct Aside(Arc<Held>);

struct Held {
    vault: Vault,
    of: Origin,
    values: Vec<(Entry, Plain)>,
}

impl Aside {
    /// What makes them durable.
    pub async fn keep(&self) -> Result<Pending, VaultError> {
        let Held { vault, of, values } = &*self.0;
        let (scope, actor) = (of.scope(), of.actor());
        let turn = vault.turn().await;
        let mut plan = Plan::default();
        {
            let state = vault.state();
            let data_key = plan.data_key(&state, &scope)?;
            // Its task may have ended meanwhile.
            let wanted = |(entry, _): &&(Entry, Plain)| state.find(&scope, &entry.key).is_some();
            for (entry, value) in values.iter().filter(wanted) {
                plan.put(&scope, &data_key, entry.clone(), value.clone())?;
                let row = vault.row(&scope, Some(&entry.note), Action::Set, &actor);
                plan.change.audit(audit::name(row.at), &row);
            }
        }
        // The values are known already.
        plan.effects.retain(|effect| matches!(effect, Effect::DataKey(..)));
        Ok(vault.pending(turn, plan))
    }
}

impl Vault {
    /// Takes the credentials of a call, all or none. They are scrubbed from now on for the team that
    /// asks and at the borders, and count once what [`Aside::keep`] says is durable. Does not wait.
    pub fn put_aside(
        &self,
        of: &Origin,
        values: &BTreeMap<String, String>,
    ) -> Result<Aside, VaultError> {
        check_given(values)?;
        let (scope, now) = (of.scope(), self.now());
        let mut taken = Vec::new();
        let changed = {
            let mut state = self.state_mut();
            state.unlocked()?;
            for (key, value) in values {
                let put = Put {
                    // The key that it will have.
                    note: Some(key.clone()),
                    ..Put::secret(value.as_str())
                };
                let (kept, by) = (of.key_of(key), of.actor().name());
                let entry = entry::merge(&kept, &put, None, value.len(), &by, now)?;
                taken.push((entry, Plain::new(value.as_str())));
            }
            let others = state.entries(&scope).map(|item| &item.entry.key);
            let others = others.filter(|key| taken.iter().all(|(entry, _)| entry.key != **key));
            let most = entry::most_entries(&scope);
            if others.count() + taken.len() > most {
                return Err(Limit::Waiting(most).into());
            }
            let items = taken.iter().map(|(entry, value)| Item {
                entry: entry.clone(),
                content: Content::Secret(value.clone()),
            });
            let effects = items.map(|item| Effect::Put(scope.clone(), item)).collect();
            self.apply_to(&mut state, effects)
        };
        if changed {
            self.tell();
        }
        Ok(Aside(Arc::new(Held { vault: self.clone(), of: of.clone(), values: taken })))
    }

    /// Makes the credentials of a call secrets of a team that is being made.
    pub async fn hand_over(
        &self,
        of: &Origin,
        keys: &[String],
        team: &TeamKey,
    ) -> Result<Pending, VaultError> {
        let turn = self.turn().await;
        let mut values = Vec::new();
        for key in keys {
            values.push((key.clone(), self.kept(of, key)?));
        }
        let mut plan = self.plan_given(&values, team, &of.actor())?;
        let scope = of.scope();
        for kept in keys.iter().map(|key| of.key_of(key)) {
            plan.change.drop_entry(&scope, &kept);
            plan.effects.push(Effect::Drop(scope.clone(), kept));
        }
        Ok(self.pending(turn, plan))
    }

    /// Makes values secrets of a team that is being made.
    pub async fn give(
        &self,
        values: &BTreeMap<String, String>,
        team: &TeamKey,
        actor: &Actor,
    ) -> Result<Pending, VaultError> {
        let turn: Turn = self.turn().await;
        let values = values.iter();
        let values: Vec<_> =
            values.map(|(key, value)| (key.clone(), Plain::new(value.as_str()))).collect();
        let plan = self.plan_given(&values, team, actor)?;
        Ok(self.pending(turn, plan))
    }

    fn plan_given(
        &self,
        values: &[(String, Plain)],
        team: &TeamKey,
        actor: &Actor,
    ) -> Result<Plan, VaultError> {
        let scope = Scope::Team(team.clone());
        let mut plan = Plan::default();
        // A team of this key that was not made in the end has left nothing that counts.
        plan.effects.push(Effect::Forget(scope.clone()));
        let mut state = self.state().only(&scope);
        state.apply(Effect::Forget(scope.clone()));
        for (key, value) in values {
            let put = Put {
                value: Some(value.clone()),
                secret: Some(true),
                note: Some("given when the team was made".to_owned()),
                ..Put::default()
            };
            let value = Some(value.clone());
            let (step, _) = plan::set(&state, &scope, key, &put, value, actor, self.now())?;
            plan.follow(&mut state, step);
            let row = self.row(&scope, Some(key), Action::Set, actor);
            plan.change.audit(audit::name(row.at), &row);
        }
        Ok(plan)
    }

    fn kept(&self, of: &Origin, key: &str) -> Result<Plain, VaultError> {
        let state = self.state();
        state.unlocked()?;
        let item = state.find(&of.scope(), &of.key_of(key));
        match item.map(|item| &item.content) {
            Some(Content::Secret(value)) => Ok(value.clone()),
            _ => Err(VaultError::NotFound { key: key.to_owned(), near: Vec::new() }),
        }
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
        if self.state().aside(&which).is_empty() {
            return;
        }
        let vault = self.clone();
        actix::spawn(async move {
            if let Err(error) = vault.release(which).await {
                tracing::error!(%error, "credentials of a team that is not made stay for now");
            }
        });
    }

    /// Lets go of what is so old that nobody decides on it any more.
    pub async fn release_forgotten(&self) -> Result<(), VaultError> {
        let now = self.now();
        self.release(move |_, entry| is_forgotten(entry, now)).await
    }

    async fn release(
        &self,
        which: impl Fn(&Scope, &Entry) -> bool + Send + Sync,
    ) -> Result<(), VaultError> {
        let turn = self.turn().await;
        let plan = self.plan_release(&which);
        if plan.effects.is_empty() {
            return Ok(());
        }
        self.commit(turn, plan, []).await
    }

    fn plan_release(&self, which: &dyn Fn(&Scope, &Entry) -> bool) -> Plan {
        let mut plan = Plan::default();
        for (scope, entry) in self.state().aside(which) {
            plan.change.drop_entry(&scope, &entry.key);
            let row = self.row(&scope, Some(&entry.note), Action::Delete, &Actor::System);
            plan.change.audit(audit::name(row.at), &row);
            plan.effects.push(Effect::Drop(scope, entry.key));
        }
        plan
    }

    /// Lets go of what no open task will come for, before the store is used. Blocks.
    pub fn release_at_rest(
        &self,
        storage: &dyn Storage,
        open: &HashSet<TaskId>,
    ) -> Result<(), VaultError> {
        let now = self.now();
        let is_open = |entry: &Entry| open.contains(&TaskId::from(task_of(entry)));
        let plan = self.plan_release(&|_, entry| !is_open(entry) || is_forgotten(entry, now));
        if !plan.effects.is_empty() {
            storage.commit(&plan.change.batch()?)?;
            self.apply(plan.effects);
        }
        Ok(())
    }

    /// Lets go of all that a team has put aside.
    pub(super) fn forget_aside(&self, team: &TeamKey, change: &mut Change) -> Effect {
        let scope = Scope::Aside(team.clone());
        change.drop_data_key(&scope);
        for item in self.state().entries(&scope) {
            change.drop_entry(&scope, &item.entry.key);
        }
        Effect::Forget(scope)
    }
}

impl State {
    /// Entries that are kept for teams that are not made yet.
    fn aside(&self, which: &dyn Fn(&Scope, &Entry) -> bool) -> Vec<(Scope, Entry)> {
        let scopes = self.scopes();
        let scopes = scopes.filter(|scope| matches!(scope, Scope::Aside(_)));
        let entries = scopes.flat_map(|scope| {
            let entries = self.entries(scope).map(|item| &item.entry);
            let wanted = entries.filter(|entry| which(scope, entry));
            wanted.map(|entry| (scope.clone(), entry.clone()))
        });
        entries.collect()
    }
}

/// Says what is wrong with credentials, if something is.
pub fn check_given(values: &BTreeMap<String, String>) -> Result<(), VaultError> {
    for (key, value) in values {
        let put = Put::secret(value.as_str());
        entry::check(key, &put)?;
        entry::merge(key, &put, None, value.len(), "", Timestamp(0))?;
    }
    Ok(())
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    let bytes = digest.iter().take(TOLD_APART);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// The task whose call an entry was taken out of.
fn task_of(entry: &Entry) -> &str {
    entry.key.rsplitn(3, ':').nth(2).unwrap_or_default()
}

/// A value that nobody will come for.
fn is_forgotten(entry: &Entry, now: Timestamp) -> bool {
    entry.created_at + FORGOTTEN < now
}
