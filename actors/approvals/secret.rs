//! Port: where secrets go that the operator gives as answers.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::ids::TeamKey;

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

/// Where secrets go that the operator gives as answers.
pub trait SecretSink: Send + Sync + 'static {
    /// Keeps a secret of a team under a key, and returns once it is durable. An error is in words
    /// for a person, without the secret.
    fn keep(
        &self,
        team: TeamKey,
        key: String,
        secret: SecretText,
    ) -> BoxFuture<'static, Result<(), String>>;
}
