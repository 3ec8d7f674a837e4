//! What the tools of the organisation remember of a team goes with the team.

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    ids::TeamKey,
    org::belongings::Belongings,
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
        let (store, team) = (self.0.clone(), team.clone());
        async move {
            let of = team.clone();
            match store.read(move |storage| keys(storage, &of)).await {
                Ok(keys) if keys.is_empty() => Vec::new(),
                Ok(keys) => vec![Writes::new().drop_keys(keys)],
                Err(error) => {
                    tracing::error!(team = %team.name, %error, "rows of a team that is gone stay in the store");
                    Vec::new()
                }
            }
        }
        .boxed()
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
