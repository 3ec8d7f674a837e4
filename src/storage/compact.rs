//! Compaction: a new file for the hot tier when it is much larger than what it holds.
//!
//! sled uses the space of what is gone again, and never gives it back. After a burst of work, or after much has moved to the
//! archive, the file would stay as large as it ever was, and with it the start.

use std::{fs, io, path::Path};

use super::{
    build::{self, Builder},
    history, swap,
    tiers::TieredStorage,
};

/// A file below this is never too large.
const SMALL: u64 = 6 << 20;
/// A larger one may be so many times as large as what it holds: sled keeps several states of a page, and room.
const TIMES: u64 = 6;

/// Whether a store would be much smaller if it were written anew.
pub(super) fn is_due(storage: &TieredStorage, store: &Path) -> io::Result<bool> {
    let length = fs::metadata(store.join("db"))?.len();
    if length < SMALL {
        return Ok(false);
    }
    let mut held: u64 = 0;
    for record in storage.hot.database.iter() {
        let (key, value) = record?;
        held += (key.len() + value.len()) as u64;
        // As soon as it holds enough, the rest need not be read.
        if held * TIMES > length {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the hot tier anew beside itself, takes the archive over as it is, and puts both into use with one rename.
pub(super) fn compact(storage: TieredStorage, store: &Path) -> io::Result<()> {
    let before = fs::metadata(store.join("db"))?.len();
    let TieredStorage { hot, cold, .. } = storage;
    // From here on its file alone is the archive.
    cold.close()?;
    let building = swap::beside(store, "building");
    let mut builder = Builder::without_archive(building, hot.schema(), hot.archive())?;
    for record in hot.database.iter() {
        let (key, sealed) = record?;
        if !build::is_of_the_store(&key) {
            builder.put_sealed(key.to_vec(), sealed.to_vec())?;
        }
    }
    let built = builder.finish()?;
    if hot.archive().is_some() {
        fs::hard_link(store.join(history::FILE), built.join(history::FILE))?;
        fs::File::open(&built)?.sync_all()?;
    }
    drop(hot);
    if let Some(replaced) = swap::swap(&built, store, "before")? {
        build::remove(&replaced)?;
    }
    let after = fs::metadata(store.join("db"))?.len();
    tracing::info!(before, after, "the file of the store was written anew");
    Ok(())
}
