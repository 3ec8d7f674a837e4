//! The number of a process: each start has the next one.

use crate::{
    storage::{Batch, Storage, StorageError},
    store::damage::readable,
};

const KEY: &[u8] = b"boot";

/// Gives this start its number, and makes it durable. Blocks.
pub fn next(storage: &dyn Storage) -> Result<u64, StorageError> {
    let last: Option<u64> = readable(storage, KEY)?;
    let number = last.unwrap_or(0) + 1;
    storage
        .commit(&Batch { changes: vec![(KEY.to_vec(), Some(number.to_string().into_bytes()))] })?;
    Ok(number)
}
