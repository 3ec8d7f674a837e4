//! sled's database in a folder, from its opening until its lock is free again.
//!
//! sled gives the lock of its file back on a thread of its own, a while after the database was dropped. Whoever
//! opens, copies or renames the folder right after that would find it in use. So a database is closed
//! when its lock is free, not before.

use std::{
    fs::{File, TryLockError},
    io,
    ops::Deref,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// sled's segment. It bounds what a record may hold, see `parts.rs`.
pub(super) const SEGMENT: usize = 2 * 1024 * 1024;
const CACHE: u64 = 32 * 1024 * 1024;
/// How often sled tidies its file. Only this background round frees space that replaced records share with
/// others; commits flush by themselves. Each round syncs the file, also if there is nothing to do.
const TIDY_MILLIS: u64 = 5000;

/// How long a store is waited for that another process may just be leaving.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sled may take to let go of its file. It needs milliseconds, on a busy machine seconds.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// An open database. Dropping it waits until its lock is free.
#[derive(Debug)]
pub(super) struct Database {
    // Dropped in this order.
    database: ::sled::Db,
    _closing: Closing,
}

impl Database {
    /// Opens the database in a folder, or makes one. One that is in use is waited for a while; then the
    /// error is [`io::ErrorKind::WouldBlock`].
    pub(super) fn open(store: &Path) -> io::Result<Self> {
        match lock(store) {
            Ok(Some(lock)) => drop(lock),
            Ok(None) => return Err(in_use()),
            // sled makes the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let database = ::sled::Config::new()
            .path(store)
            .segment_size(SEGMENT)
            .cache_capacity(CACHE)
            .flush_every_ms(Some(TIDY_MILLIS))
            .mode(::sled::Mode::HighThroughput)
            .open()?;
        Ok(Self { database, _closing: Closing(store.to_path_buf()) })
    }
}

impl Deref for Database {
    type Target = ::sled::Db;

    fn deref(&self) -> &::sled::Db {
        &self.database
    }
}

/// Waits, when dropped, until nobody holds the lock of a folder's database.
#[derive(Debug)]
struct Closing(PathBuf);

impl Drop for Closing {
    fn drop(&mut self) {
        // A folder that was renamed or removed meanwhile is nobody's to open.
        if let Ok(None) = lock_within(&self.0, CLOSE_TIMEOUT) {
            tracing::error!(path = %self.0.display(), "the database does not let go of its file");
        }
    }
}

/// Keeps other processes out of a store until dropped; none if another one uses it.
pub(super) fn lock(store: &Path) -> io::Result<Option<File>> {
    lock_within(store, LOCK_TIMEOUT)
}

fn lock_within(store: &Path, timeout: Duration) -> io::Result<Option<File>> {
    let file = File::open(store.join("db"))?;
    let deadline = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "the database is in use by another process")
}
