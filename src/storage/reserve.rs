//! The reserve: disk space that belongs to the store before it needs it.
//!
//! sled 0.34 gives up for good at its first failed write: from then on every flush of the process fails, and
//! what its memory shows is not on the disk. So it must never meet a full disk. Blocks behind the end of its
//! file are allocated ahead (which nobody else can take, and which sled does not see), and a commit that may
//! need more than there are is refused before sled hears of it.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::{fs::FallocateFlags, io::Errno};

/// What is allocated ahead where there is room: running turns go on with it for a while on a full disk.
const STANDING: u64 = 16 << 20;
/// What a file system counts in.
const BLOCK: u64 = 512;
/// What sled may write by itself between two commits, tidying its segments.
const TIDYING: u64 = 4 << 20;
/// What a changed record may cost beside its own bytes: sled writes its page anew at times …
const PAGE: u64 = 8 << 10;
/// … but a group of many touches few pages more than once.
const PAGES: u64 = 4 << 20;

/// The most that so many changed records, with so many bytes, may add to the file.
pub(super) fn need(records: usize, bytes: usize) -> u64 {
    let pages = (records as u64 * PAGE).min(PAGES);
    2 * bytes as u64 + pages + TIDYING
}

/// Whether a file can grow by so much, whatever others write meanwhile. What is not allocated for that is allocated now.
pub(super) fn holds(file: &File, need: u64) -> io::Result<bool> {
    let found = file.metadata()?;
    // Asked each time: when sled cuts the file, it takes away what lies behind, also if it has grown again since.
    let left = (found.blocks() * BLOCK).saturating_sub(found.len());
    if left >= need.max(STANDING / 2) {
        return Ok(true);
    }
    for wanted in [need.max(STANDING), need] {
        // From the beginning on, with what sled may have left out so far.
        let end = found.len() + wanted;
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, end) {
            Ok(()) => return Ok(true),
            Err(errno) if is_full(errno) => {}
            // Such a file system can only be asked how much is free.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(free(file)? >= wanted),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(left >= need)
}

/// Gives back what is allocated behind the end of a store's file, for a start without other room.
pub(super) fn release(file: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(file)?;
    // Also cuts off what lies behind the end.
    file.set_len(file.metadata()?.len())
}

/// Bytes that are free where a file lies.
pub(super) fn free(file: impl AsFd) -> io::Result<u64> {
    let found = rustix::fs::fstatvfs(file)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The disk, or what its user may have of it, is used up.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

#[cfg(test)]
mod tests {

    use super::*;

    /// SC-115
    #[test]
    fn room_is_allocated_ahead_and_the_file_keeps_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("db")).unwrap();
        file.set_len(1000).unwrap();

        let held = holds(&file, need(1, 100)).unwrap();

        let found = file.metadata().unwrap();
        assert!(held);
        assert_eq!(found.len(), 1000);
        assert!(found.blocks() * 512 >= STANDING, "{}", found.blocks());
    }

    /// SC-115: sled cuts its file when its last segments are empty, and goes on behind the cut.
    #[test]
    fn what_a_cut_took_is_allocated_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("db")).unwrap();
        file.set_len(4 << 20).unwrap();
        holds(&file, 1).unwrap();

        file.set_len(1 << 20).unwrap();
        file.set_len(5 << 20).unwrap();
        holds(&file, 1).unwrap();

        let allocated = file.metadata().unwrap().blocks() * BLOCK;
        assert!(allocated >= (5 << 20) + STANDING, "{allocated}");
    }

    #[test]
    fn a_batch_needs_more_than_its_bytes() {
        let needs = [need(1, 8), need(10, 10 << 20), need(100_000, 800_000)];

        let needs = needs.map(|need| need >> 20);

        assert_eq!(needs, [4, 24, 9]);
    }
}
