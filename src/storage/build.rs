//! A new store, filled beside the one in use and complete before anyone sees it.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    database::Database,
    envelope::{self, Form},
    mark::Mark,
    parts::{self, META},
};
use crate::settings::config::Durability;

/// sled's segment. It bounds what a record may hold, see `parts.rs`.
pub(super) const SEGMENT: usize = 2 * 1024 * 1024;
/// How many bytes of records are applied at once.
const ROUND: usize = 1024 * 1024;

/// The beginning of the file in which sled keeps its parameters. A checksum follows, which sled
/// writes and doesn't heed.
pub(super) fn parameters() -> String {
    format!("segment_size: {SEGMENT}\nuse_compression: false\nversion: 0.34\n")
}

pub(super) fn schema_key() -> Vec<u8> {
    [META, b"schema"].concat()
}

pub(super) fn commit_key() -> Vec<u8> {
    [META, b"commit"].concat()
}

/// What the store knows of itself after a commit: the commit's number.
pub(super) fn commit_value(schema: u16, commits: u64) -> Vec<u8> {
    envelope::seal(Form::Whole, schema, &commit_key(), &commits.to_be_bytes())
}

#[derive(Debug)]
pub(super) struct Builder {
    folder: PathBuf,
    database: Database,
    schema: u16,
    batch: ::sled::Batch,
    waiting: usize,
}

impl Builder {
    /// Begins a store in a folder. What stands there is left over from an earlier try and goes.
    pub(super) fn new(folder: PathBuf, schema: u16) -> io::Result<Self> {
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        Ok(Self {
            database: Database::open(&folder)?,
            folder,
            schema,
            batch: ::sled::Batch::default(),
            waiting: 0,
        })
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        for (key, sealed) in parts::split(self.schema, key, value) {
            self.put_sealed(key, sealed)?;
        }
        Ok(())
    }

    /// Adds a record as it was found in another store.
    pub(super) fn put_sealed(&mut self, key: Vec<u8>, sealed: Vec<u8>) -> io::Result<()> {
        self.waiting += key.len() + sealed.len();
        self.batch.insert(key, sealed);
        if self.waiting > ROUND {
            self.apply()?;
        }
        Ok(())
    }

    /// Completes the store and closes it. It is durable then.
    pub(super) fn finish(mut self) -> io::Result<PathBuf> {
        let schema = envelope::seal(Form::Whole, self.schema, &schema_key(), b"");
        self.batch.insert(schema_key(), schema);
        let commit = commit_value(self.schema, 1);
        self.batch.insert(commit_key(), commit);
        self.apply()?;
        self.database.flush()?;
        let Self { folder, database, .. } = self;
        drop(database);
        let mark = Mark::open(&folder, Durability::Power)?;
        mark.note(1)?;
        mark.sync()?;
        settle(&folder)?;
        Ok(folder)
    }

    fn apply(&mut self) -> io::Result<()> {
        self.waiting = 0;
        self.database.apply_batch(std::mem::take(&mut self.batch))?;
        Ok(())
    }
}

/// Makes the files of a store private and durable, and their names too.
pub(super) fn settle(store: &Path) -> io::Result<()> {
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        let mode = if entry.file_type()?.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(entry.path(), Permissions::from_mode(mode))?;
        File::open(entry.path())?.sync_all()?;
    }
    File::open(store)?.sync_all()
}

/// Removes a folder that may not be there.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
