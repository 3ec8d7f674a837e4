//! High-water mark: the number of the newest commit, noted beside the database.
//!
//! sled takes a damaged log for one that a crash cut short: it drops the rest without a word. The
//! mark tells the two apart, since it is written after a commit is durable and so never runs ahead.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use crate::settings::config::Durability;

const NAME: &str = "mark";
/// Commit number, durability, boot and checksum.
const LENGTH: usize = 8 + 1 + 36 + 4;

/// The open mark of a store in use.
#[derive(Debug)]
pub(super) struct HighWaterMark {
    file: File,
    durability: Durability,
    boot: [u8; 36],
}

impl HighWaterMark {
    pub(super) fn open(store: &Path, durability: Durability) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(store.join(NAME))?;
        Ok(Self { file, durability, boot: boot() })
    }

    /// Notes a commit that is durable. The note itself needs no sync: an older one says less, never
    /// something false.
    pub(super) fn note(&self, commit: u64) -> io::Result<()> {
        let mut note = Vec::with_capacity(LENGTH);
        note.extend(commit.to_be_bytes());
        note.push(match self.durability {
            Durability::Power => 1,
            Durability::Process => 0,
        });
        note.extend(self.boot);
        note.extend(crc32c::crc32c(&note).to_be_bytes());
        self.file.write_all_at(&note, 0)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// The commit that must be in the store. An unreadable mark asks for nothing: it is no reason to
/// doubt the records.
pub(super) fn expected(store: &Path) -> u64 {
    let Ok(note) = fs::read(store.join(NAME)) else { return 0 };
    let intact = note
        .split_at_checked(LENGTH - 4)
        .filter(|(body, sum)| crc32c::crc32c(body).to_be_bytes() == **sum);
    let Some((body, _)) = intact else { return 0 };
    let (commit, rest) = body.split_at(8);
    // Without the sync a power cut takes what was noted, so the note holds until the next boot only.
    if rest[0] == 0 && rest[1..] != boot() {
        return 0;
    }
    commit.try_into().map_or(0, u64::from_be_bytes)
}

/// The name of this boot of the machine; zeros where there is none.
fn boot() -> [u8; 36] {
    fs::read("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| text.get(..36)?.try_into().ok())
        .unwrap_or([0; 36])
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_newest_commit_is_expected() {
        let folder = tempfile::tempdir().unwrap();
        let mark = HighWaterMark::open(folder.path(), Durability::Power).unwrap();

        mark.note(1).unwrap();
        mark.note(258).unwrap();

        assert_eq!(expected(folder.path()), 258);
    }

    #[test]
    fn a_damaged_or_missing_mark_asks_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(expected(folder.path()), 0);

        let mark = HighWaterMark::open(folder.path(), Durability::Power).unwrap();
        mark.note(258).unwrap();
        mark.file.write_all_at(b"x", 3).unwrap();

        assert_eq!(expected(folder.path()), 0);
    }

    /// SC-101: without the sync, a power cut may have taken commits that were answered.
    #[test]
    fn after_a_boot_only_a_synced_mark_holds() {
        let folder = tempfile::tempdir().unwrap();
        let note = |durability, boot| {
            let mut mark = HighWaterMark::open(folder.path(), durability).unwrap();
            mark.boot = boot;
            mark.note(9).unwrap();
            expected(folder.path())
        };

        assert_eq!(note(Durability::Power, [b'x'; 36]), 9);
        assert_eq!(note(Durability::Process, boot()), 9);
        assert_eq!(note(Durability::Process, [b'x'; 36]), 0);
    }
}
