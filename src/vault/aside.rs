//! Credentials of a team that is about to be made: sealed between the call and the team.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    ids::TeamKey,
    org::Alongside,
    storage::Storage,
    store::records::{EdgeKey, Writes, decode},
};
use zeroize::Zeroizing;

use super::{
    Vault,
    audit::Actor,
    seal::{Binding, Sealed},
};
use crate::tools::org::credentials::Credentials;

/// The kind of these rows.
const ASIDE: &str = "vault-aside";

impl Vault {
    /// The values that were put aside under a name.
    async fn take_aside(&self, name: &str) -> Result<BTreeMap<String, String>, String> {
        let lost = || "the credentials are lost; give them again".to_owned();
        let key = EdgeKey::new(ASIDE, name).bytes();
        let store = self.store().map_err(|error| error.to_string())?;
        let row = store
            .read(move |storage: &dyn Storage| {
                let value = storage.get(&key)?;
                value
                    .map(|value| decode::<Sealed>(&key, &value))
                    .transpose()
            })
            .await
            .map_err(|error| error.to_string())?
            .ok_or_else(lost)?;
        let state = self.state();
        let master = state.master.as_ref().map_err(ToString::to_string)?;
        let plain = master.open(&Binding::aside(name), &row).ok_or_else(lost)?;
        serde_json::from_slice(plain.bytes()).map_err(|_| lost())
    }
}

impl Credentials for Vault {
    fn put_aside(&self, name: &str, values: &BTreeMap<String, String>) -> Result<Writes, String> {
        let state = self.state();
        let master = state.master.as_ref().map_err(ToString::to_string)?;
        let text = Zeroizing::new(serde_json::to_vec(values).map_err(|error| error.to_string())?);
        let sealed = master
            .seal(&Binding::aside(name), &text)
            .map_err(|error| error.to_string())?;
        Ok(Writes::new().edge(&EdgeKey::new(ASIDE, name), &sealed))
    }

    fn hand_over(
        &self,
        name: &str,
        keys: Vec<String>,
        team: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        let (vault, name) = (self.clone(), name.to_owned());
        async move {
            let mut values = vault.take_aside(&name).await?;
            let mut credentials = Vec::new();
            for key in keys {
                let value = values
                    .remove(&key)
                    .ok_or_else(|| format!("the value of `{key}` is lost; give it again"))?;
                credentials.push((key, value));
            }
            let mut pending = vault
                .new_team(&team, None, credentials, &Actor::System)
                .await
                .map_err(|error| error.to_string())?;
            let writes = pending.take_writes().drop_edge(&EdgeKey::new(ASIDE, name));
            Ok(Alongside {
                writes,
                then: pending.committed().boxed(),
            })
        }
        .boxed()
    }
}
