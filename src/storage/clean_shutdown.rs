//! Clean shutdown marker: the store was closed in order, and nothing was written since.
//!
//! After a crash a copy of the store is opened first, since sled repairs what it opens (`open.rs`). A store at rest needs no
//! repair, and is opened in place. The note goes before anything is opened or written, so it never speaks of another state.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::removal::if_there;

const NAME: &str = "rest";

/// What a store was when it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CleanShutdown {
    pub(super) commits: u64,
    /// The length of its file.
    pub(super) length: u64,
}

impl CleanShutdown {
    /// Notes it, durably.
    pub(super) fn note(self, store: &Path) -> io::Result<()> {
        let mut note = [self.commits.to_be_bytes(), self.length.to_be_bytes()].concat();
        note.extend(crc32c::crc32c(&note).to_be_bytes());
        let path = store.join(NAME);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(&note)?;
        file.sync_all()
    }

    /// Takes the note away. None if there is none, or it is not of this state.
    pub(super) fn take(store: &Path) -> io::Result<Option<Self>> {
        let path = store.join(NAME);
        let Some(note) = if_there(fs::read(&path))? else { return Ok(None) };
        fs::remove_file(&path)?;
        File::open(store)?.sync_all()?;
        let length = fs::metadata(store.join("db"))?.len();
        Ok(Self::read(&note).filter(|rest| rest.length == length))
    }

    fn read(note: &[u8]) -> Option<Self> {
        let (commits, rest) = note.split_first_chunk()?;
        let (length, sum) = rest.split_first_chunk()?;
        let is_intact = crc32c::crc32c(note.get(..16)?).to_be_bytes() == *sum;
        let (commits, length) = (u64::from_be_bytes(*commits), u64::from_be_bytes(*length));
        is_intact.then_some(Self { commits, length })
    }
}
