//! Tokens while the service is stopped: the same decisions, straight on the storage. All calls block.
//!
//! Whoever may open the storage is the operator.

use std::path::Path;

use hivewright_actors::{clock::Timestamp, storage::Storage};

use super::{
    error::AuthError,
    operator,
    registry::{Minted, Registry},
    rows::{Change, Grant},
};
use crate::api::tokens::NewToken;

/// All tokens, oldest first.
pub fn list(storage: &dyn Storage) -> Result<Vec<Grant>, AuthError> {
    Ok(Registry::load(storage)?.grants())
}

pub fn create(
    storage: &dyn Storage,
    new: NewToken,
    now: Timestamp,
) -> Result<Minted<Grant>, AuthError> {
    let registry = Registry::load(storage)?;
    let (minted, change) = registry.mint(new, registry.operator(), now)?;
    commit(storage, &change)?;
    Ok(minted)
}

/// Ends a token, named by its id or name; if wanted also those that it made.
pub fn revoke(storage: &dyn Storage, id_or_name: &str, with_minted: bool) -> Result<(), AuthError> {
    let change = Registry::load(storage)?.revoke(id_or_name, with_minted)?;
    commit(storage, &change)
}

/// Replaces the operator token. The new one is in its file, and nowhere else.
pub fn rotate_operator(
    storage: &dyn Storage,
    secrets: &Path,
    now: Timestamp,
) -> Result<(), AuthError> {
    let token = operator::replace(secrets)?;
    commit(storage, &Registry::load(storage)?.adopt_operator(&token, now)?)
}

fn commit(storage: &dyn Storage, change: &Change) -> Result<(), AuthError> {
    Ok(storage.commit(&change.writes().batch()?)?)
}
