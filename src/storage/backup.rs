//! Backups: the store at one commit, and the folders beside it, in one verified archive.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Home, IsStopped, OnProgress, Progress, Unit,
    archive::{self, ArchiveError, RECORDS, Writer},
    folder::{self, Found},
    sled::SledStorage,
    swap,
};

/// How many backups stay in the folder of regular ones.
const KEPT: usize = 7;
const PREFIX: &str = "hivewright-";
const SUFFIX: &str = ".tar.zst";
const PARTIAL: &str = "partial";
/// After this time nobody works on an unfinished backup any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The disk or the store refused.
    #[error("the backup cannot be written: {0}")]
    Write(#[from] io::Error),
    /// It was written and cannot be read back.
    #[error("the backup was written and is not good: {0}")]
    Verify(#[from] ArchiveError),
}

/// Makes a backup in the folder of regular ones, where the newest seven stay.
pub fn create(
    storage: &SledStorage,
    home: &Home,
    progress: OnProgress<'_>,
) -> Result<PathBuf, BackupError> {
    create_unless(storage, home, None, progress, &|| false)
}

/// Makes a backup in a file of its own, or in the folder of regular ones, until it is to stop: then
/// nothing of it is left.
///
/// It gets its name once it was read back whole and found good. Blocks for long: not for an arbiter.
pub fn create_unless(
    storage: &SledStorage,
    home: &Home,
    file: Option<&Path>,
    progress: OnProgress<'_>,
    is_stopped: IsStopped<'_>,
) -> Result<PathBuf, BackupError> {
    if let Some(file) = file {
        place(storage, home, file, progress, is_stopped)?;
        return Ok(file.to_owned());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&home.backups)?;
    let name = format!("{PREFIX}{}{SUFFIX}", swap::moment()?);
    let file = home.backups.join(name);
    place(storage, home, &file, progress, is_stopped)?;
    forget_old(&home.backups)?;
    Ok(file)
}

/// Makes a backup in a file of its own.
pub fn create_at(
    storage: &SledStorage,
    home: &Home,
    file: &Path,
    progress: OnProgress<'_>,
) -> Result<(), BackupError> {
    place(storage, home, file, progress, &|| false)
}

fn place(
    storage: &SledStorage,
    home: &Home,
    file: &Path,
    progress: OnProgress<'_>,
    is_stopped: IsStopped<'_>,
) -> Result<(), BackupError> {
    let partial = Partial::new(swap::beside(file, PARTIAL))?;
    write(storage, home, &partial, progress, is_stopped)?;
    archive::verify_unless(&partial.path, progress, is_stopped)?;
    fs::rename(&partial.path, file)?;
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

/// The regular backups, newest first.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            files.push(entry.path());
        }
    }
    // The names hold the moment, so they sort by it.
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files)
}

/// The newest regular backup that is good, read whole to find out.
pub fn newest_verified(
    folder: &Path,
    progress: OnProgress<'_>,
    is_stopped: IsStopped<'_>,
) -> io::Result<Option<PathBuf>> {
    for file in list(folder)? {
        match archive::verify_unless(&file, progress, is_stopped) {
            Ok(_) => return Ok(Some(file)),
            Err(_) if is_stopped() => return Err(super::stopped()),
            Err(error) => tracing::warn!(file = %file.display(), %error, "backup passed over"),
        }
    }
    Ok(None)
}

fn write(
    storage: &SledStorage,
    home: &Home,
    partial: &Partial,
    progress: OnProgress<'_>,
    is_stopped: IsStopped<'_>,
) -> Result<(), BackupError> {
    // A member's length stands before it, so the records are written down before they are packed.
    let records = Partial::new(swap::beside(&partial.path, "records"))?;
    let mut out = Stoppable {
        inner: BufWriter::new(&records.file),
        is_stopped,
    };
    let created = swap::moment()?;
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
    let unit = Unit::Files;
    for (name, path) in &home.folders {
        folder::walk(path, Path::new(name), &mut |path, found| {
            done += 1;
            // Files may have been added since they were counted.
            let total = u64::max(total, done);
            progress(Progress { done, total, unit });
            if is_stopped() {
                return Err(super::stopped());
            }
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
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.contains(PARTIAL) {
            let age = entry.metadata()?.modified()?.elapsed();
            if age.is_ok_and(|age| age > ABANDONED) {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Takes nothing more once it is to stop.
struct Stoppable<'a, W> {
    inner: W,
    is_stopped: IsStopped<'a>,
}

impl<W: Write> Write for Stoppable<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.is_stopped)() {
            true => Err(super::stopped()),
            false => self.inner.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file that is not complete. It goes when dropped, unless it was renamed.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn new(path: PathBuf) -> io::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the rename it is gone from here, which is as it should be.
        let _gone = fs::remove_file(&self.path);
    }
}
