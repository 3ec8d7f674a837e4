//! Writing a file of a team: judged by its real path, replaced as a whole.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Write,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags},
    io::Errno,
};

use super::{
    Access, Guard, Root, Workspace, WorkspaceError, governance::Class, io_error, open_beneath,
    place, refused, regular,
};

/// Links that are followed to the file that is meant.
const LINKS: usize = 40;

#[derive(Debug)]
pub struct Written {
    pub class: Class,
    pub path: PathBuf,
    pub file: File,
}

/// The folder that will hold a file, as far as it exists.
struct Parent {
    handle: OwnedFd,
    /// Folders still to be made, outermost first.
    missing: Vec<OsString>,
}

impl Workspace {
    /// Replaces the content of a file, making it and its folders if need be. Its mode stays.
    ///
    /// The folder that the guard judged is the one that is written to: it stays open in between. Readers see
    /// the old content or the new, also after a power cut.
    pub fn write(
        &self,
        path: &str,
        content: &[u8],
        guard: Guard<'_>,
    ) -> Result<Written, WorkspaceError> {
        let (root, mut relative) = self.locate(path)?;
        for _ in 0..LINKS {
            let name = file_name(path, &relative)?.to_owned();
            let folder = relative.parent().unwrap_or(Path::new("")).to_path_buf();
            let parent = nearest(root, &folder, path)?;
            let (class, real) = self.judge(root, &parent, &name, path)?;
            if parent.missing.is_empty()
                && let Some(target) = link_target(parent.handle.as_fd(), &name, path)?
            {
                relative = folder.join(target);
                continue;
            }
            guard(&real)?;
            let file = replace(make(parent, path)?.as_fd(), &name, content, path)?;
            return Ok(Written { class, path: real, file });
        }
        Err(WorkspaceError::Unsettled(path.to_owned()))
    }

    /// Makes a file, and its folders if need be; none if its name is taken. Nothing is replaced, and no link is followed
    /// to the name itself.
    pub fn create(
        &self,
        path: &str,
        content: &[u8],
        guard: Guard<'_>,
    ) -> Result<Option<Written>, WorkspaceError> {
        let (root, relative) = self.locate(path)?;
        let name = file_name(path, &relative)?.to_owned();
        let parent = nearest(root, relative.parent().unwrap_or(Path::new("")), path)?;
        let (class, real) = self.judge(root, &parent, &name, path)?;
        guard(&real)?;
        let folder = make(parent, path)?;
        let file = put(folder.as_fd(), content, path, Mode::RUSR | Mode::WUSR, |temporary| {
            let flags = RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(&folder, temporary, &folder, &name, flags)
        });
        match file {
            Ok(file) => Ok(Some(Written { class, path: real, file })),
            Err(WorkspaceError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::AlreadyExists =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Decides by the place the file will really have.
    fn judge(
        &self,
        root: &Root,
        parent: &Parent,
        name: &OsStr,
        path: &str,
    ) -> Result<(Class, PathBuf), WorkspaceError> {
        if root.access == Access::ReadOnly {
            return Err(WorkspaceError::ReadOnly(path.to_owned()));
        }
        let mut real = place(path, &parent.handle)?;
        real.extend(&parent.missing);
        real.push(name);
        let class = real.strip_prefix(self.real_path()).map_or(Class::Other, Class::of);
        if class.writable() {
            Ok((class, real))
        } else {
            Err(WorkspaceError::Governed { class, path: path.to_owned() })
        }
    }
}

fn file_name<'a>(path: &str, relative: &'a Path) -> Result<&'a OsStr, WorkspaceError> {
    match relative.file_name() {
        Some(name) if !path.ends_with('/') => Ok(name),
        // The root itself, or a path that ends in `..` or `/`.
        _ => Err(WorkspaceError::NotAFile { path: path.to_owned(), kind: "a folder" }),
    }
}

/// Opens the deepest folder of `folder` that exists.
fn nearest(root: &Root, folder: &Path, path: &str) -> Result<Parent, WorkspaceError> {
    let mut missing = Vec::new();
    let mut existing = folder;
    loop {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match open_beneath(root.handle.as_fd(), existing, flags, Mode::empty()) {
            Ok(handle) => {
                missing.reverse();
                return Ok(Parent { handle, missing });
            }
            Err(Errno::NOENT) => {
                // `new/..` names nothing as long as `new` does not exist.
                let (Some(name), Some(above)) = (existing.file_name(), existing.parent()) else {
                    return Err(WorkspaceError::NotFound(path.to_owned()));
                };
                missing.push(name.to_owned());
                existing = above;
            }
            Err(errno) => return Err(refused(path, errno)),
        }
    }
}

/// Where the name leads if it is a link. Something that is neither link nor regular file is refused.
fn link_target(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    path: &str,
) -> Result<Option<PathBuf>, WorkspaceError> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(refused(path, errno)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {}
        kind => return regular(path, kind).map(|()| None),
    }
    let target =
        rustix::fs::readlinkat(folder, name, Vec::new()).map_err(|errno| refused(path, errno))?;
    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
    if target.is_absolute() {
        return Err(WorkspaceError::Outside(path.to_owned()));
    }
    Ok(Some(target))
}

/// Makes the missing folders, each beneath the handle of the one before.
fn make(parent: Parent, path: &str) -> Result<OwnedFd, WorkspaceError> {
    let mut handle = parent.handle;
    for name in &parent.missing {
        match rustix::fs::mkdirat(&handle, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(path, errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        handle = rustix::fs::openat2(&handle, name, flags, Mode::empty(), resolve)
            .map_err(|errno| refused(path, errno))?;
    }
    Ok(handle)
}

fn replace(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    content: &[u8],
    path: &str,
) -> Result<File, WorkspaceError> {
    let mode = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            Mode::from_raw_mode(stat.st_mode)
        }
        _ => Mode::RUSR | Mode::WUSR,
    };
    put(folder, content, path, mode, |temporary| {
        rustix::fs::renameat(folder, temporary, folder, name)
    })
}

/// Writes a file under a name of its own, then gives it the one that it is to have.
fn put(
    folder: BorrowedFd<'_>,
    content: &[u8],
    path: &str,
    mode: Mode,
    rename: impl FnOnce(&str) -> Result<(), Errno>,
) -> Result<File, WorkspaceError> {
    let temporary = temporary_name().map_err(|source| io_error(path, source))?;
    let written = write_new(folder, &temporary, content, mode).and_then(|file| {
        rename(&temporary)?;
        rustix::fs::fsync(folder)?;
        Ok(file)
    });
    written.map_err(|source| {
        // What is left of a failed write is of no use; the failure that matters is the first.
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(errno) => refused(path, errno),
            None => io_error(path, source),
        }
    })
}

fn write_new(
    folder: BorrowedFd<'_>,
    name: &str,
    content: &[u8],
    mode: Mode,
) -> std::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file: File = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into();
    file.write_all(content)?;
    rustix::fs::fchmod(&file, mode)?;
    file.sync_all()?;
    Ok(file)
}

fn temporary_name() -> std::io::Result<String> {
    let bits = getrandom::u64().map_err(std::io::Error::other)?;
    Ok(format!(".hivewright-{bits:016x}.tmp"))
}
