//! What waits in the inboxes of a team's lanes goes with the team.

use futures_util::future::BoxFuture;

use super::belongings::Belongings;
use crate::{
    ids::TeamKey,
    inbox,
    store::{StoreHandle, records::Writes},
};

/// The inboxes in a store.
#[derive(Clone, Debug)]
pub struct Inboxes(pub StoreHandle);

impl Belongings for Inboxes {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (store, team) = (self.0.clone(), team.clone());
        Box::pin(async move {
            let keys = store.read(move |storage| inbox::keys_of(storage, &team));
            match keys.await {
                Ok(keys) if !keys.is_empty() => vec![Writes::new().drop_keys(keys)],
                Ok(_) => Vec::new(),
                Err(error) => {
                    tracing::error!(%error, "the inbox of a team that is gone stays in the store");
                    Vec::new()
                }
            }
        })
    }
}
