//! Last good budgets: what the file of a team allowed before it went wrong. Teams below go on under them.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    budget::Caps,
    ids::{TeamKey, TeamName},
    org::belongings::Belongings,
    storage::{Order, Storage, StorageError},
    store::{
        StoreHandle,
        damage::row,
        records::{EdgeKey, Writes, after_prefix},
    },
};
use serde::{Deserialize, Serialize};

/// What the rows are called.
const KIND: &str = "last-caps";

#[derive(Serialize, Deserialize)]
struct Row {
    team: TeamName,
    caps: Caps,
}

#[derive(Default)]
struct Inner {
    known: Mutex<HashMap<TeamName, Caps>>,
    /// Without one, nothing is known.
    store: Option<StoreHandle>,
}

/// The last good budgets of all teams. Cheap to clone; survives restarts.
#[derive(Clone, Default)]
pub struct LastCaps(Arc<Inner>);

fn key_of(team: &TeamName) -> EdgeKey {
    EdgeKey::new(KIND, team.as_str())
}

impl LastCaps {
    /// Those that former processes saw. Blocks.
    pub fn open(storage: &dyn Storage, store: StoreHandle) -> Result<Self, StorageError> {
        let mut known = HashMap::new();
        let start = EdgeKey::prefix(KIND);
        storage.scan(&start, &after_prefix(&start), Order::Rising, &mut |key, value| {
            // Without one, nothing is allowed below a file that is wrong.
            if let Some(row) = row::<Row>(storage, key, value) {
                known.insert(row.team, row.caps);
            }
            ControlFlow::Continue(())
        })?;
        Ok(Self(Arc::new(Inner { known: Mutex::new(known), store: Some(store) })))
    }

    /// The file of a team is good, and allows this.
    pub fn note(&self, team: &TeamName, caps: Caps) {
        let Some(store) = &self.0.store else {
            return;
        };
        if self.known().insert(team.clone(), caps) != Some(caps) {
            let row = Row { team: team.clone(), caps };
            drop(store.commit(Writes::new().edge(&key_of(team), &row)));
        }
    }

    /// What the file of a team allowed when it was last good.
    pub fn of(&self, team: &TeamName) -> Option<Caps> {
        self.known().get(team).copied()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<TeamName, Caps>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Belongings for LastCaps {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let known = self.known().remove(&team.name);
        let gone = known.map(|_| Writes::new().drop_edge(&key_of(&team.name)));
        Box::pin(std::future::ready(gone.into_iter().collect()))
    }
}
