//! Backups: the store at one commit, and the folders beside it, in one verified archive.

use std::{
    cell::Cell,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use super::{
    Home, OnProgress, Unit,
    archive::{self, ArchiveError, RECORDS, Writer},
    folder::{self, Found},
    report, stopped, swap,
    tiers::TieredStorage,
};
use crate::time;

/// How many backups stay in the folder of regular ones.
const KEPT: usize = 7;
const PREFIX: &str = "hivewright-";
const SUFFIX: &str = ".tar.zst";
const PARTIAL: &str = "partial";
/// The most characters of a name.
const LONGEST_NAME: usize = 64;
/// After this time nobody works on an unfinished backup any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    #[error("the backup cannot be written: {0}")]
    Write(#[from] io::Error),
    #[error("the backup was written and is not good: {0}")]
    Verify(#[from] ArchiveError),
    #[error("`{}` is there already, and a backup replaces nothing; give another name", .0.display())]
    Exists(PathBuf),
}

/// The name of a backup that somebody asked for, in the folder of regular ones, where it stays until
/// it is deleted by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupName(String);

impl BackupName {
    /// What a name looks like, for people.
    pub const FORM: &str = "a name has 1 to 64 of `A-Z a-z 0-9 . _ -`, begins with a letter or digit, and not with `hivewright-`";

    /// The name, if it is one: no path, and none that regular backups have.
    pub fn new(name: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
        let is_good = begins && name.len() <= LONGEST_NAME && name.bytes().all(plain);
        (is_good && !name.starts_with(PREFIX)).then(|| Self(name.to_owned()))
    }

    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}{SUFFIX}", self.0))
    }
}

/// Makes a backup in a file of its own, or in the folder of regular ones, where the newest seven stay. One that
/// is stopped leaves nothing.
///
/// It gets its name once it was read back whole and found good. Blocks for long: not for an arbiter.
pub fn create(
    storage: &TieredStorage,
    home: &Home,
    file: Option<&Path>,
    progress: OnProgress<'_>,
) -> Result<PathBuf, BackupError> {
    if file.is_none_or(|file| file.starts_with(&home.backups)) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&home.backups)?;
    }
    let regular = format!("{PREFIX}{}{SUFFIX}", time::compact_now());
    let made = file.map_or_else(|| home.backups.join(regular), Path::to_owned);
    refuse_existing(&made)?;
    let partial = Partial::new(&made)?;
    write(storage, home, &partial, progress)?;
    archive::verify(&partial.path, progress)?;
    give_name(&partial.path, &made)?;
    if file.is_none() {
        forget_old(&home.backups)?;
    }
    Ok(made)
}

/// Moves a finished backup, also to another disk, and replaces nothing there.
pub fn move_to(made: &Path, file: &Path) -> Result<(), BackupError> {
    match give_name(made, file) {
        Err(BackupError::Write(error)) if error.kind() == io::ErrorKind::CrossesDevices => {}
        moved => return moved,
    }
    let partial = Partial::new(file)?;
    io::copy(&mut File::open(made)?, &mut &partial.file)?;
    partial.file.sync_all()?;
    give_name(&partial.path, file)?;
    fs::remove_file(made)?;
    Ok(())
}

/// Says early that the place is taken; whether it is in the end, `give_name` finds out.
pub fn refuse_existing(file: &Path) -> Result<(), BackupError> {
    match file.symlink_metadata() {
        Ok(_) => Err(BackupError::Exists(file.to_owned())),
        Err(_) => Ok(()),
    }
}

/// Renames, unless the name is taken.
fn give_name(from: &Path, file: &Path) -> Result<(), BackupError> {
    let taken = || BackupError::Exists(file.to_owned());
    match renameat_with(CWD, from, CWD, file, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(taken()),
        // Some file systems cannot rename so: there the name is taken first.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let claim = OpenOptions::new().write(true).create_new(true).open(file);
            claim.map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => taken(),
                _ => error.into(),
            })?;
            fs::rename(from, file)?;
        }
        Err(error) => return Err(io::Error::from(error).into()),
    }
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

/// All backups in the folder of regular ones, those with a name included, newest first, with size and
/// time.
pub fn list_all(folder: &Path) -> io::Result<Vec<(PathBuf, u64, SystemTime)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let known = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        // One that is gone since has made room for a newer one.
        let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let is_backup = entry.file_name().to_string_lossy().ends_with(SUFFIX);
        is_backup.then_some((entry.path(), found.len(), found.modified().ok()?))
    });
    let mut known: Vec<_> = known.collect();
    known.sort_unstable_by(|(a, _, one), (b, _, two)| (two, b).cmp(&(one, a)));
    Ok(known)
}

/// The regular backups, newest first.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let all = list_all(folder)?.into_iter().map(|(path, ..)| path);
    let is_regular = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    };
    let mut files: Vec<_> = all.filter(is_regular).collect();
    // The names hold the moment, so they sort by it.
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files)
}

/// The newest regular backup that is good, read whole to find out.
pub fn newest_verified(folder: &Path, progress: OnProgress<'_>) -> io::Result<Option<PathBuf>> {
    let is_stopped = Cell::new(false);
    let progress = |step| progress(step).map_break(|()| is_stopped.set(true));
    for file in list(folder)? {
        match archive::verify(&file, &progress) {
            Ok(_) => return Ok(Some(file)),
            Err(_) if is_stopped.get() => return Err(stopped()),
            Err(error) => tracing::warn!(file = %file.display(), %error, "backup passed over"),
        }
    }
    Ok(None)
}

fn write(
    storage: &TieredStorage,
    home: &Home,
    partial: &Partial,
    progress: OnProgress<'_>,
) -> Result<(), BackupError> {
    // A member's length stands before it, so the records are written down before they are packed.
    let records = Partial::new(&partial.path)?;
    let mut out = BufWriter::new(&records.file);
    let created = time::compact_now();
    let count = storage.export(&mut out, progress)?;
    out.flush()?;
    drop(out);

    let mut total = 0;
    for (name, path) in &home.folders {
        folder::walk(path, Path::new(name), &mut |_, _| {
            total += 1;
            Ok(())
        })?;
    }
    let mut writer = Writer::new(BufWriter::new(&partial.file))?;
    writer.add(Path::new(RECORDS), Found::File(File::open(&records.path)?))?;
    let mut done = 0;
    for (name, path) in &home.folders {
        folder::walk(path, Path::new(name), &mut |path, found| {
            done += 1;
            // Files may have been added since they were counted.
            report(progress, done, u64::max(total, done), Unit::Files)?;
            writer.add(path, found)
        })?;
    }
    writer
        .finish(created, count)?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()?;
    Ok(())
}

fn forget_old(folder: &Path) -> io::Result<()> {
    for file in list(folder)?.iter().skip(KEPT) {
        fs::remove_file(file)?;
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().contains(&format!("{SUFFIX}.{PARTIAL}")) {
            let age = entry.metadata()?.modified()?.elapsed();
            if age.is_ok_and(|age| age > ABANDONED) {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// A file that is not complete. It goes when dropped, unless it was renamed.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// Beside the file that it is to become, under a name that nobody has.
    fn new(file: &Path) -> io::Result<Self> {
        let bits = getrandom::u64().map_err(io::Error::other)?;
        let path = swap::beside(file, &format!("{PARTIAL}-{bits:016x}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the rename it is gone from here, which is as it should be.
        let _gone = fs::remove_file(&self.path);
    }
}
