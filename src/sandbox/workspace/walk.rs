//! Looking through a folder by handles, so that no link swapped in on the way leads out of it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    ops::ControlFlow,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Deeper folders are left out: each level holds a descriptor.
const DEPTH: usize = 128;

/// A folder, open for looking.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
    real: PathBuf,
}

/// A regular file met on the way.
#[derive(Debug)]
pub struct Found<'a> {
    folder: BorrowedFd<'a>,
    name: &'a OsStr,
    /// Its path from the folder where the walk began.
    pub path: &'a Path,
}

impl Folder {
    pub(super) fn new(handle: OwnedFd, path: PathBuf, real: PathBuf) -> Self {
        Self { handle, path, real }
    }

    /// Its real path, when it was opened.
    pub fn real_path(&self) -> &Path {
        &self.real
    }

    /// Its absolute path, to show.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shows every regular file below, in the order of names; links are not followed.
    ///
    /// `enter` is asked with each name first; a refused folder is not looked into. What cannot be
    /// read is passed over.
    pub fn walk(
        &self,
        enter: &dyn Fn(&OsStr) -> bool,
        visit: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) {
        // Whether the visitor ended the walk is the visitor's to know.
        let _ = descend(self.handle.as_fd(), Path::new(""), DEPTH, enter, visit);
    }
}

impl Found<'_> {
    /// Opens the file, unless something else stands in its place by now.
    pub fn open(&self) -> Result<(File, u64), Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = open_entry(self.folder, self.name, flags)?;
        let stat = rustix::fs::fstat(&handle)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        Ok((handle.into(), u64::try_from(stat.st_size).unwrap_or_default()))
    }

    /// The folder it is in, and its name there.
    pub fn entry(&self) -> (BorrowedFd<'_>, &OsStr) {
        (self.folder, self.name)
    }

    /// When it was last changed, in seconds and nanoseconds since 1970.
    pub fn modified(&self) -> (i64, u64) {
        rustix::fs::statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| (stat.st_mtime, stat.st_mtime_nsec))
            .unwrap_or_default()
    }
}

fn descend(
    folder: BorrowedFd<'_>,
    path: &Path,
    depth: usize,
    enter: &dyn Fn(&OsStr) -> bool,
    visit: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if depth == 0 {
        return ControlFlow::Continue(());
    }
    for (name, kind) in entries(folder) {
        if !enter(&name) {
            continue;
        }
        let path = path.join(&name);
        match kind {
            FileType::RegularFile => visit(Found { folder, name: &name, path: &path })?,
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                if let Ok(below) = open_entry(folder, &name, flags) {
                    descend(below.as_fd(), &path, depth - 1, enter, visit)?;
                }
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

fn entries(folder: BorrowedFd<'_>) -> Vec<(OsString, FileType)> {
    let Ok(dir) = Dir::read_from(folder) else { return Vec::new() };
    let mut entries: Vec<_> = dir
        .flatten()
        .filter_map(|entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                return None;
            }
            let kind = match entry.file_type() {
                // Some file systems don't tell in the listing.
                FileType::Unknown => {
                    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            Some((name.to_owned(), kind))
        })
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries
}

fn open_entry(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}
