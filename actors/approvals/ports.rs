//! Ports: who may decide, and where secrets go that came out of a conversation.
#![warn(missing_docs)]

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use super::record::Decider;
use crate::ids::{PrincipalId, TaskId, TeamKey, TeamName};

type Others = dyn Fn(&PrincipalId, &TeamName) -> bool + Send + Sync;

/// Who may decide, as the edges know it. Cheap to clone.
#[derive(Clone)]
pub struct Deciders(Arc<Others>);

impl Deciders {
    /// The lookup tells whether somebody else than this principal may decide on calls of a team.
    pub fn new(others: impl Fn(&PrincipalId, &TeamName) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(others))
    }

    /// Nobody else could decide.
    pub(super) fn is_alone(&self, who: &PrincipalId, team: &TeamName) -> bool {
        !(self.0)(who, team)
    }
}

/// A secret on its way into the vault. It is never shown.
pub struct SecretText(String);

impl SecretText {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// Where secrets go that came out of a conversation.
pub trait SecretSink: Send + Sync + 'static {
    /// Keeps a secret of a team under a key, and returns once it is durable. An error is in words
    /// for a person, without the secret.
    fn keep(
        &self,
        team: TeamKey,
        key: String,
        secret: SecretText,
        by: &Decider,
    ) -> BoxFuture<'static, Result<(), String>>;

    /// A task has its outcome: what was kept for calls of it can go.
    fn release(&self, _task: &TaskId) {}
}
