//! A walk through a folder that never leaves it.
//!
//! Teams change their folders while they are walked. Each step is taken from an open folder and follows
//! no link, so that none put in the way leads elsewhere.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, readlinkat, statat},
    io::Errno,
};

/// Something found on a walk.
#[derive(Debug)]
pub(crate) enum Found {
    /// A folder, before what it holds.
    Folder,
    File(File),
    /// A link and where it says it leads.
    Link(PathBuf),
}

/// Shows what a folder holds, by its path under `name`. A folder that is missing holds nothing; the folder
/// itself may be a link, since the operator chose it.
pub(crate) fn walk(
    folder: &Path,
    name: &Path,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    match openat(CWD, folder, flags, Mode::empty()) {
        Ok(folder) => {
            visit(name, Found::Folder)?;
            descend(&folder, name, visit)
        }
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn descend(
    folder: &OwnedFd,
    path: &Path,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = OsString::from(OsStr::from_bytes(entry?.file_name().to_bytes()));
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    for name in names {
        match step(folder, &path.join(&name), &name, visit) {
            // Removed or replaced since the names were read.
            Err(error) if vanished(&error) => {}
            other => other?,
        }
    }
    Ok(())
}

fn step(
    folder: &OwnedFd,
    path: &Path,
    name: &OsStr,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let kind = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode);
    match kind(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?) {
        FileType::Directory => {
            let folder = open(folder.as_fd(), name, OFlags::DIRECTORY)?;
            visit(path, Found::Folder)?;
            descend(&folder, path, visit)
        }
        FileType::RegularFile => {
            // A pipe put in its place must not hold us up.
            let file = open(folder.as_fd(), name, OFlags::NONBLOCK)?;
            match kind(rustix::fs::fstat(&file)?) {
                FileType::RegularFile => visit(path, Found::File(File::from(file))),
                _ => Ok(()),
            }
        }
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new())?;
            visit(path, Found::Link(OsStr::from_bytes(target.as_bytes()).into()))
        }
        // Sockets, pipes and devices are of the moment.
        _ => Ok(()),
    }
}

fn open(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

fn vanished(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::LOOP, Errno::NOTDIR]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
