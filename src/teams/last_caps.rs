//! Last good budgets: what the file of a team allowed before it went wrong. Teams below go on under them.

use std::sync::Arc;

use dashmap::DashMap;
use futures_util::future::BoxFuture;
use hivewright_actors::{
    budget::Caps,
    ids::{TeamKey, TeamName},
    org::belongings::Belongings,
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        reads::{Range, scan},
        records::Writes,
    },
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CapsRow {
    team: TeamName,
    caps: Caps,
}

hivewright_actors::records! {
    CapsRow: "edge\0last-caps", TeamName, |row| row.team.clone();
}

#[derive(Default)]
struct Inner {
    known: DashMap<TeamName, Caps>,
    /// Without one, nothing is known.
    store: Option<StoreHandle>,
}

/// The last good budgets of all teams. Cheap to clone; survives restarts.
#[derive(Clone, Default)]
pub struct LastCaps(Arc<Inner>);

impl LastCaps {
    /// Those that former processes saw. Blocks.
    pub fn open(storage: &dyn Storage, store: StoreHandle) -> Result<Self, StorageError> {
        // Without one, nothing is allowed below a file that is wrong.
        let rows = scan::<CapsRow>(storage, Range::all())?;
        let known = rows.into_iter().map(|row| (row.team, row.caps)).collect();
        Ok(Self(Arc::new(Inner { known, store: Some(store) })))
    }

    /// The file of a team is good, and allows this.
    pub fn note(&self, team: &TeamName, caps: Caps) {
        let Some(store) = &self.0.store else {
            return;
        };
        if self.0.known.insert(team.clone(), caps) != Some(caps) {
            let row = CapsRow { team: team.clone(), caps };
            drop(store.commit(Writes::new().put(&row)));
        }
    }

    /// What the file of a team allowed when it was last good.
    pub fn of(&self, team: &TeamName) -> Option<Caps> {
        self.0.known.get(team).map(|caps| *caps)
    }
}

impl Belongings for LastCaps {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let known = self.0.known.remove(&team.name);
        let gone = known.map(|_| Writes::new().delete::<CapsRow>(&team.name));
        Box::pin(std::future::ready(gone.into_iter().collect()))
    }
}
