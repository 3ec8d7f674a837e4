//! Reading: what can be seen of entries, and by whom. Every look is recorded.

use std::ops::ControlFlow;

use hivewright_actors::{
    clock::Timestamp,
    ids::TeamKey,
    storage::{Order, Storage, StorageError},
    store::{
        keys::Beginning,
        reads::{Range, get, get_readable, parse},
    },
};

use zeroize::Zeroizing;

use super::{
    Vault,
    audit::{Action, Actor},
    entry::{Entry, Row},
    error::{Result, VaultError},
    rows::{EntryKey, UsedRow},
    scope::Scope,
    seal::Plain,
    state::{self, Content},
};
use crate::settings::references::SystemVault;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
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
        let range = match scope {
            Some(scope) => Range::<Row>::under(&Beginning(&EntryKey::new(scope, beginning).text())),
            None => Range::all(),
        };
        range.walk(self.0, Order::Rising, &mut |key, row| {
            if let Some(EntryKey(scope @ (Scope::System | Scope::Team(_)), key)) = parse::<Row>(key)
                && key.starts_with(beginning)
            {
                visit(scope, entry_of(&key, row.ok()));
            }
            ControlFlow::Continue(())
        })
    }

    pub fn one(&self, scope: &Scope, key: &str) -> Result<Option<Entry>, StorageError> {
        let row = match get(self.0, &EntryKey::new(scope, key)) {
            Ok(None) => return Ok(None),
            Ok(row) => row,
            Err(StorageError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let last_used_at = self.last_used(scope, key)?;
        Ok(Some(Entry { last_used_at, ..entry_of(key, row) }))
    }

    pub fn last_used(&self, scope: &Scope, key: &str) -> Result<Option<Timestamp>, StorageError> {
        let used = get_readable::<UsedRow>(self.0, &EntryKey::new(scope, key))?;
        Ok(used.map(|used| used.at))
    }
}

/// What a record says of its entry; of one that cannot be read, that it is there.
fn entry_of(key: &str, row: Option<Row>) -> Entry {
    match row {
        Some(row) => Entry { key: key.to_owned(), ..row.entry },
        None => Entry::damaged(key),
    }
}

impl Vault {
    /// Looks at an entry. The value of a secret is not shown to anyone.
    pub async fn get(&self, scope: &Scope, key: &str, actor: &Actor) -> Result<Seen> {
        let row = self.row(scope, Some(key), Action::Get, actor);
        self.recorded(self.look(scope, key).await, &row).await
    }

    /// Goes through the entries of a scope, or of the service and all teams, as they are stored.
    pub async fn browse<T: Send + 'static>(
        &self,
        scope: Option<&Scope>,
        actor: &Actor,
        read: impl FnOnce(&Entries<'_>) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T> {
        let row = match scope {
            Some(scope) => self.row(scope, None, Action::List, actor),
            None => self.row(&Scope::System, None, Action::List, actor).everywhere(),
        };
        let unlocked = self.state().unlocked().map(drop);
        self.or_record(unlocked, &row).await?;
        let found = self.store()?.read(move |storage| read(&Entries(storage))).await?;
        self.record(&row).await?;
        Ok(found)
    }

    /// The entries of a scope whose keys begin like this, by key, with the values of those that are no secrets.
    pub async fn list(&self, scope: &Scope, prefix: &str, actor: &Actor) -> Result<Vec<Seen>> {
        let row = self.row(scope, None, Action::List, actor);
        let mut listed = Vec::new();
        for entry in self.recorded(self.entries(scope, prefix), &row).await? {
            let value = if entry.secret {
                None
            } else {
                // What is corrupt has none to show.
                self.stored_value(scope, &entry.key).await.unwrap_or(None)
            };
            listed.push(Seen { entry, value });
        }
        Ok(listed)
    }

    fn entries(&self, scope: &Scope, prefix: &str) -> Result<Vec<Entry>> {
        let state = self.state();
        state.unlocked()?;
        let entries = state.entries(scope).map(|item| &item.entry);
        Ok(entries.filter(|entry| entry.key.starts_with(prefix)).cloned().collect())
    }

    async fn look(&self, scope: &Scope, key: &str) -> Result<Seen> {
        let entry = {
            let state = self.state();
            state.unlocked()?;
            let item = state.get(scope, key)?;
            match item.content {
                Content::Corrupt => return Err(VaultError::corrupt(scope, key)),
                Content::Secret(_) => return Ok(Seen { entry: item.entry.clone(), value: None }),
                Content::Public => item.entry.clone(),
            }
        };
        let value = self.stored_value(scope, key).await?;
        let value = value.ok_or_else(|| VaultError::corrupt(scope, key))?;
        Ok(Seen { entry, value: Some(value) })
    }

    /// The value of an entry as it is in the store; none if there is no such entry.
    pub(super) async fn stored_value(&self, scope: &Scope, key: &str) -> Result<Option<Plain>> {
        let place = EntryKey::new(scope, key);
        let data_key = self.state().data_key(scope);
        let read = self.store()?.read(move |storage| get::<Row>(storage, &place));
        let Some(mut row) = read.await? else { return Ok(None) };
        key.clone_into(&mut row.entry.key);
        let value = state::open(scope, data_key.as_ref(), &row);
        value.map(Some).ok_or_else(|| VaultError::corrupt(scope, key))
    }
}

/// The service's own entries, as settings refer to them.
impl SystemVault for Vault {
    fn value(&self, key: &str) -> Result<String, String> {
        let state = self.state();
        state.unlocked().map_err(|error| error.to_string())?;
        let add = format!("`hivewright vault set {key} --system` sets it");
        let item = state.find(&Scope::System, key);
        match &item.ok_or_else(|| format!("there is no such secret; {add}"))?.content {
            Content::Secret(value) => match value.text() {
                Some(text) => Ok(text.to_owned()),
                None => Err("it holds bytes that are no text".to_owned()),
            },
            // Nothing that stands for a credential is kept where it could be shown.
            Content::Public => Err(format!("it is not marked as a secret; {add}")),
            Content::Corrupt => Err(format!("it is corrupt; {add}")),
        }
    }

    fn version(&self) -> u64 {
        Self::version(self)
    }
}

/// Knows the secrets of teams, which prove where a call from outside comes from.
pub trait SecretSource: Send + Sync + 'static {
    /// The value of a secret, which is wiped when it is dropped.
    fn secret(&self, team: &TeamKey, key: &str) -> Option<Zeroizing<Vec<u8>>>;
    fn has_secrets(&self, team: &TeamKey) -> bool;
    /// A secret has proved that a call from outside is genuine.
    fn used(&self, team: &TeamKey, key: &str);
}

impl SecretSource for Vault {
    fn secret(&self, team: &TeamKey, key: &str) -> Option<Zeroizing<Vec<u8>>> {
        let state = self.state();
        state.unlocked().ok()?;
        match &state.find(&Scope::Team(team.clone()), key)?.content {
            Content::Secret(value) => Some(Zeroizing::new(value.bytes().to_vec())),
            // What anyone in the team may read proves nothing.
            Content::Public | Content::Corrupt => None,
        }
    }

    fn has_secrets(&self, team: &TeamKey) -> bool {
        Self::has_secrets(self, &Scope::Team(team.clone()))
    }

    fn used(&self, team: &TeamKey, key: &str) {
        let scope = Scope::Team(team.clone());
        let row = self.row(&scope, Some(key), Action::Expand, &Actor::System).with_tool("webhook");
        let vault = self.clone();
        hivewright_actors::spawn::anywhere(async move {
            if let Err(error) = vault.record(&row).await {
                tracing::warn!(scope = row.scope, %error, "the use of a secret by a webhook was not recorded");
            }
        });
    }
}
