//! Credentials as they are stored.

use std::time::Duration;

use hivewright_actors::{clock::Timestamp, ids::CredentialId, store::records::Writes};
use serde::{Deserialize, Serialize};

use super::token::Hash;
use crate::api::{
    scope::Scopes,
    tokens::{MintedBy, TokenKind},
};

/// A browser session ends when it was not used for this long …
pub(super) const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// … and in any case after this.
pub(super) const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What the holder of a token may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: CredentialId,
    pub kind: TokenKind,
    /// The principal it speaks for.
    pub name: String,
    pub hash: Hash,
    pub scopes: Scopes,
    /// The teams that it reaches; none is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teams: Option<Vec<String>>,
    pub created_at: Timestamp,
    /// From when on it is good for nothing; none is never.
    pub expires_at: Option<Timestamp>,
    /// About when it was last used.
    pub last_used_at: Option<Timestamp>,
    /// Whose token made it; none if that was not yet kept, or if it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minted_by: Option<MintedBy>,
}

impl Grant {
    /// It is still good.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// A browser that logged in. What it may do is what its grant allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: CredentialId,
    pub hash: Hash,
    pub grant: CredentialId,
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Timestamp,
    /// When that was last written down, by this process.
    #[serde(skip)]
    pub(super) written_at: Timestamp,
}

impl Session {
    /// When it ends if nothing happens.
    pub fn ends_at(&self) -> Timestamp {
        (self.last_used_at + IDLE).min(self.created_at + LONGEST)
    }
}

/// Rows that change together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub grants: Vec<Grant>,
    pub sessions: Vec<Session>,
    pub ended_grants: Vec<CredentialId>,
    pub ended_sessions: Vec<CredentialId>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn writes(&self) -> Writes {
        let writes = Writes::new().put_all(&self.grants).put_all(&self.sessions);
        let writes = self.ended_grants.iter().fold(writes, |writes, id| writes.delete::<Grant>(id));
        self.ended_sessions.iter().fold(writes, |writes, id| writes.delete::<Session>(id))
    }
}

hivewright_actors::records! {
    Grant: "edge\0token", CredentialId, |row| row.id.clone();
    Session: "edge\0session", CredentialId, |row| row.id.clone();
}
