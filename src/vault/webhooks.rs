//! Secrets that prove where a call from outside comes from.

use hivewright_actors::ids::TeamKey;
use zeroize::Zeroizing;

use super::{
    Vault,
    audit::{Action, Actor},
    scope::Scope,
    state::Content,
};

/// Knows the secrets of teams.
pub trait SecretSource: Send + Sync + 'static {
    /// The value of a secret, which is wiped when it is dropped.
    fn secret(&self, team: &TeamKey, key: &str) -> Option<Zeroizing<Vec<u8>>>;
    fn has_secrets(&self, team: &TeamKey) -> bool;
    /// A secret has proved that a call from outside is genuine.
    fn used(&self, team: &TeamKey, key: &str);
}

impl SecretSource for Vault {
    fn secret(&self, team: &TeamKey, key: &str) -> Option<Zeroizing<Vec<u8>>> {
        let state = self.state();
        state.unlocked().ok()?;
        let item = state.find(&Scope::Team(team.clone()), key)?;
        match &item.content {
            Content::Secret(value) => Some(Zeroizing::new(value.bytes().to_vec())),
            // What anyone in the team may read proves nothing.
            Content::Public | Content::Corrupt => None,
        }
    }

    fn has_secrets(&self, team: &TeamKey) -> bool {
        Self::has_secrets(self, &Scope::Team(team.clone()))
    }

    fn used(&self, team: &TeamKey, key: &str) {
        let scope = Scope::Team(team.clone());
        let row = self.row(&scope, Some(key), Action::Expand, &Actor::System).with_tool("webhook");
        let vault = self.clone();
        tokio::spawn(async move {
            if let Err(error) = vault.record(&row).await {
                tracing::warn!(%error, "the use of a secret by a webhook was not recorded");
            }
        });
    }
}
