//! What the kernel tells of a file: which one it is, and when it was last changed.

use std::{
    ffi::OsStr,
    ops::ControlFlow,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use hivewright_actors::clock::Timestamp;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx},
    io::Errno,
    time::{ClockId, clock_gettime},
};
use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970.
pub type Moment = (i64, u32);

/// Device and inode.
pub type FileId = (u64, u64);

/// A file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub id: FileId,
    /// When it was made, where the file system tells: an inode may be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<Moment>,
    /// When content, name or owner last changed. No process can set it.
    pub changed: Moment,
    /// When it was last read, where the file system tells.
    pub read: Moment,
}

impl Seen {
    /// Of an open file.
    pub fn of(file: impl AsFd) -> Result<Self, Errno> {
        let flags = AtFlags::EMPTY_PATH;
        statx(file, c"", flags, wanted()).map(|found| Self::from(&found))
    }

    /// Of an entry of a folder, which is not followed if it is a link.
    pub fn at(folder: impl AsFd, name: &OsStr) -> Result<Self, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        statx(folder, name, flags, wanted()).map(|found| Self::from(&found))
    }

    /// Of whatever stands at a path, which is not followed if it is a link.
    pub fn path(path: &Path) -> Result<Self, Errno> {
        Self::at(CWD, path.as_os_str())
    }

    pub fn is_same_file(&self, other: &Self) -> bool {
        self.id == other.id && self.born.zip(other.born).is_none_or(|(one, other)| one == other)
    }
}

impl From<&Statx> for Seen {
    fn from(found: &Statx) -> Self {
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        let moment = |at: rustix::fs::StatxTimestamp| (at.tv_sec, at.tv_nsec);
        Self {
            id: (device, found.stx_ino),
            born: has_birth.then(|| moment(found.stx_btime)),
            changed: moment(found.stx_ctime),
            read: moment(found.stx_atime),
        }
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

/// The time that the kernel gives to files that are changed from now on, or an earlier one.
pub fn now() -> Moment {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A moment of the clock, as the kernel gives it to files.
pub(super) fn moment(at: Timestamp) -> Moment {
    let nanos = u32::try_from(at.0 % 1_000).unwrap_or_default() * 1_000_000;
    (i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX), nanos)
}

/// Entries that are looked at in one walk.
const MOST_ENTRIES: usize = 200_000;
/// Each level holds a descriptor.
const DEPTH: usize = 128;

/// Something met on a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Met {
    File(PathBuf, Seen),
    /// A folder that cannot be looked into, or is too deep.
    Closed(PathBuf),
}

/// Shows every regular file at or below a path. Links are not followed. False: there are more. Blocks.
pub fn walk(root: &Path, visit: &mut dyn FnMut(Met)) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, root, flags, Mode::empty()) {
        Ok(folder) => {
            let mut left = MOST_ENTRIES;
            descend(folder.as_fd(), root, DEPTH, &mut left, visit).is_continue()
        }
        Err(Errno::NOTDIR) => {
            if let Ok(seen) = Seen::path(root) {
                visit(Met::File(root.to_owned(), seen));
            }
            true
        }
        Err(Errno::NOENT | Errno::LOOP) => true,
        Err(_) => false,
    }
}

fn descend(
    folder: BorrowedFd<'_>,
    path: &Path,
    depth: usize,
    left: &mut usize,
    visit: &mut dyn FnMut(Met),
) -> ControlFlow<()> {
    let Ok(entries) = Dir::read_from(folder) else {
        visit(Met::Closed(path.to_owned()));
        return ControlFlow::Continue(());
    };
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if *left == 0 {
            return ControlFlow::Break(());
        }
        *left -= 1;
        let Ok(found) = statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted()) else {
            // It is gone by now.
            continue;
        };
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::RegularFile => visit(Met::File(path.join(name), Seen::from(&found))),
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match openat(folder, name, flags, Mode::empty()) {
                    Ok(_) if depth == 0 => visit(Met::Closed(path.join(name))),
                    Ok(below) => {
                        descend(below.as_fd(), &path.join(name), depth - 1, left, visit)?;
                    }
                    Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
                    // It may be opened up later.
                    Err(_) => visit(Met::Closed(path.join(name))),
                }
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
}
