//! The file boundary of a team: paths are opened by the kernel beneath directory handles, never checked as text.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use self::{governance::Class, walk::Folder};
use crate::settings::{folder_access::Access, team::AllowedDir};

pub mod governance;
#[cfg(test)]
mod tests;
pub mod walk;
pub mod write;

/// How often an open is tried again when the kernel saw a rename on the way.
const TRIES: usize = 128;

/// Why a path was not opened or written. Paths are shown as the caller wrote them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    #[error("Access denied: {0} is outside the workspace")]
    Outside(String),
    #[error("Governance: write blocked for {class} path: {path}")]
    Governed { class: Class, path: String },
    /// The path lies in a folder that was given for reading.
    #[error("Access denied: {0} is in a read-only folder")]
    ReadOnly(String),
    #[error("{0} does not exist")]
    NotFound(String),
    #[error("{path} is {kind}, not a regular file")]
    NotAFile { path: String, kind: &'static str },
    #[error("{0} is not a folder")]
    NotAFolder(String),
    #[error("{reason}")]
    Invalid { reason: &'static str },
    #[error("{0} kept changing while it was being opened")]
    Unsettled(String),
    /// A rule forbids the place that the path leads to.
    #[error("{0}")]
    Denied(String),
    /// A person decides on the place, and would be shown another one.
    #[error("{path} leads over a link to {real}, which asks a person; name that path itself")]
    Elsewhere { path: String, real: String },
    #[error("{path} cannot be used: {source}")]
    Io { path: String, source: io::Error },
}

/// Judges the real path of what was opened, or of the file that is to be written. What it lets pass is used
/// through the very handle it was asked about: no link swapped in later leads elsewhere.
pub type Guard<'a> = &'a dyn Fn(&Path) -> Result<(), WorkspaceError>;

/// Lets everything in the team's folders pass.
#[cfg(test)]
fn unguarded(_: &Path) -> Result<(), WorkspaceError> {
    Ok(())
}

/// One folder that a team may use, held open.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Where it really is, without links.
    real: PathBuf,
    handle: OwnedFd,
    access: Access,
}

/// The folders of one team: its workspace first, then what the operator allowed.
#[derive(Debug)]
pub struct Workspace {
    roots: Vec<Root>,
}

#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    pub size: u64,
    pub path: PathBuf,
}

impl Workspace {
    /// Opens the workspace and the folders allowed beside it.
    pub fn open(path: &Path, allowed: &[AllowedDir]) -> Result<Self, WorkspaceError> {
        let mut roots = vec![Root::open(path, Access::ReadWrite)?];
        for dir in allowed {
            roots.push(Root::open(&dir.path, dir.access)?);
        }
        Ok(Self { roots })
    }

    /// The folder that relative paths start from.
    pub fn path(&self) -> &Path {
        &self.roots[0].path
    }

    /// The same folder, without links on the way.
    pub fn real_path(&self) -> &Path {
        &self.roots[0].real
    }

    /// The real path that a path has if no link is on its way; none if it is in no folder of the team.
    pub fn named_place(&self, path: &str) -> Option<PathBuf> {
        let (root, relative) = self.locate(path).ok()?;
        Some(plain(&root.real.join(relative)))
    }

    /// Every root with its open handle, the workspace first.
    pub fn roots(&self) -> impl Iterator<Item = (&Path, BorrowedFd<'_>, Access)> {
        self.roots.iter().map(|root| (root.path.as_path(), root.handle.as_fd(), root.access))
    }

    /// The real path of every root, the workspace first.
    pub fn real_roots(&self) -> impl Iterator<Item = (&Path, Access)> {
        self.roots.iter().map(|root| (root.real.as_path(), root.access))
    }

    /// The path speaks of the workspace, not of a folder beside it.
    pub fn is_own(&self, path: &str) -> bool {
        self.locate(path).is_ok_and(|(root, _)| std::ptr::eq(root, &raw const self.roots[0]))
    }

    /// Opens a regular file for reading, if the guard lets it.
    pub fn open_file(&self, path: &str, guard: Guard<'_>) -> Result<OpenFile, WorkspaceError> {
        let (root, relative) = self.locate(path)?;
        // Without O_NONBLOCK a FIFO would hold the open until somebody writes.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = open_beneath(root.handle.as_fd(), &relative, flags, Mode::empty())
            .map_err(|errno| refused(path, errno))?;
        let stat = rustix::fs::fstat(&handle).map_err(|errno| refused(path, errno))?;
        regular(path, FileType::from_raw_mode(stat.st_mode))?;
        let real = place(path, &handle)?;
        guard(&real)?;
        Ok(OpenFile {
            file: handle.into(),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            path: real,
        })
    }

