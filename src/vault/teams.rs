//! Entries that come and go with a team, in the commit that makes or removes it.

use futures_util::future::BoxFuture;
use hivewright_actors::{
    approvals::{
        ports::{SecretSink, SecretText},
        record::Decider,
    },
    ids::{TaskId, TeamKey},
    org::belongings::Belongings,
    storage::Storage,
    store::records::Writes,
};

use super::{
    Turn, Vault,
    audit::{Action, Actor},
    change::Change,
    entry::Put,
    error::Result,
    rows,
    scope::Scope,
};

/// Changes of the vault that someone else makes durable. Until this is dropped, nothing else in the
/// vault changes.
#[must_use = "the changes count once they are committed and `committed` was called"]
pub struct Pending {
    vault: Vault,
    change: Change,
    turn: Turn,
}

impl Pending {
    /// What is to be committed, all of it, with whatever else belongs to it. Empty at the second
    /// call.
    pub fn take_writes(&mut self) -> Writes {
        std::mem::take(&mut self.change.writes)
    }

    /// It is durable: from now on it counts. Dropped without this call, nothing has changed.
    pub async fn committed(self) {
        self.vault.realise(self.turn, self.change.effects).await;
        self.vault.redact_soon().await;
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

impl Vault {
    /// Lets go of all entries of a team: they are gone from here at once, and from the store with
    /// these commits, of which the first takes the data key. May be repeated.
    pub async fn forget_team(&self, team: &TeamKey, actor: &Actor) -> Vec<Writes> {
        let scope = Scope::Team(team.clone());
        let turn = self.turn().await;
        let (mut first, mut rest) = (Change::default(), Change::default());
        first.forget(&scope);
        first.audit(&self.row(&scope, None, Action::Forget, actor));
        let keys = self.stored_keys(&scope).await.unwrap_or_else(|error| {
            tracing::error!(%scope, %error, "entries of a team that is gone stay in the store, unreadable");
            Vec::new()
        });
        for key in &keys {
            rest.drop_entry(&scope, key);
        }
        let aside = Scope::Escrow(team.clone());
        for item in self.state().entries(&aside) {
            first.drop_entry(&aside, &item.entry.key);
        }
        first.forget(&aside);
        self.realise(turn, first.effects).await;
        vec![first.writes, rest.writes]
    }

    /// The keys that the store has of a scope: what a former process let go of is not known here.
    async fn stored_keys(&self, scope: &Scope) -> Result<Vec<String>> {
        let scope = scope.clone();
        let read = move |storage: &dyn Storage| rows::keys(storage, &scope);
        Ok(self.store()?.read(read).await?)
    }

    pub(super) fn pending(&self, turn: Turn, change: Change) -> Pending {
        Pending { vault: self.clone(), change, turn }
    }
}

impl Belongings for Vault {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (vault, team) = (self.clone(), team.clone());
        Box::pin(async move { vault.forget_team(&team, &Actor::System).await })
    }
}

/// What came out of a conversation: an answer of the operator, which goes straight into the vault, and
/// credentials of calls, which go with their task.
impl SecretSink for Vault {
    fn keep(
        &self,
        team: TeamKey,
        key: String,
        secret: SecretText,
        by: &Decider,
    ) -> BoxFuture<'static, Result<(), String>> {
        let vault = self.clone();
        let actor = Actor::Operator {
            name: by.principal.to_string(),
            token: by.credential.clone().unwrap_or_default(),
        };
        Box::pin(async move {
            let (scope, put) = (Scope::Team(team), Put::secret(secret.expose()));
            vault.set(&scope, &key, put, &actor).await.map(drop).map_err(|error| error.to_string())
        })
    }
    fn release(&self, task: &TaskId) {
        self.release_task(task);
    }
}
