//! Credentials of a team that is about to be made: the port to the vault, and texts without them.

use std::cmp::Reverse;

use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{ids::TeamKey, store::records::Alongside, tool::Stow};

use crate::vault::{
    Vault,
    audit::Actor,
    error::VaultError,
    escrow::{Escrow, Origin, SecretValues, check_given},
    teams::Pending,
};

/// The most secrets that a new team is given.
pub(crate) const MOST: usize = 50;
/// Shorter values are not looked for in other texts: too many words would be taken for them.
const SHORTEST: usize = 4;

/// What makes values secrets of a team, once it is committed.
pub type Handing = BoxFuture<'static, Result<Alongside, String>>;

/// Keeps values from the moment a call was let through until it has its result, and makes them
/// secrets of the new team. Nothing of a value is ever written in the clear.
pub trait Credentials: Send + Sync + 'static {
    /// Says why values cannot be secrets, if they cannot.
    fn check(&self, values: &SecretValues) -> Result<(), VaultError>;

    /// Takes the values of a call, all or none. They are kept once the answer is durable.
    fn escrow(&self, of: &Origin, values: &SecretValues) -> Result<Stow, VaultError>;

    /// What makes the values of a call secrets of a team, and forgets them where they were. An error
    /// if there is none for one of the keys.
    fn hand_over(&self, of: &Origin, keys: Vec<String>, team: TeamKey) -> Handing;

    /// What makes values secrets of a team.
    fn give(&self, values: SecretValues, team: TeamKey, by: Actor) -> Handing;

    /// Nobody comes for the values of a call any more.
    fn release(&self, of: &Origin);
}

impl Credentials for Vault {
    fn check(&self, values: &SecretValues) -> Result<(), VaultError> {
        match self.locked() {
            Some(locked) => Err(VaultError::Locked(locked)),
            None => check_given(values),
        }
    }

    fn escrow(&self, of: &Origin, values: &SecretValues) -> Result<Stow, VaultError> {
        Ok(stow(Self::escrow(self, of, values)?))
    }

    fn hand_over(&self, of: &Origin, keys: Vec<String>, team: TeamKey) -> Handing {
        let (vault, of) = (self.clone(), of.clone());
        async move { alongside(vault.hand_over(&of, &keys, &team).await) }.boxed()
    }

    fn give(&self, values: SecretValues, team: TeamKey, by: Actor) -> Handing {
        let vault = self.clone();
        async move { alongside(vault.give(&values, &team, &by).await) }.boxed()
    }

    fn release(&self, of: &Origin) {
        self.release_call(of);
    }
}

/// Makes durable what was put aside, together with the call.
pub(crate) fn stow(aside: Escrow) -> Stow {
    Stow::new(move || {
        let aside = aside.clone();
        async move { alongside(aside.keep().await) }.boxed()
    })
}

fn alongside(pending: Result<Pending, VaultError>) -> Result<Alongside, String> {
    let mut pending = pending.map_err(|error| error.to_string())?;
    Ok(Alongside { writes: pending.take_writes(), then: Box::pin(pending.committed()) })
}

/// A text with references in place of the values that stand in it.
pub(crate) fn masked(text: &str, values: &SecretValues) -> String {
    let told = values.iter().filter(|(_, value)| value.chars().count() >= SHORTEST);
    let mut told: Vec<_> = told.collect();
    // A value that holds another must go first.
    told.sort_by_key(|(_, value)| Reverse(value.len()));
    let masked = |text: String, (key, value): (&String, &String)| {
        text.replace(value.as_str(), &reference(key))
    };
    told.into_iter().fold(text.to_owned(), masked)
}

/// The reference that stands for a secret of the new team.
pub(crate) fn reference(key: &str) -> String {
    format!("${{vault:{key}}}")
}
