//! State: what the vault knows without asking the store.

use std::collections::BTreeMap;

use hivewright_actors::clock::Timestamp;

use super::{
    entry::{Entry, Row, near},
    error::{Locked, Result, VaultError},
    master::Place,
    rows::{EntryKey, SpentRow, Stored},
    scope::Scope,
    seal::{Binding, Key, Plain},
    unlock::Unlocked,
};
use crate::scrub::Mask;

/// Everything but the values that are no secrets: those are read when they are asked for.
#[derive(Debug)]
pub(super) struct State {
    /// The master key, or why there is none.
    pub(super) master: Result<Key, Locked>,
    pub(super) place: Place,
    scopes: BTreeMap<Scope, Held>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    /// None: there is none yet, or it is corrupt.
    data_key: Option<Key>,
    entries: BTreeMap<String, Item>,
    /// The highest version of all entries that are gone. Those that come get higher ones, so that no
    /// version of a key ever means another value.
    spent: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) entry: Entry,
    pub(super) content: Content,
}

impl Item {
    /// An entry with its value, which is kept here if it is a secret.
    pub(super) fn new(entry: Entry, value: Plain) -> Self {
        let content = if entry.secret { Content::Secret(value) } else { Content::Public };
        Self { entry, content }
    }

    fn is_secret(&self) -> bool {
        matches!(self.content, Content::Secret(_))
    }
}

/// Where the value of an entry is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Here, since it must be recognised wherever it turns up.
    Secret(Plain),
    /// In the store.
    Public,
    /// Nowhere: what is stored does not open.
    Corrupt,
}

/// What a change does to the state once it is durable.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// An entry is new or changed.
    Put(Scope, Item),
    /// Versions up to this are not given any more.
    Spent(Scope, u64),
    /// A scope has its first data key.
    DataKey(Scope, Key),
    Drop(Scope, String),
    Forget(Scope),
    Used(Scope, String, Timestamp),
    /// There is another master key, in the file that a rotation wrote.
    Master(Key),
    /// The file of the master key has its name.
    MasterInUse,
}

impl State {
    /// The state of what is stored. Secrets are opened at once, so that they are recognised.
    ///
    /// A data key may have been wrapped by the key before, if it was made while that was replaced.
    /// Those are told, to be wrapped anew.
    pub(super) fn new(
        Unlocked { master, place, others, .. }: Unlocked,
        stored: Stored,
    ) -> (Self, Vec<(Scope, Key)>) {
        let mut left_behind = Vec::new();
        let mut scopes: BTreeMap<Scope, Held> = BTreeMap::new();
        for (scope, row) in &stored.data_keys {
            let held = scopes.entry(scope.clone()).or_default();
            let binding = Binding::data_key(scope, row.version);
            let open = |key: &Key| Key::of(key.open(&binding, &row.wrapped)?.bytes());
            let Ok(master) = &master else { continue };
            held.data_key = open(master);
            if held.data_key.is_none() {
                held.data_key = others.iter().find_map(open);
                left_behind.extend(held.data_key.clone().map(|key| (scope.clone(), key)));
            }
            if held.data_key.is_none() {
                tracing::error!(%scope, "a data key of the vault is corrupt; its entries must be set anew");
            }
        }
        for (scope, SpentRow { version }) in stored.spent {
            scopes.entry(scope).or_default().spent = version;
        }
        for (EntryKey(scope, key), row) in stored.entries {
            let held = scopes.entry(scope.clone()).or_default();
            let Some(row) = row else {
                let item = Item { entry: Entry::damaged(&key), content: Content::Corrupt };
                held.entries.insert(key, item);
                continue;
            };
            // A copy of what was deleted is not what was set since.
            let is_current = row.entry.version > held.spent;
            let content = match open(&scope, held.data_key.as_ref().filter(|_| is_current), &row) {
                Some(value) if row.entry.secret => Content::Secret(value),
                Some(_) => Content::Public,
                None => {
                    if master.is_ok() {
                        tracing::error!(%scope, key, "an entry of the vault is corrupt; set it anew");
                    }
                    Content::Corrupt
                }
            };
            held.entries.insert(key, Item { entry: row.entry, content });
        }
        let state = Self { master, place, scopes };
        (state, left_behind)
    }

    pub(super) fn locked(locked: Locked) -> Self {
        Self { master: Err(locked), place: Place::Current, scopes: BTreeMap::new() }
    }

