//! Backups: the store at one commit, and the folders beside it, in one verified archive.

use std::{
    cell::Cell,
    ffi::OsStr,
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
    archive::{self, Manifest, Writer},
    error::BackupError,
    folder, report, reserve, stopped, swap,
    tiers::TieredStorage,
};
use crate::{removal::if_there, text::rough_size, time};

/// How many backups stay in the folder of regular ones.
const KEPT: usize = 7;
const PREFIX: &str = "hivewright-";
const SUFFIX: &str = ".tar.zst";
const PARTIAL: &str = "partial";
/// How hard records are compressed that wait to be packed.
const RECORDS_LEVEL: i32 = 1;
/// So much is written between two looks at what is free on the disk.
const LOOK_EVERY: u64 = 4 << 20;
/// The most characters of a name.
const LONGEST_NAME: usize = 64;
/// After this time nobody works on an unfinished backup any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub file: PathBuf,
    /// What of the folders could not be read, or is not for a backup, and why: a line for each.
    pub left_out: Vec<String>,
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
) -> Result<Made, BackupError> {
    if file.is_none_or(|file| file.starts_with(&home.backups)) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&home.backups)?;
    }
    let made = match file {
        Some(file) => file.to_owned(),
        None => home.backups.join(next_name(&home.backups)?),
    };
    refuse_existing(&made)?;
    let partial = Partial::new(&made)?;
    let begun = SystemTime::now();
    write(storage, home, &partial, progress)?;
    let left_out = archive::verify(&partial.path, progress)?.left_out;
    for line in &left_out {
        tracing::warn!("left out of the backup: {line}");
    }
    // It holds what was redacted while it was written, so it bears the time from before.
    if let Err(error) = partial.file.set_modified(begun) {
        tracing::warn!(path = %made.display(), %error, "a backup bears the time of its end");
    }
    give_name(&partial.path, &made)?;
    if file.is_none() {
        forget_old(&home.backups, &made)?;
    }
    Ok(Made { file: made, left_out })
}

/// The name of a regular backup that is made now: behind all others, whatever the clock says.
fn next_name(folder: &Path) -> io::Result<String> {
    let newest = list(folder)?.into_iter().next();
    let newest = newest.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
    let moment = newest.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    Ok(format!("{PREFIX}{}{SUFFIX}", time::compact_now_behind(moment.unwrap_or_default())))
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
    let Some(entries) = if_there(fs::read_dir(folder))? else { return Ok(Vec::new()) };
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
    let mut files: Vec<_> = all.filter(|file| is_regular(file)).collect();
    // The names hold the moment, so they sort by it.
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files)
}

fn is_regular(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// The newest regular backup that is good, read whole to find out.
pub fn newest_verified(
    folder: &Path,
    progress: OnProgress<'_>,
) -> io::Result<Option<(PathBuf, Manifest)>> {
    let is_stopped = Cell::new(false);
    let progress = |step| progress(step).map_break(|()| is_stopped.set(true));
    for file in list(folder)? {
        match archive::verify(&file, &progress) {
            Ok(manifest) => return Ok(Some((file, manifest))),
            Err(_) if is_stopped.get() => return Err(stopped()),
            Err(error) => {
                tracing::warn!(path = %file.display(), %error, "a backup cannot be used, and is passed over")
            }
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
    let created = time::compact_now();
    let (count, size) = write_records(storage, &records.file, home.free_space, progress)?;

    let mut total = 0;
    for (name, path) in &home.folders {
        folder::walk(path, Path::new(name), &mut |_, _| {
            total += 1;
            Ok(())
        })?;
    }
    let mut writer = Writer::new(BufWriter::new(Floored::new(&partial.file, home.free_space)))?;
    writer.add_records(size, zstd::Decoder::new(File::open(&records.path)?)?)?;
    drop(records);
    let mut done = 0;
    for (name, path) in &home.folders {
        folder::walk(path, Path::new(name), &mut |path, found| {
            done += 1;
            // Files may have been added since they were counted.
            report(progress, done, u64::max(total, done), Unit::Files)?;
            writer.add(path, found).map_err(|error| folder::at(path, &error))
        })?;
    }
    writer
        .finish(created, count)?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .file
        .sync_all()?;
    Ok(())
}

/// Writes the records of a store compressed. Returns how many there are, and how many bytes they have in full.
fn write_records(
    storage: &TieredStorage,
    file: &File,
    floor: u64,
    progress: OnProgress<'_>,
) -> io::Result<(u64, u64)> {
    let out = BufWriter::new(Floored::new(file, floor));
    let mut out = Counted { out: zstd::Encoder::new(out, RECORDS_LEVEL)?, bytes: 0 };
    let count = storage.export(&mut out, progress)?;
    out.out.finish()?.flush()?;
    Ok((count, out.bytes))
}

/// Keeps the one that was just made and the newest before it. Their names may lie: the clock may have been set back since.
fn forget_old(folder: &Path, made: &Path) -> io::Result<()> {
    let regular =
        list_all(folder)?.into_iter().map(|(file, ..)| file).filter(|file| is_regular(file));
    for file in regular.filter(|file| file != made).skip(KEPT - 1) {
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

/// Writes to a file as long as its disk keeps room for others.
struct Floored<'a> {
    file: &'a File,
    /// Bytes that must stay free.
    floor: u64,
    /// Bytes until the next look at the disk.
    unwatched: u64,
}

impl<'a> Floored<'a> {
    fn new(file: &'a File, floor: u64) -> Self {
        Self { file, floor, unwatched: 0 }
    }
}

impl Write for Floored<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unwatched == 0 {
            let free = reserve::free(self.file)?;
            if free < self.floor + LOOK_EVERY {
                let (free, floor) = (rough_size(free), rough_size(self.floor));
                let reason = format!(
                    "the disk has {free} left, and {floor} stay free (`limits.free_space`); make room, or set \
                     `backup.dir` to another disk"
                );
                return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
            }
            self.unwatched = LOOK_EVERY;
        }
        let written = self.file.write(bytes)?;
        self.unwatched = self.unwatched.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Counts what is written through it.
struct Counted<Out> {
    out: Out,
    bytes: u64,
}

impl<Out: Write> Write for Counted<Out> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
