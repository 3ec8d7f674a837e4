//! Source files of a team's tools, in `plugins/` of its folder: the one in use and the last versions.
//!
//! Everything here blocks. No link is followed: a team cannot write there, and still nothing leads elsewhere.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use crate::sandbox::workspace::{Workspace, governance::GOVERNED_DIR};

/// The largest source, in bytes.
pub(super) const LARGEST: usize = 64 << 10;
/// Where earlier versions are.
const VERSIONS: &str = "versions";

/// The path of a tool's source in its team's folder.
pub(super) fn path(tool: &str) -> String {
    format!("{GOVERNED_DIR}/{tool}.js")
}

/// The folders of a team's tools.
pub(super) struct Sources {
    current: OwnedFd,
    versions: OwnedFd,
}

impl Sources {
    pub(super) fn open(workspace: &Workspace) -> io::Result<Self> {
        let Some((_, root, _)) = workspace.roots().next() else {
            return Err(io::Error::other("the team has no folder"));
        };
        let current = folder(root, GOVERNED_DIR)?;
        let versions = folder(&current, VERSIONS)?;
        Ok(Self { current, versions })
    }

    /// The source that is in use.
    pub(super) fn read(&self, tool: &str) -> io::Result<String> {
        read(&self.current, &format!("{tool}.js"))
    }

    pub(super) fn read_version(&self, tool: &str, version: u32) -> io::Result<String> {
        read(&self.versions, &format!("{tool}@{version}.js"))
    }

    /// Keeps a version. It is not in use yet.
    pub(super) fn keep(&self, tool: &str, version: u32, source: &str) -> io::Result<()> {
        write(&self.versions, &format!("{tool}@{version}.js"), source)
    }

    /// Puts a source into use, whole or not at all.
    pub(super) fn place(&self, tool: &str, source: &str) -> io::Result<()> {
        write(&self.current, &format!("{tool}.js"), source)
    }

    /// Forgets a version, and all before it.
    pub(super) fn forget(&self, tool: &str, last: u32) -> io::Result<()> {
        for version in (1..=last).rev() {
            let name = format!("{tool}@{version}.js");
            match rustix::fs::unlinkat(&self.versions, name, AtFlags::empty()) {
                Ok(()) => {}
                // So are those before it.
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Removes a tool with all its versions.
    pub(super) fn remove(&self, tool: &str, newest: u32) -> io::Result<()> {
        remove(&self.current, &format!("{tool}.js"))?;
        (1..=newest).try_for_each(|version| remove(&self.versions, &format!("{tool}@{version}.js")))
    }
}

fn folder(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

fn read(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is no file"));
    }
    let mut text = String::new();
    file.take(LARGEST as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn write(folder: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let new = format!(".{name}.new");
    remove(folder, &new)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(folder, &*new, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(handle);
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    rustix::fs::renameat(folder, &*new, folder, name)?;
    rustix::fs::fsync(folder)?;
    Ok(())
}

fn remove(folder: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
