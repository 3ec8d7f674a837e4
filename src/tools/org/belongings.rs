//! What the tools of the organisation remember of a team goes with the team.

use futures_util::future::BoxFuture;
use hivewright_actors::{
    ids::TeamKey,
    org::belongings::{Belongings, deletion_of},
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        keys::{Beginning, key_of},
        reads::Range,
        records::{Record, Writes},
    },
};

use super::{escalate::Escalation, handoff::Lately, idempotency::KeyRow};

/// Escalations, handoffs and idempotency keys in a store.
#[derive(Clone, Debug)]
pub(crate) struct Remembered(pub(crate) StoreHandle);

impl Belongings for Remembered {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let of = team.clone();
        let keys = self.0.read(move |storage| keys(storage, &of));
        deletion_of(team, keys, "rows of a team that is gone stay in the store")
    }
}

fn keys(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let of_team = format!("{team}/");
    Ok([
        vec![key_of(Lately::KIND, team)],
        Range::<Escalation>::under(&Beginning(&of_team)).keys(storage)?,
        Range::<KeyRow>::under(&Beginning(&of_team)).keys(storage)?,
    ]
    .concat())
}
