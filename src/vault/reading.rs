//! Reading: what can be seen of entries, and by whom. Every look is recorded.

use hivewright_actors::{
    clock::Timestamp,
    storage::{Storage, StorageError},
};

use super::{
    Vault,
    audit::{self, Action, Actor, AuditRow, Wanted},
    entry::Entry,
    error::VaultError,
    plan::corrupt,
    rows,
    scope::Scope,
    seal::Plain,
    state::{self, Content},
};

/// What a look at an entry shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What is known of it.
    pub entry: Entry,
    /// Its value, unless that is a secret.
    pub value: Option<Plain>,
}

/// Entries as they are stored, without values. Every look at them blocks.
pub struct Entries<'a>(&'a dyn Storage);

impl Entries<'_> {
    /// Shows those of a scope, or of the service and all teams, whose keys begin so. When they were
    /// last used is not among it.
    pub fn each(
        &self,
        scope: Option<&Scope>,
        beginning: &str,
        visit: &mut dyn FnMut(Scope, Entry),
    ) -> Result<(), StorageError> {
        rows::each_entry(self.0, scope, beginning, visit)
    }

    /// One of them.
    pub fn one(&self, scope: &Scope, key: &str) -> Result<Option<Entry>, StorageError> {
        rows::entry(self.0, scope, key)
    }

    /// When it was last used.
    pub fn last_used(&self, scope: &Scope, key: &str) -> Result<Option<Timestamp>, StorageError> {
        rows::last_used(self.0, scope, key)
    }
}

impl Vault {
    /// Looks at an entry. The value of a secret is not shown to anyone.
    pub async fn get(&self, scope: &Scope, key: &str, actor: &Actor) -> Result<Seen, VaultError> {
        let row = self.row(scope, Some(key), Action::Get, actor);
        let seen = self.look(scope, key).await;
        let seen = self.or_record(seen, row.clone()).await?;
        self.record([row]).await?;
        Ok(seen)
    }

    /// The entries of a scope whose keys begin like this, by key.
    pub async fn list(
        &self,
        scope: &Scope,
        prefix: &str,
        actor: &Actor,
    ) -> Result<Vec<Entry>, VaultError> {
        let row = self.row(scope, None, Action::List, actor);
        let entries = self.entries(scope, prefix);
        let entries = self.or_record(entries, row.clone()).await?;
        self.record([row]).await?;
        Ok(entries)
    }

    /// Goes through the entries of a scope, or of the service and all teams, as they are stored.
    pub async fn browse<T: Send + 'static>(
        &self,
        scope: Option<&Scope>,
        actor: &Actor,
        read: impl FnOnce(&Entries<'_>) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, VaultError> {
        let row = match scope {
            Some(scope) => self.row(scope, None, Action::List, actor),
            None => self.row(&Scope::System, None, Action::List, actor).everywhere(),
        };
        let unlocked = self.state().unlocked().map(drop);
        self.or_record(unlocked, row.clone()).await?;
        let found = self.store()?.read(move |storage| read(&Entries(storage)));
        let found = found.await?;
        self.record([row]).await?;
        Ok(found)
    }

    /// The same with the values of those that are no secrets.
    pub async fn show(
        &self,
        scope: &Scope,
        prefix: &str,
        actor: &Actor,
    ) -> Result<Vec<Seen>, VaultError> {
        let mut shown = Vec::new();
        for entry in self.list(scope, prefix, actor).await? {
            let value = if entry.secret {
                None
            } else {
                // What is corrupt has none to show.
                self.stored_value(scope, &entry.key).await.unwrap_or(None)
            };
            shown.push(Seen { entry, value });
        }
        Ok(shown)
    }

    /// The scopes that have entries.
    pub fn scopes(&self) -> Vec<Scope> {
        let state = self.state();
        let is_aside = |scope: &&Scope| matches!(scope, Scope::Aside(_));
        let scopes = state.scopes().filter(|scope| !is_aside(scope));
        scopes.cloned().collect()
    }

    /// The newest audit rows of a kind.
    pub async fn audit(&self, wanted: Wanted) -> Result<Vec<AuditRow>, VaultError> {
        let rows = self.store()?.read(move |storage| audit::read(storage, &wanted));
        Ok(rows.await?)
    }

    fn entries(&self, scope: &Scope, prefix: &str) -> Result<Vec<Entry>, VaultError> {
        let state = self.state();
        state.unlocked()?;
        let entries = state.entries(scope);
        let entries = entries.map(|item| &item.entry);
        let wanted = entries.filter(|entry| entry.key.starts_with(prefix));
        Ok(wanted.cloned().collect())
    }

    async fn look(&self, scope: &Scope, key: &str) -> Result<Seen, VaultError> {
        let entry = {
            let state = self.state();
            state.unlocked()?;
            let item = state.get(scope, key)?;
            match item.content {
                Content::Corrupt => return Err(corrupt(scope, key)),
                Content::Secret(_) => {
                    return Ok(Seen { entry: item.entry.clone(), value: None });
                }
                Content::Public => item.entry.clone(),
            }
        };
        match self.stored_value(scope, key).await? {
            Some(value) => Ok(Seen { entry, value: Some(value) }),
            None => Err(corrupt(scope, key)),
        }
    }

    /// The value of an entry as it is in the store; none if there is no such entry.
    pub(super) async fn stored_value(
        &self,
        scope: &Scope,
        key: &str,
    ) -> Result<Option<Plain>, VaultError> {
        let (of, name) = (scope.clone(), key.to_owned());
        let data_key = self.state().data_key(scope);
        let read = self.store()?.read(move |storage| rows::read_entry(storage, &of, &name));
        let Some(mut row) = read.await? else {
            return Ok(None);
        };
        key.clone_into(&mut row.entry.key);
        let value = state::open(scope, data_key.as_ref(), &row);
        value.map(Some).ok_or_else(|| corrupt(scope, key))
    }
}
