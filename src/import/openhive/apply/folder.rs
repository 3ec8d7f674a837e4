//! The folder of a team: copied without following links, with a file of ours in it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use hivewright_actors::store::records::Writes;

use super::{
    super::{
        plan::{FolderPlan, Marked, TeamPlan},
        plugins,
    },
    ApplyError, Work, disk,
    files::write_whole,
};
use crate::{
    settings::{home::create_private, scaffold},
    storage::folder::{self, Found},
};

/// What every folder of a team has.
const FOLDERS: [&str; 5] = ["org-rules", "team-rules", "skills", "subagents", "plugins"];

/// The file that is written anew.
const CONFIG: &str = "config.yaml";

impl Work<'_> {
    pub(super) fn folder(
        &mut self,
        team: &TeamPlan,
        folder: &Marked<FolderPlan>,
    ) -> Result<(), ApplyError> {
        let to = self.site.home.team(&team.place.name);
        let FolderPlan { from, config } = &folder.thing;
        if team.place.is_root() {
            // It may have been made at a start; what is there stays.
            copy(from, &to).map_err(disk(&to))?
        } else {
            let building = to.with_file_name(format!(".importing-{}", team.place.name));
            clear(&building).map_err(disk(&building))?;
            copy(from, &building).map_err(disk(&building))?;
            write_whole(&building.join(CONFIG), config.as_bytes()).map_err(disk(&building))?;
            fs::rename(&building, &to).map_err(disk(&to))?;
        }
        if team.place.is_root() && is_free(&to.join(CONFIG)) {
            write_whole(&to.join(CONFIG), config.as_bytes()).map_err(disk(&to))?;
        }
        let writes = self.mark(Writes::new(), &folder.mark, &team.place.name);
        self.commit(writes, 1)
    }
}

/// The main team's file is not there, or is still the shipped one.
fn is_free(path: &Path) -> bool {
    match fs::read_to_string(path) {
        Ok(text) => scaffold::is_shipped("main-team.yaml", &text),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies all but the team's file. Files that are there stay as they are.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for name in FOLDERS {
        private(&to.join(name))?;
    }
    folder::walk(from, Path::new(""), &mut |place, found| {
        let Some(place) = moved(place) else {
            return Ok(());
        };
        let target = to.join(place);
        match found {
            Found::Folder => private(&target),
            Found::File(file) => copy_file(&file, &target),
            Found::Link(_) => Ok(()),
        }
    })
}

fn private(path: &Path) -> io::Result<()> {
    create_private(path).map_err(io::Error::other)
}

/// Where something of the folder goes; none if it does not.
fn moved(place: &Path) -> Option<PathBuf> {
    if place == Path::new(CONFIG) {
        return None;
    }
    Some(match place.strip_prefix("plugins") {
        Ok(rest) => Path::new(plugins::FOLDER).join(rest),
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
