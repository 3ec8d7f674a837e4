//! A new store, filled beside the one in use and complete before anyone sees it.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    database::{Database, SEGMENT},
    envelope::{self, Form, Opened},
    high_water_mark::HighWaterMark,
    history::{self, ArchivePosition, History, Taken},
    parts::{self, META},
};
use crate::{removal::if_there, settings::config::Durability};

/// Stores of former versions have no archive.
const ARCHIVE_SINCE: u16 = 3;
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

pub(super) fn archive_key() -> Vec<u8> {
    [META, b"archive"].concat()
}

/// Whether a key is of a record that describes the store itself, which a builder writes by itself.
pub(super) fn is_of_the_store(key: &[u8]) -> bool {
    key.starts_with(META)
}

/// What the store knows of its archive: what it must be at least.
pub(super) fn archive_value(schema: u16, archive: ArchivePosition) -> Vec<u8> {
    let payload = [archive.store.to_be_bytes(), archive.number.to_be_bytes()].concat();
    envelope::seal(Form::Whole, schema, &archive_key(), &payload)
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
    history: History,
    /// Records for the archive.
    over: Vec<(Vec<u8>, Vec<u8>)>,
    archive: Option<ArchivePosition>,
}

impl Builder {
    /// Begins a store in a folder. What stands there is left over from an earlier try and goes.
    pub(super) fn new(folder: PathBuf, schema: u16) -> io::Result<Self> {
        let store = getrandom::u64().map_err(io::Error::other)?;
        let archive = (schema >= ARCHIVE_SINCE).then_some(ArchivePosition { store, number: 0 });
        let mut builder = Self::without_archive(folder, schema, archive)?;
        if archive.is_some() {
            builder.history = History::create(&builder.folder, store)?;
        }
        Ok(builder)
    }

    /// The same for a store whose archive is put beside it: all records go to sled.
    pub(super) fn without_archive(
        folder: PathBuf,
        schema: u16,
        archive: Option<ArchivePosition>,
    ) -> io::Result<Self> {
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        Ok(Self {
            database: Database::open(&folder)?,
            history: History::default(),
            folder,
            schema,
            batch: ::sled::Batch::default(),
            waiting: 0,
            over: Vec::new(),
            archive,
        })
    }

    /// Adds a record, to the archive if it belongs there.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if self.history.holds(key) {
            return self.put_over(key.to_vec(), value.to_vec());
        }
        for (key, sealed) in parts::split(self.schema, key, value) {
            self.put_sealed(key, sealed)?;
        }
        Ok(())
    }

    /// Adds a record as it was found in another store.
    pub(super) fn put_sealed(&mut self, key: Vec<u8>, sealed: Vec<u8>) -> io::Result<()> {
        // A damaged one, and one in parts, moves when the store is opened.
        if self.history.holds(&key)
            && let Ok(Opened { form: Form::Whole, payload, .. }) = envelope::open(&key, &sealed)
        {
            let value = payload.to_vec();
            return self.put_over(key, value);
        }
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
        self.take_over()?;
        if let Some(archive) = self.archive {
            self.batch.insert(archive_key(), archive_value(self.schema, archive));
        }
        self.apply()?;
        self.database.flush()?;
        let Self { folder, database, history, .. } = self;
        drop(database);
        history.close()?;
        let mark = HighWaterMark::open(&folder, Durability::Power)?;
        mark.note(1)?;
        mark.sync()?;
        settle(&folder)?;
        Ok(folder)
    }

    fn apply(&mut self) -> io::Result<()> {
        self.waiting = 0;
        self.take_over()?;
        self.database.apply_batch(std::mem::take(&mut self.batch))?;
        Ok(())
    }

    fn put_over(&mut self, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        self.waiting += key.len() + value.len();
        self.over.push((key, value));
        if self.waiting > ROUND { self.apply() } else { Ok(()) }
    }

    fn take_over(&mut self) -> io::Result<()> {
        if !self.over.is_empty() {
            let over = std::mem::take(&mut self.over);
            let taken = over.iter().map(|(key, value)| (key, Taken::Value(value)));
            let number = self.history.take(taken).map_err(io::Error::other)?;
            self.archive = self.archive.map(|archive| ArchivePosition { number, ..archive });
        }
        Ok(())
    }
}

/// Makes the files of a store private and durable, and their names too. SQLite has seen to its own.
pub(super) fn settle(store: &Path) -> io::Result<()> {
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        let mode = if entry.file_type()?.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(entry.path(), Permissions::from_mode(mode))?;
        if !entry.file_name().as_encoded_bytes().starts_with(history::FILE.as_bytes()) {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(store)?.sync_all()
}

/// Removes a folder that may not be there.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    if_there(fs::remove_dir_all(folder)).map(drop)
}

/// Copies the files of a store that is not in use, but for its archive.
pub(super) fn copy_files(store: &Path, copy: &Path) -> io::Result<()> {
    remove(copy)?;
    fs::create_dir(copy)?;
    fs::set_permissions(copy, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        let is_archive = entry.file_name().as_encoded_bytes().starts_with(history::FILE.as_bytes());
        if entry.file_type()?.is_file() && !is_archive {
            fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
    }
    Ok(())
}
