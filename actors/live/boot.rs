//! The number of a process: each start has the next one.

use crate::storage::{Batch, Storage, StorageError};

const KEY: &[u8] = b"boot";

/// Gives this start its number, and makes it durable. Blocks.
pub fn next(storage: &dyn Storage) -> Result<u64, StorageError> {
    let last = storage.get(KEY)?;
    let last: Option<u64> = last.and_then(|value| serde_json::from_slice(&value).ok());
    let number = last.unwrap_or(0) + 1;
    storage.commit(&Batch {
        changes: vec![(KEY.to_vec(), Some(number.to_string().into_bytes()))],
    })?;
    Ok(number)
}
