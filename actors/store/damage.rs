//! Damaged records: how a row is read, and where one that cannot be read is reported.
//!
//! All readers leave such a record out and report it. It stays where it is, so that what fails closed by it
//! goes on to; `quarantine.rs` of the crate takes the reports.

use serde::de::DeserializeOwned;

use super::records::decode;
use crate::storage::{Damage, Storage, StorageError};

/// The row under a key. A record that cannot be read is an error, and is reported.
pub(super) fn one<T: DeserializeOwned>(
    storage: &dyn Storage,
    key: &[u8],
) -> Result<Option<T>, StorageError> {
    let value = storage.get(key);
    value
        .and_then(|value| value.map(|value| decode(key, &value)).transpose())
        .inspect_err(|error| report(storage, key, error))
}

/// The row under a key, if it can be read. One that cannot is reported, and counts as none.
pub fn readable<T: DeserializeOwned>(
    storage: &dyn Storage,
    key: &[u8],
) -> Result<Option<T>, StorageError> {
    match one(storage, key) {
        Err(StorageError::Damaged { .. }) => Ok(None),
        found => found,
    }
}

/// Reports a record that its reader could not read.
pub fn report(storage: &dyn Storage, key: &[u8], error: &StorageError) {
    let StorageError::Damaged { reason, .. } = error else {
        return;
    };
    let Some(reports) = storage.damage_reports() else {
        tracing::error!(%error, "a record is left out; it stays in the store as it is");
        return;
    };
    reports.report(key, || {
        tracing::error!(%error, "a record is left out; it stays in the store as it is");
        Damage {
            key: key.to_vec(),
            reason: reason.clone(),
            held: storage.salvage(key).unwrap_or_default(),
        }
    });
}
