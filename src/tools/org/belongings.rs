//! What the tools of the organisation remember of a team goes with the team.

use std::ops::ControlFlow;

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    ids::TeamKey,
    org::belongings::Belongings,
    storage::{Order, Storage, StorageError},
    store::{
        StoreHandle,
        records::{EdgeKey, Writes, after_prefix},
    },
};

use super::{escalate, handoff, idempotency};

/// Rows of these kinds have a team's key as their name, or before a `/` in it.
const KINDS: [&str; 4] =
    [escalate::KIND, handoff::KIND, idempotency::KIND, crate::import::openhive::apply::PLUGIN_TOOL];

/// Escalations, handoffs, idempotency keys and imported plugin tools in a store.
#[derive(Clone, Debug)]
pub(crate) struct Remembered(pub(crate) StoreHandle);

impl Belongings for Remembered {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (store, team) = (self.0.clone(), team.clone());
        async move {
            match store.read(move |storage| keys(storage, &team)).await {
                Ok(keys) if keys.is_empty() => Vec::new(),
                Ok(keys) => vec![Writes::new().drop_keys(keys)],
                Err(error) => {
                    tracing::error!(%error, "rows of a team that is gone stay in the store");
                    Vec::new()
                }
            }
        }
        .boxed()
    }
}

fn keys(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    for kind in KINDS {
        keys.push(EdgeKey::new(kind, team.to_string()).bytes());
        let start = EdgeKey::new(kind, format!("{team}/")).bytes();
        let end = after_prefix(&start);
        storage.scan(&start, &end, Order::Rising, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(keys)
}
