//! A walk through a folder that never leaves it.
//!
//! Teams change their folders while they are walked. Each step is taken from an open folder and follows
//! no link, so that none put in the way leads elsewhere.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat},
    io::Errno,
};

use crate::removal::names;

/// Deeper folders are not walked: each level holds a descriptor.
const DEPTH: usize = 160;
/// Nor are longer paths, in bytes: whoever puts things back has a folder to put them in, and the system a bound for both.
const LONGEST_PATH: usize = 3_000;

/// Something found on a walk.
#[derive(Debug)]
pub(crate) enum Found {
    /// A folder, before what it holds.
    Folder,
    File(File),
    /// A link and where it says it leads.
    Link(PathBuf),
    /// Something that cannot be read, and why. With an error of the visitor's the walk ends.
    Unread(io::Error),
}

type Visit<'a> = dyn FnMut(&Path, Found) -> io::Result<()> + 'a;

/// Shows what a folder holds, by its path under `name`. A folder that is missing holds nothing; the folder
/// itself may be a link, since the operator chose it.
pub(crate) fn walk(folder: &Path, name: &Path, visit: &mut Visit<'_>) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    match openat(CWD, folder, flags, Mode::empty()) {
        Ok(folder) => {
            visit(name, Found::Folder)?;
            descend(&folder, name, DEPTH, visit)
        }
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(at(folder, &error.into())),
    }
}

/// An error with the path that it is about.
pub(crate) fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

fn descend(folder: &OwnedFd, path: &Path, depth: usize, visit: &mut Visit<'_>) -> io::Result<()> {
    let mut names = match names(folder) {
        Ok(names) => names,
        Err(error) => return visit(path, Found::Unread(error.into())),
    };
    names.sort();
    for name in names {
        let path = path.join(&name);
        match open(folder.as_fd(), &path, &name, depth) {
            Ok(Some(Opened::Folder(folder))) => {
                visit(&path, Found::Folder)?;
                descend(&folder, &path, depth - 1, visit)?;
            }
            Ok(Some(Opened::File(file))) => visit(&path, Found::File(file))?,
            Ok(Some(Opened::Link(target))) => visit(&path, Found::Link(target))?,
            // Sockets, pipes and devices are of the moment.
            Ok(None) => {}
            // Removed or replaced since the names were read.
            Err(error) if vanished(&error) => {}
            Err(error) => visit(&path, Found::Unread(error))?,
        }
    }
    Ok(())
}

enum Opened {
    Folder(OwnedFd),
    File(File),
    Link(PathBuf),
}

fn open(
    folder: BorrowedFd<'_>,
    path: &Path,
    name: &OsStr,
    depth: usize,
) -> io::Result<Option<Opened>> {
    let kind = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |more| openat(folder, name, flags | more, Mode::empty());
    let found = kind(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?);
    if path.as_os_str().len() > LONGEST_PATH {
        return Err(io::Error::other(format!("its path is longer than {LONGEST_PATH} bytes")));
    }
    if found == FileType::Directory && depth == 0 {
        return Err(io::Error::other(format!("it lies more than {DEPTH} folders deep")));
    }
    Ok(match found {
        FileType::Directory => Some(Opened::Folder(open(OFlags::DIRECTORY)?)),
        FileType::RegularFile => {
            // A pipe put in its place must not hold us up.
            let file = open(OFlags::NONBLOCK)?;
            let is_file = kind(rustix::fs::fstat(&file)?) == FileType::RegularFile;
            is_file.then(|| Opened::File(File::from(file)))
        }
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new())?;
            Some(Opened::Link(OsStr::from_bytes(target.as_bytes()).into()))
        }
        _ => None,
    })
}

fn vanished(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::LOOP, Errno::NOTDIR]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
