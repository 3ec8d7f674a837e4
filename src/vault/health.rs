//! Health: what can be said of a vault without changing it.

use std::sync::Arc;

use hivewright_actors::{clock::Clock, storage::Storage};

use super::{
    Vault,
    error::{Locked, Result},
    master::KeyFiles,
    rows,
    scope::Scope,
    state::{Content, Item, State},
    unlock,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub locked: Option<Locked>,
    /// The name of the key's file, if it is one that a rotation replaced.
    pub replaced_key: Option<String>,
    pub entries: usize,
    /// How many of them are secrets.
    pub secrets: usize,
    /// Those that cannot be read.
    pub corrupt: Vec<(Scope, String)>,
}

impl Vault {
    /// Looks at the vault of a storage that no store is running on, and changes neither that nor
    /// any key. It cannot be written to. Blocks.
    pub fn peek(storage: &dyn Storage, files: KeyFiles, clock: Arc<dyn Clock>) -> Result<Self> {
        let stored = rows::read(storage)?;
        let (state, _) = State::new(unlock::look(files.clone().read(), &stored), stored);
        Ok(Self::with(files, clock, state))
    }

    pub fn health(&self) -> Health {
        let state = self.state();
        let items =
            state.scopes().flat_map(|scope| state.entries(scope).map(move |item| (scope, item)));
        let is_corrupt = |item: &Item| matches!(item.content, Content::Corrupt);
        let corrupt = items.clone().filter(|(_, item)| is_corrupt(item));
        Health {
            locked: state.master.as_ref().err().cloned(),
            replaced_key: state.place.is_replaced().then(|| self.shared.files.name(&state.place)),
            entries: items.clone().count(),
            secrets: items.filter(|(_, item)| item.entry.secret).count(),
            corrupt: corrupt.map(|(scope, item)| (scope.clone(), item.entry.key.clone())).collect(),
        }
    }
}
