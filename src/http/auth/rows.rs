//! Credentials as they are stored.

use std::{fmt, ops::ControlFlow, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    storage::{Batch, Order, Storage, StorageError},
    store::{
        damage::row,
        records::{EdgeKey, Writes, after_prefix},
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::token::Hash;
use crate::api::scope::Scopes;

const GRANT: &str = "token";
const SESSION: &str = "session";

/// A browser session ends when it was not used for this long …
pub(super) const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// … and in any case after this.
pub(super) const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The name of a credential: not secret, and never used again for another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CredentialId(String);

impl CredentialId {
    pub(in crate::http) fn new(text: String) -> Self {
        Self(text)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose a grant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "TokenKind")]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The one operator token.
    Operator,
    /// A token for a program or a person.
    Api,
}

/// What the holder of a token may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name for all time.
    pub id: CredentialId,
    /// Whose it is.
    pub kind: Kind,
    /// The principal it speaks for.
    pub name: String,
    /// Of the token.
    pub hash: Hash,
    /// What it allows.
    pub scopes: Scopes,
    /// The teams that it reaches; none is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teams: Option<Vec<String>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is good for nothing; none is never.
    pub expires_at: Option<Timestamp>,
    /// About when it was last used.
    pub last_used_at: Option<Timestamp>,
    /// Whose token made it; none if that was not yet kept, or if it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minted_by: Option<MintedBy>,
}

/// The token that made another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MintedBy {
    /// Which.
    #[schemars(with = "String")]
    pub id: CredentialId,
    /// The principal that it spoke for.
    pub name: String,
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
    /// Its name for all time.
    pub id: CredentialId,
    /// Of the cookie.
    pub hash: Hash,
    /// Whose token opened it.
    pub grant: CredentialId,
    /// When.
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
    /// New or changed.
    pub grants: Vec<Grant>,
    /// New or changed.
    pub sessions: Vec<Session>,
    /// Removed.
    pub ended_grants: Vec<CredentialId>,
    /// Removed.
    pub ended_sessions: Vec<CredentialId>,
}

impl Change {
    /// Nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// For the running store.
    pub fn writes(&self) -> Writes {
        let mut writes = Writes::new();
        for grant in &self.grants {
            writes = writes.edge(&grant_key(&grant.id), grant);
        }
        for session in &self.sessions {
            writes = writes.edge(&session_key(&session.id), session);
        }
        for key in self.ended_keys() {
            writes = writes.drop_edge(&key);
        }
        writes
    }

    /// For a storage that no store is running on.
    pub fn batch(&self) -> Result<Batch, StorageError> {
        let mut changes = Vec::new();
        for grant in &self.grants {
            changes.push((grant_key(&grant.id).bytes(), Some(encode(grant)?)));
        }
        for session in &self.sessions {
            changes.push((session_key(&session.id).bytes(), Some(encode(session)?)));
        }
        changes.extend(self.ended_keys().map(|key| (key.bytes(), None)));
        Ok(Batch { changes })
    }

    fn ended_keys(&self) -> impl Iterator<Item = EdgeKey> {
        let grants = self.ended_grants.iter().map(grant_key);
        grants.chain(self.ended_sessions.iter().map(session_key))
    }
}

fn grant_key(id: &CredentialId) -> EdgeKey {
    EdgeKey::new(GRANT, id.as_str())
}

fn session_key(id: &CredentialId) -> EdgeKey {
    EdgeKey::new(SESSION, id.as_str())
}

fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>, StorageError> {
    serde_json::to_vec(row).map_err(|error| StorageError::Write(error.to_string()))
}

/// All grants and sessions, whether still good or not.
pub(super) fn read(storage: &dyn Storage) -> Result<(Vec<Grant>, Vec<Session>), StorageError> {
    Ok((collect(storage, GRANT)?, collect(storage, SESSION)?))
}

/// A damaged row lets nobody in; it stays where it is.
fn collect<T: DeserializeOwned>(storage: &dyn Storage, kind: &str) -> Result<Vec<T>, StorageError> {
    let prefix = EdgeKey::prefix(kind);
    let mut rows = Vec::new();
    storage.scan(&prefix, &after_prefix(&prefix), Order::Rising, &mut |key, value| {
        rows.extend(row::<T>(storage, key, value));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
