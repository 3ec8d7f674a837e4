//! Records of tool calls: what they were answered, for when the same call is made again.

use serde::{Deserialize, Serialize};

use crate::{
    ids::TurnId,
    storage::{Storage, StorageError},
    store::{keys::Beginning, reads::Range, records::Record},
};

/// The answer to a tool call, by its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Answer<T>(pub T);

impl<T> Record for Answer<T> {
    const KIND: &'static str = "call";
    type Key = String;
}

/// The stored keys of what the calls of a turn were answered.
pub(crate) fn answers(storage: &dyn Storage, turn: &TurnId) -> Result<Vec<Vec<u8>>, StorageError> {
    Range::<Answer<()>>::under(&Beginning(&format!("{turn}:"))).keys(storage)
}
