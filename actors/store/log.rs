//! Logs: entries that the store numbers, from 1 and without gaps.

use std::{collections::HashMap, ops::ControlFlow};

use super::keys::after_prefix;
use crate::storage::{Order, Storage, StorageError};

/// The newest number of each log that this process has added to.
#[derive(Debug, Default)]
pub(super) struct Logs(HashMap<Vec<u8>, u64>);

impl Logs {
    /// The number of the next entry.
    pub(super) fn next(&mut self, storage: &dyn Storage, log: &[u8]) -> Result<u64, StorageError> {
        let newest = match self.0.get(log) {
            Some(newest) => *newest,
            None => newest(storage, log)?,
        };
        self.0.insert(log.to_vec(), newest + 1);
        Ok(newest + 1)
    }

    pub(super) fn forget(&mut self, log: &[u8]) {
        self.0.remove(log);
    }
}

/// The newest number in a log; 0 if it never had one.
pub fn newest(storage: &dyn Storage, log: &[u8]) -> Result<u64, StorageError> {
    let mut newest = 0;
    storage.scan(log, &after_prefix(log), Order::Falling, &mut |key, _| {
        newest = key.last_chunk().map_or(0, |number| u64::from_be_bytes(*number));
        ControlFlow::Break(())
    })?;
    Ok(newest)
}

/// The key of an entry.
pub(super) fn key(log: &[u8], number: u64) -> Vec<u8> {
    [log, &number.to_be_bytes()].concat()
}

/// An entry with the one before it in the same record, under `before`. Both are JSON objects. A reader that does not
/// know of this still finds the later one.
pub(super) fn joined(before: &[u8], entry: &[u8]) -> Vec<u8> {
    let rest = entry.strip_prefix(b"{").unwrap_or(entry);
    [b"{\"before\":[", before, b"],", rest].concat()
}