    /// Opens a folder to look through, if the guard lets it.
    pub fn open_dir(&self, path: &str, guard: Guard<'_>) -> Result<Folder, WorkspaceError> {
        let (root, relative) = self.locate(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = open_beneath(root.handle.as_fd(), &relative, flags, Mode::empty())
            .map_err(|errno| refused(path, errno))?;
        let real = place(path, &handle)?;
        guard(&real)?;
        let shown: PathBuf = root.path.join(&relative).components().collect();
        Ok(Folder::new(handle, shown, real))
    }

    /// The root a path speaks of, and the rest of the path. Only names the place: the kernel judges it.
    fn locate(&self, path: &str) -> Result<(&Root, PathBuf), WorkspaceError> {
        if path.is_empty() {
            return Err(WorkspaceError::Invalid { reason: "the path is empty" });
        }
        let asked = Path::new(path);
        let (root, rest) = if asked.is_absolute() {
            self.roots
                .iter()
                .filter_map(|root| Some((root, asked.strip_prefix(&root.path).ok()?)))
                .max_by_key(|(root, _)| root.path.components().count())
                .ok_or_else(|| WorkspaceError::Outside(path.to_owned()))?
        } else {
            (&self.roots[0], asked)
        };
        let rest: PathBuf =
            rest.components().filter(|part| !matches!(part, Component::CurDir)).collect();
        // `dir/` and `dir/.` mean the folder, which `components` would take for a file's name.
        let rest =
            if path.ends_with('/') && !rest.as_os_str().is_empty() { rest.join("") } else { rest };
        Ok((root, rest))
    }
}

impl Root {
    fn open(path: &Path, access: Access) -> Result<Self, WorkspaceError> {
        let shown = path.display().to_string();
        if !path.is_absolute() {
            return Err(WorkspaceError::Invalid {
                reason: "a folder of a team must be given as an absolute path",
            });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| refused(&shown, errno))?;
        Ok(Self {
            path: path.components().collect(),
            real: real_path(handle.as_fd()).map_err(|source| io_error(&shown, source))?,
            handle,
            access,
        })
    }
}

/// Whether this kernel can open a path that stays beneath a folder.
pub fn can_resolve_beneath(folder: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(folder, flags, Mode::empty())?;
    open_beneath(handle.as_fd(), Path::new("."), flags, Mode::empty())?;
    Ok(())
}

/// Opens a path that stays beneath `dir`, whatever links or renames happen on the way.
fn open_beneath(
    dir: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, relative, flags | OFlags::CLOEXEC, mode, resolve) {
            // The kernel could not be sure that a `..` stayed inside while something was renamed.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Without `.` and `..`, by the letter.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// The real path of what a path led to. What is gone by now has none.
fn place(path: &str, handle: &OwnedFd) -> Result<PathBuf, WorkspaceError> {
    if rustix::fs::fstat(handle).map_err(|errno| refused(path, errno))?.st_nlink == 0 {
        return Err(WorkspaceError::NotFound(path.to_owned()));
    }
    real_path(handle.as_fd()).map_err(|source| io_error(path, source))
}

/// Where an open handle really is.
fn real_path(handle: BorrowedFd<'_>) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

fn regular(path: &str, kind: FileType) -> Result<(), WorkspaceError> {
    let kind = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(WorkspaceError::NotAFile { path: path.to_owned(), kind })
}

fn io_error(path: &str, source: io::Error) -> WorkspaceError {
    WorkspaceError::Io { path: path.to_owned(), source }
}

fn refused(path: &str, errno: Errno) -> WorkspaceError {
    match errno {
        Errno::XDEV => WorkspaceError::Outside(path.to_owned()),
        Errno::NOENT => WorkspaceError::NotFound(path.to_owned()),
        Errno::NOTDIR => WorkspaceError::NotAFolder(path.to_owned()),
        Errno::AGAIN => WorkspaceError::Unsettled(path.to_owned()),
        Errno::NAMETOOLONG => WorkspaceError::Invalid { reason: "the path is too long" },
        Errno::INVAL if path.contains('\0') => {
            WorkspaceError::Invalid { reason: "the path holds a NUL byte" }
        }
        Errno::NXIO => {
            WorkspaceError::NotAFile { path: path.to_owned(), kind: "a socket or a device" }
        }
        errno => io_error(path, errno.into()),
    }
}
