//! Damaged records: how a row is read, and where one that cannot be read is reported.
//!
//! All readers leave such a record out and report it. It stays where it is, so that what fails closed by it
//! goes on to; `quarantine.rs` of the crate takes the reports.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    records::{decode, quarantine_prefix},
    scan_prefix,
};
use crate::{
    clock::Timestamp,
    storage::{Damage, Order, Storage, StorageError},
};

/// A copy of a damaged record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The key of the record, made readable.
    pub record: String,
    /// What is wrong with it.
    pub reason: String,
    /// When that was found.
    pub at: Timestamp,
    /// What it held, as far as it is text.
    pub text: String,
    /// All that it held, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
}

/// A row as a scan shows it; none is a record that cannot be read, and that is reported.
pub fn row<T: DeserializeOwned>(
    storage: &dyn Storage,
    key: &[u8],
    value: Result<&[u8], StorageError>,
) -> Option<T> {
    value.and_then(|value| decode(key, value)).inspect_err(|error| report(storage, key, error)).ok()
}

/// The row under a key. A record that cannot be read is an error, and is reported.
pub fn one<T: DeserializeOwned>(
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

/// The records in the quarantine, oldest first.
pub fn quarantined(storage: &dyn Storage) -> Result<Vec<Quarantined>, StorageError> {
    let mut rows: Vec<Quarantined> = Vec::new();
    let prefix = quarantine_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        rows.extend(value.and_then(|value| decode(key, value)).ok());
        ControlFlow::Continue(())
    })?;
    rows.sort_by(|a, b| (a.at, &a.record).cmp(&(b.at, &b.record)));
    Ok(rows)
}
