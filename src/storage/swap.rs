//! The one rename that puts a folder into use, and the names of what it replaced.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::time;

/// The path beside `folder` whose name has `suffix` after it.
pub(super) fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".");
    name.push(suffix);
    folder.with_file_name(name)
}

/// Gives a finished folder the name under which the replaced one will be kept.
///
/// Until [`exchange`] that name holds the new state, which is harmless: everything that is found under such a
/// name is a complete copy.
pub(super) fn stage(built: &Path, folder: &Path, kept_as: &str) -> io::Result<PathBuf> {
    let kept = beside(folder, &format!("{kept_as}-{}", time::compact_now()));
    fs::rename(built, &kept)?;
    Ok(kept)
}

/// Puts a staged folder into use. At every instant there is one folder under the name in use.
/// Returns whether one was there before, which is kept under the staged name.
pub(super) fn exchange(staged: &Path, folder: &Path) -> io::Result<bool> {
    let replaced = match renameat_with(CWD, staged, CWD, folder, RenameFlags::EXCHANGE) {
        Ok(()) => true,
        Err(rustix::io::Errno::NOENT) => {
            renameat_with(CWD, staged, CWD, folder, RenameFlags::NOREPLACE)?;
            false
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(parent) = folder.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(replaced)
}

/// Puts a finished folder into use. Returns where the replaced one is kept, unless there was nothing in it.
pub(super) fn swap(built: &Path, folder: &Path, kept_as: &str) -> io::Result<Option<PathBuf>> {
    let staged = stage(built, folder, kept_as)?;
    let is_replaced = exchange(&staged, folder)?;
    // It is removed if it is empty, and only then.
    Ok((is_replaced && fs::remove_dir(&staged).is_err()).then_some(staged))
}
