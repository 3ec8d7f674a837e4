//! The credentials of a team that is about to be made, on their way into its vault.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use hivewright_actors::{ids::TeamKey, org::Alongside, store::records::Writes};

use crate::{
    tools::org::credentials::Credentials,
    vault::{Vault, audit::Actor},
};

impl Credentials for Vault {
    fn put_aside(&self, name: &str, values: &BTreeMap<String, String>) -> Result<Writes, String> {
        let kept = Self::put_aside(self, name, values, &Actor::System);
        kept.map_err(|error| error.to_string())
    }

    fn hand_over(
        &self,
        name: &str,
        keys: Vec<String>,
        team: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        let (vault, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let pending = vault.hand_over(&name, &keys, &team, &Actor::System);
            let mut pending = pending.await.map_err(|error| error.to_string())?;
            Ok(Alongside {
                writes: pending.take_writes(),
                then: Box::pin(pending.committed()),
            })
        })
    }
}
