//! The credentials of a team that is about to be made, on their way into its vault.

use std::collections::BTreeMap;

use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{ids::TeamKey, store::records::Alongside, tool::Stow};

use crate::{
    tools::org::credentials::Credentials,
    vault::{
        Vault,
        aside::{Origin, check_given},
        audit::Actor,
        error::VaultError,
        teams::Pending,
    },
};

impl Credentials for Vault {
    fn check(&self, values: &BTreeMap<String, String>) -> Result<(), VaultError> {
        match self.locked() {
            Some(locked) => Err(VaultError::Locked(locked)),
            None => check_given(values),
        }
    }

    fn put_aside(
        &self,
        of: &Origin,
        values: &BTreeMap<String, String>,
    ) -> Result<Stow, VaultError> {
        let aside = Self::put_aside(self, of, values)?;
        Ok(Stow::new(move || {
            let aside = aside.clone();
            async move { alongside(aside.keep().await) }.boxed()
        }))
    }

    fn hand_over(
        &self,
        of: &Origin,
        keys: Vec<String>,
        team: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        let (vault, of) = (self.clone(), of.clone());
        async move { alongside(vault.hand_over(&of, &keys, &team).await) }.boxed()
    }

    fn give(
        &self,
        values: BTreeMap<String, String>,
        team: TeamKey,
        by: Actor,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        let vault = self.clone();
        async move { alongside(vault.give(&values, &team, &by).await) }.boxed()
    }

    fn release(&self, of: &Origin) {
        self.release_call(of);
    }
}

fn alongside(pending: Result<Pending, VaultError>) -> Result<Alongside, String> {
    let mut pending = pending.map_err(|error| error.to_string())?;
    Ok(Alongside { writes: pending.take_writes(), then: Box::pin(pending.committed()) })
}
