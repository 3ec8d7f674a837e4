//! Boot counter: each start of the process has the next number.

use serde::{Deserialize, Serialize};

use crate::{
    storage::{Storage, StorageError},
    store::{reads::get_readable, records::Writes},
};

/// The number of the newest start.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Boot(u64);

crate::records! {
    Boot: "boot", ();
}

/// Gives this start its number, and makes it durable. Blocks.
pub fn next(storage: &dyn Storage) -> Result<u64, StorageError> {
    let Boot(last) = get_readable(storage, &())?.unwrap_or_default();
    let number = last + 1;
    storage.commit(&Writes::new().put_at(&(), &Boot(number)).batch()?)?;
    Ok(number)
}
