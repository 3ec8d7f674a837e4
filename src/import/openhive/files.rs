//! Files that an import writes: each whole or not at all. Folders of teams are copied without following links, each with a
//! file of ours in it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use super::{
    report::Kind,
    target::{MAIN_FILE, is_free},
};
use crate::{
    removal::if_there,
    settings::{
        home::{Home, TEAM_FILE as CONFIG, create_private},
        replace::replace,
        scaffold,
    },
    storage::folder::{self, Found},
};

/// A file of a team's folder, or the folder.
pub(super) const KIND: Kind = Kind::listed("file");

/// Where the sources of a team's tools go, in its folder.
pub(super) const SOURCES: &str = "plugins/imported";

#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be written", path.display())]
pub struct DiskError {
    path: PathBuf,
    source: io::Error,
}

fn disk(path: &Path) -> impl Fn(io::Error) -> DiskError {
    move |source| DiskError { path: path.to_owned(), source }
}

/// Writes a file for the owner alone.
pub(super) fn write_file(path: &Path, text: impl AsRef<[u8]>) -> Result<(), DiskError> {
    replace(path, path.parent().unwrap_or(Path::new(".")), text).map_err(disk(path))
}

#[derive(Clone, Debug)]
pub(super) struct FolderCopy {
    /// What the team is called here.
    pub(super) team: String,
    pub(super) is_main: bool,
    pub(super) from: PathBuf,
    /// What its file says here.
    pub(super) config: String,
}

impl FolderCopy {
    /// Copies the folder: whole or not at all, but that of the main team, which may have been made at a
    /// start. What is there of it stays.
    pub(super) fn make(&self, home: &Home) -> Result<(), DiskError> {
        let to = home.team(&self.team);
        if self.is_main {
            copy(&self.from, &to).map_err(disk(&to))?;
            let config = to.join(CONFIG);
            let is_free = is_free(&config, MAIN_FILE);
            return if is_free { write_file(&config, &self.config) } else { Ok(()) };
        }
        let building = to.with_file_name(format!(".importing-{}", self.team));
        if_there(fs::remove_dir_all(&building)).map_err(disk(&building))?;
        copy(&self.from, &building).map_err(disk(&building))?;
        write_file(&building.join(CONFIG), &self.config)?;
        fs::rename(&building, &to).map_err(disk(&to))
    }
}

/// Copies all but the team's file. Files that are there stay as they are.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    scaffold::furnish(to).map_err(io::Error::other)?;
    folder::walk(from, Path::new(""), &mut |path, found| {
        let Some(place) = moved(path) else {
            return Ok(());
        };
        let target = to.join(place);
        match found {
            Found::Folder => create_private(&target).map_err(io::Error::other),
            Found::File(file) => copy_file(&file, &target),
            Found::Link(_) => Ok(()),
            Found::Unread(error) => Err(folder::at(&from.join(path), &error)),
        }
    })
}

/// Where something of the folder goes; none if it does not.
fn moved(place: &Path) -> Option<PathBuf> {
    if place == Path::new(CONFIG) {
        return None;
    }
    Some(match place.strip_prefix("plugins") {
        Ok(rest) => Path::new(SOURCES).join(rest),
        Err(_) => place.to_owned(),
    })
}

fn copy_file(mut file: &File, target: &Path) -> io::Result<()> {
    let runs = file.metadata()?.permissions().mode() & 0o100 != 0;
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(if runs { 0o700 } else { 0o600 })
        .open(target);
    match made {
        Ok(mut made) => {
            io::copy(&mut file, &mut made)?;
            made.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OR-29
    #[test]
    fn a_folder_is_copied_without_links_and_tools_are_put_aside() {
        let source = tempfile::tempdir().unwrap();
        let target = tempfile::tempdir().unwrap();
        let (from, to) = (source.path(), target.path().join("copy"));
        for (name, text) in [
            (CONFIG, "credentials: {A: secret}"),
            ("plugins/lookup.ts", "export"),
            ("notes/deep/one.txt", "1"),
            ("run.sh", "#!/bin/sh"),
        ] {
            let file = from.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::set_permissions(from.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/etc", from.join("etc")).unwrap();

        copy(from, &to).unwrap();

        assert!(!to.join(CONFIG).exists() && !to.join("etc").exists());
        let text = |name: &str| fs::read_to_string(to.join(name)).unwrap();
        assert_eq!(text("plugins/imported/lookup.ts"), "export");
        assert!(!to.join("plugins/lookup.ts").exists());
        assert_eq!(text("notes/deep/one.txt"), "1");
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("run.sh"), mode("notes/deep/one.txt")), (0o700, 0o600));
        assert!(to.join("skills").is_dir());
    }
}
