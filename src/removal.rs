//! What goes: removal of a folder with all in it, whatever its programs did to it; folders that are removed when they are
//! dropped; and what may be gone already.
//!
//! A program can take away the rights to its own folders, and nest them deeper than a process has descriptors or stack. The
//! superuser is not stopped by the former; for anybody else such folders would stay for good.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::DirBuilderExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, fstat, openat, renameat, unlinkat},
    io::Errno,
};

/// What was done to something, if it is there.
pub(crate) fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// A folder among the temporary ones of the machine, for the owner alone. Nobody can guess its name, so nobody can have put
/// anything in its place. It goes with all in it when this is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(crate) fn new(purpose: &str) -> io::Result<Self> {
        let bits = getrandom::u64().map_err(io::Error::other)?;
        let path = std::env::temp_dir().join(format!("hivewright-{purpose}-{bits:016x}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a temporary folder stays behind; remove it");
        }
    }
}

/// Removes a folder with all in it. Follows no link. Blocks.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let top = open_up(CWD, path.as_os_str())?;
    let mut moved = 0;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            return fs::remove_dir(path);
        }
        for name in names {
            if is_removed(&top, &name)? {
                continue;
            }
            empty(&open_up(&top, &name)?, &top, &mut moved)?;
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// Removes the files of a folder, and moves its folders to the top, so that none is ever deep.
fn empty(folder: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    for name in names(folder)? {
        if is_removed(folder, &name)? {
            continue;
        }
        // A folder that cannot be written to cannot be moved.
        open_up(folder, &name)?;
        loop {
            *moved += 1;
            match renameat(folder, &name, top, moved.to_string()) {
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                done => break done?,
            }
        }
    }
    Ok(())
}

/// Removes an entry, unless it is a folder.
fn is_removed(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder, with the rights to look into it and to change it.
fn open_up(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
    if !Mode::from_raw_mode(fstat(&handle)?.st_mode).contains(Mode::RWXU) {
        // Such a handle needs no rights to the folder; its name here is the only one that cannot be replaced meanwhile.
        chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    }
    Ok(openat(&handle, c".", flags, Mode::empty())?)
}

/// The names in a folder.
pub(crate) fn names(folder: &OwnedFd) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;

    /// Does something without the rights of the superuser, who is refused nothing.
    pub(crate) fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        std::thread::scope(|scope| {
            let working = scope.spawn(|| {
                // Capabilities are of one thread.
                set_capabilities(None, none).unwrap();
                work()
            });
            working.join().unwrap()
        })
    }

    /// A folder with one that nobody may look into and one that nobody may change, in which files are.
    pub(crate) fn closed_folder(path: &Path) {
        for (name, mode) in [("closed", 0o000), ("fixed/deep", 0o555), ("fixed", 0o555)] {
            let folder = path.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), "x").unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    /// SC-56: in a folder that all users share, a name that can be guessed is another's to take.
    #[test]
    fn a_temporary_folder_is_new_private_and_not_to_be_guessed() {
        let folders = ["test", "test"].map(|purpose| TemporaryFolder::new(purpose).unwrap());

        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let modes = paths.each_ref().map(|folder| {
            let found = fs::metadata(folder).unwrap();
            found.permissions().mode() & 0o777
        });
        drop(folders);

        assert_eq!(modes, [0o700; 2]);
        assert_ne!(paths[0], paths[1]);
        let pid = std::process::id().to_string();
        assert!(paths.iter().all(|folder| !folder.ends_with(&pid) && !folder.exists()));
    }

    /// SC-45: foreign code may work in it too, and nothing of what is there may stay.
    #[test]
    fn a_temporary_folder_goes_whatever_was_done_to_those_in_it() {
        let folder = TemporaryFolder::new("test").unwrap();
        let path = folder.path().to_owned();
        closed_folder(&path);

        unprivileged(|| drop(folder));

        assert!(!path.exists());
    }

    /// TO-64, SC-45: what a program does to its folders does not keep them.
    #[test]
    fn a_folder_goes_whatever_was_done_to_those_in_it() {
        let place = tempfile::tempdir().unwrap();
        let (folder, beside) = (place.path().join("folder"), place.path().join("beside"));
        closed_folder(&folder);
        fs::write(folder.join("1"), "in the way").unwrap();
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("kept"), "").unwrap();
        symlink(&beside, folder.join("link")).unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 1_500).collect();
        fs::create_dir_all(folder.join(deep)).unwrap();

        let (plain, removed) =
            unprivileged(|| (fs::remove_dir_all(&folder).is_ok(), remove_tree(&folder)));

        removed.unwrap();
        assert!(!plain && !folder.exists() && beside.join("kept").exists());
        assert_eq!(remove_tree(&folder).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
