//! The vault: whether its key fits, and whether all of it can be read.

use std::{collections::BTreeSet, sync::Arc};

use super::service::Running;
use crate::{
    api::{
        doctor::Finding,
        vault::{LIST_VAULT, VaultFilter},
    },
    cli::{
        blocking::blocking,
        client::Service,
        context::Context,
        failure::Failure,
        stopped::{self, Stopped},
    },
    doctor::models::UNKNOWN,
    settings::references::{Environment, SystemVault},
    storage,
    system::WallClock,
    vault::{Vault, health::Health, master::KeyFiles},
};

const ID: &str = "vault";
const MEND: &str = "mend that first, then look again";

/// What was found, and the environment with the secrets that settings may refer to.
pub(super) async fn check(context: &Context, running: &Running) -> (Finding, Environment) {
    let environment = context.environment.clone();
    match running {
        Running::Ready { .. } | Running::NotReady { .. } => ask(context, environment).await,
        Running::Silent { .. } | Running::Foreign(_) => {
            unseen("the service does not answer", MEND, environment)
        }
        Running::No if !stopped::has_store(context) => {
            let none = environment.with_vault(ListedVault(Ok(BTreeSet::new())));
            (Finding::ok(ID, "there is none yet; the first start makes it"), none)
        }
        Running::No => {
            let cloned = context.clone();
            match blocking(move || look(&cloned)).await {
                Ok((vault, health)) => (judge(&health), environment.with_vault(vault)),
                // What is wrong with the store is told elsewhere.
                Err(_) => unseen("the store cannot be opened", MEND, environment),
            }
        }
    }
}

/// A vault that cannot be looked at. What settings refer to in it is not known.
fn unseen(reason: &str, fix: &str, environment: Environment) -> (Finding, Environment) {
    let message = format!("was not looked at: {reason}");
    let vault = ListedVault(Err(message.clone()));
    (Finding::warn(ID, message, fix), environment.with_vault(vault))
}

/// Looks at the vault of a service that is stopped, and changes nothing.
fn look(context: &Context) -> Result<(Vault, Health), Failure> {
    let stopped = Stopped::open(context, &storage::unwatched)?;
    let files = KeyFiles::new(&context.home.secrets(), &context.environment);
    let vault = Vault::peek(&stopped.storage, files, Arc::new(WallClock))?;
    let health = vault.health();
    Ok((vault, health))
}

fn judge(health: &Health) -> Finding {
    if let Some(locked) = &health.locked {
        return Finding::error(
            ID,
            format!("is locked: {locked}"),
            "without that key its secrets are lost, and must be set anew after the old ones are deleted",
        );
    }
    let mut corrupt = health.corrupt.iter();
    if let Some((scope, key)) = corrupt.next() {
        let more = match corrupt.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Finding::error(
            ID,
            format!("entry `{key}` of {scope}{more} cannot be read"),
            "set it anew with `hivewright vault set`",
        );
    }
    let Health { entries, secrets, .. } = health;
    Finding::ok(ID, format!("its key fits; {entries} entries, {secrets} of them secret"))
}

/// Asks the running service, which shows no values.
async fn ask(context: &Context, environment: Environment) -> (Finding, Environment) {
    let answered = async {
        let service = Service::find(context)?;
        let (_, ready) = service.readiness().await?;
        let locked = ready["vault"].as_str().map(str::to_owned);
        let keys = match locked {
            Some(_) => BTreeSet::new(),
            None => keys(&service).await?,
        };
        Ok::<_, Failure>((locked, keys))
    };
    let (locked, keys) = match answered.await {
        Ok(answer) => answer,
        Err(failure) => {
            let fix = "use a token with scope `secrets`";
            return unseen(&failure.to_string(), fix, environment);
        }
    };
    let finding = match locked {
        Some(locked) => {
            let fix = "put the key file back and start the service again";
            Finding::error(ID, format!("is locked: {locked}"), fix)
        }
        None => Finding::ok(ID, "its key fits, says the running service"),
    };
    (finding, environment.with_vault(ListedVault(Ok(keys))))
}

/// The service's own secrets by name.
async fn keys(service: &Service) -> Result<BTreeSet<String>, Failure> {
    let filter = VaultFilter { scope: Some("system".to_owned()), ..VaultFilter::default() };
    let entries = service.all(&LIST_VAULT, &filter).await?.data()?;
    Ok(entries.into_iter().filter(|entry| entry.secret).map(|entry| entry.key).collect())
}

/// Secrets that are known to be there, or why that is not known. What they are is not known here.
struct ListedVault(Result<BTreeSet<String>, String>);

impl SystemVault for ListedVault {
    fn value(&self, key: &str) -> Result<String, String> {
        if self.0.as_ref().map_err(Clone::clone)?.contains(key) {
            Ok(UNKNOWN.to_owned())
        } else {
            Err(format!("there is no such secret; `hivewright vault set {key} --system` sets it"))
        }
    }

    fn version(&self) -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::{error::Locked, scope::Scope};

    /// OP-76, MV-57, MV-60
    #[test]
    fn a_locked_vault_and_a_corrupt_entry_are_errors() {
        let good = Health {
            locked: None,
            replaced_key: None,
            entries: 3,
            secrets: 2,
            corrupt: Vec::new(),
        };
        let corrupt = Health {
            corrupt: vec![(Scope::System, "KEY".to_owned()), (Scope::System, "B".to_owned())],
            ..good.clone()
        };
        let locked = Health { locked: Some(Locked("there is no key".to_owned())), ..good.clone() };

        let found = [good, corrupt, locked].map(|health| judge(&health).message);

        let expected = [
            "its key fits; 3 entries, 2 of them secret",
            "entry `KEY` of system and 1 more cannot be read",
            "is locked: there is no key",
        ];
        assert_eq!(found, expected);
    }
}