    /// The same vault with nothing in it.
    pub(super) fn emptied(&self) -> Self {
        let (master, place) = (self.master.clone(), self.place.clone());
        Self { master, place, scopes: BTreeMap::new() }
    }

    pub(super) fn unlocked(&self) -> Result<&Key> {
        let locked = |locked: &Locked| VaultError::Locked(locked.clone());
        self.master.as_ref().map_err(locked)
    }

    /// The data key of a scope. None: it has none yet, or one that cannot be used any more.
    pub(super) fn data_key(&self, scope: &Scope) -> Option<Key> {
        self.scopes.get(scope)?.data_key.clone()
    }

    pub(super) fn data_keys(&self) -> impl Iterator<Item = (&Scope, &Key)> {
        self.scopes.iter().filter_map(|(scope, held)| Some((scope, held.data_key.as_ref()?)))
    }

    pub(super) fn find(&self, scope: &Scope, key: &str) -> Option<&Item> {
        self.scopes.get(scope)?.entries.get(key)
    }

    /// An entry, or what is to be said of one that is not there.
    pub(super) fn get(&self, scope: &Scope, key: &str) -> Result<&Item> {
        self.find(scope, key).ok_or_else(|| VaultError::NotFound {
            key: key.to_owned(),
            near: match self.scopes.get(scope) {
                Some(held) => near(key, held.entries.keys()),
                None => Vec::new(),
            },
        })
    }

    pub(super) fn entries(&self, scope: &Scope) -> impl Iterator<Item = &Item> + Clone {
        let held = self.scopes.get(scope).into_iter();
        held.flat_map(|held| held.entries.values())
    }

    pub(super) fn scopes(&self) -> impl Iterator<Item = &Scope> + Clone {
        let filled = |(_, held): &(&Scope, &Held)| !held.entries.is_empty();
        self.scopes.iter().filter(filled).map(|(scope, _)| scope)
    }

    /// The highest version of all entries of a scope that are gone.
    pub(super) fn spent(&self, scope: &Scope) -> u64 {
        self.scopes.get(scope).map_or(0, |held| held.spent)
    }

    pub(super) fn has_secrets(&self, scope: &Scope) -> bool {
        self.entries(scope).any(Item::is_secret)
    }

    /// What must be recognised of a scope, and what stands in its place.
    pub(super) fn masks(&self, scope: &Scope) -> impl Iterator<Item = Mask> {
        let has_name = matches!(scope, Scope::Team(_));
        self.entries(scope).filter_map(move |item| match &item.content {
            Content::Secret(value) if has_name => {
                Some(Mask::reference(value.shared(), &item.entry.key))
            }
            Content::Secret(value) => Some(Mask::hide(value.shared())),
            Content::Public | Content::Corrupt => None,
        })
    }

    /// Returns whether it makes a difference to what must be recognised.
    pub(super) fn apply(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Put(scope, item) => {
                let is_secret = item.is_secret();
                let held = self.scopes.entry(scope).or_default();
                let before = held.entries.insert(item.entry.key.clone(), item);
                return is_secret || before.is_some_and(|item| item.is_secret());
            }
            Effect::Drop(scope, key) => {
                let held = self.scopes.get_mut(&scope);
                let dropped = held.and_then(|held| held.entries.remove(&key));
                return dropped.is_some_and(|item| item.is_secret());
            }
            Effect::Forget(scope) => {
                let forgotten = self.scopes.remove(&scope);
                return forgotten.is_some_and(|held| held.entries.values().any(Item::is_secret));
            }
            Effect::Spent(scope, version) => self.scopes.entry(scope).or_default().spent = version,
            Effect::DataKey(scope, key) => {
                self.scopes.entry(scope).or_default().data_key = Some(key);
            }
            Effect::Used(scope, key, at) => {
                let held = self.scopes.get_mut(&scope);
                if let Some(item) = held.and_then(|held| held.entries.get_mut(&key)) {
                    item.entry.last_used_at = Some(at);
                }
            }
            Effect::Master(key) => {
                self.master = Ok(key);
                self.place = Place::New;
            }
            Effect::MasterInUse => self.place = Place::Current,
        }
        false
    }
}

/// The value of a stored entry; none if it was changed or moved.
pub(super) fn open(scope: &Scope, data_key: Option<&Key>, row: &Row) -> Option<Plain> {
    let binding = Binding::value(scope, &row.entry.key, row.entry.version);
    data_key?.open(&binding, &row.sealed)
}
