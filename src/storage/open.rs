//! The decision whether a store may be used.
//!
//! | found | decision |
//! |---|---|
//! | no folder, or an empty one | a fresh store |
//! | a folder that others can read, or that we can't | refused |
//! | files of the database missing or not ours | refused |
//! | in use by another process | refused |
//! | the database can't be opened, lacks our records or acknowledged commits, or pages can't be read | refused |
//! | a newer schema | refused, exit code 3 |
//! | an older schema | migrated after a backup |
//! | single damaged records | used; each read of one says so |
//!
//! sled repairs what it opens, and a repair of a damaged log destroys what could still be saved.
//! So after a crash a copy of its file is opened first, and the store itself only when the copy was found good. The file holds
//! what is open, so it is small. A store that was closed in order is opened in place (`clean_shutdown.rs`).

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    Home, OnProgress,
    build::{self, Builder},
    clean_shutdown::CleanShutdown,
    compact,
    database::{self, Database},
    envelope,
    error::OpenError,
    high_water_mark,
    migrate::{self, Schema},
    reserve,
    restore::Interrupted,
    sled::{guarded, standing},
    swap,
    tiers::TieredStorage,
};
use crate::{removal::if_there, settings::config::Durability};

/// How many records are read at start in any case, and for how long at most beyond that.
const CHECKED_RECORDS: usize = 1000;
const CHECK_TIME: Duration = Duration::from_millis(5);
/// What is written to see whether the disk can be: sled's snapshot is about as large.
const TRIED: usize = 64 * 1024;
/// What sled may write when it opens a store: its snapshot, and the segment that it goes on with.
const OPENING: usize = 2 * database::SEGMENT;
/// What the upper table of the pages takes in an open database.
const PAGE_TABLE: usize = 4 * 1024 * 1024;

/// What the check at start found.
struct Examined {
    schema: u16,
    damaged: Vec<String>,
}

/// Opens the store of a home, makes a fresh one if there is none, upgrades an older one.
pub fn open(
    home: &Home,
    durability: Durability,
    progress: OnProgress<'_>,
) -> Result<TieredStorage, OpenError> {
    let storage = open_as(home, durability, &Schema::CURRENT, progress)?;
    storage.cold.fill(progress).map_err(|error| OpenError::of_disk(&home.store, error))?;
    Ok(storage)
}

pub(super) fn open_as(
    home: &Home,
    durability: Durability,
    schema: &Schema<'_>,
    progress: OnProgress<'_>,
) -> Result<TieredStorage, OpenError> {
    let store = &home.store;
    let disk = |error| OpenError::of_disk(store, error);
    check_disk(store)?;
    if let Some(Interrupted { file, .. }) = Interrupted::find(store).map_err(disk)? {
        return Err(OpenError::HalfRestored { file });
    }
    let mut held: Vec<u8> = Vec::new();
    if is_absent(store).map_err(disk)? {
        create(store, schema.version).map_err(disk)?;
        held.reserve_exact(std::hint::black_box(PAGE_TABLE));
    }
    if let Some(storage) = open_in_place(store, durability, schema)? {
        return compacted(storage, store, durability);
    }
    let (examined, copy) = examine(store)?;
    for record in &examined.damaged {
        tracing::error!(record, "record is damaged and stays unread");
    }
    if examined.schema > schema.version {
        return Err(OpenError::Newer { found: examined.schema, known: schema.version });
    }
    let mut copy = Some(copy);
    if examined.schema < schema.version {
        copy = None;
        migrate::migrate(home, durability, schema, progress)?;
    }
    let storage = TieredStorage::attach(store, durability)?;
    // Closed after the store is open, whose page table of some megabytes would else lie where that of the copy was, or that
    // of a store which was just made: filled with zeros one by one, instead of being asked for as zeros that take no memory.
    thread::scope(|scope| {
        scope.spawn(move || drop((copy, held)));
        compacted(storage, store, durability)
    })
}

/// A store whose file is not much larger than what it holds. One that cannot be made so is used as it is.
fn compacted(
    storage: TieredStorage,
    store: &Path,
    durability: Durability,
) -> Result<TieredStorage, OpenError> {
    let disk = |error| OpenError::of_disk(store, error);
    if !compact::is_due(&storage, store).map_err(disk)? {
        return Ok(storage);
    }
    if let Err(error) = compact::compact(storage, store) {
        tracing::warn!(%error, "the file of the store stays larger than it need be");
    }
    TieredStorage::attach(store, durability)
}

/// Opens a store of this version that was closed in order; none if that is not known of it.
fn open_in_place(
    store: &Path,
    durability: Durability,
    schema: &Schema<'_>,
) -> Result<Option<TieredStorage>, OpenError> {
    let disk = |error| OpenError::of_disk(store, error);
    check_mode(store)?;
    let lock = database::lock(store).ok().flatten();
    if lock.is_none() || check_parameters(store).is_err() {
        return Ok(None);
    }
    let Some(closed) = CleanShutdown::take(store).map_err(disk)? else { return Ok(None) };
    drop(lock);
    let storage = TieredStorage::attach(store, durability)?;
    if storage.schema() != schema.version {
        return Ok(None);
    }
    let commits = storage.hot.writing().commits;
    // More than then are those by which it was tidied just now.
    if commits < closed.commits {
        let reason =
            format!("its log is damaged: commit {} of {} is its last", commits, closed.commits);
        return Err(OpenError::Unusable { path: store.to_path_buf(), reason });
    }
    Ok(Some(storage))
}

/// Tries to write beside the store, before anything is opened there: a database that cannot write looks
/// damaged.
pub fn check_disk(store: &Path) -> Result<(), OpenError> {
    let Some(beside) = store.parent().filter(|beside| beside.exists()) else { return Ok(()) };
    let tried = match try_to_write(beside, TRIED) {
        // What the store has allocated ahead is for such a start.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            // Without a store there is nothing to give back.
            let _ = reserve::release(&store.join("db"));
            try_to_write(beside, TRIED)
        }
        tried => tried,
    };
    tried.map_err(|error| OpenError::of_disk(store, error))
}

/// Writes to a file without a name, which is gone when it is closed.
fn try_to_write(folder: &Path, bytes: usize) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(handle) => {
            let mut file = fs::File::from(handle);
            io::Write::write_all(&mut file, &vec![0; bytes])
        }
        // Some file systems have none; they are not tried.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether there is nothing yet: no folder, or one that was made empty.
fn is_absent(store: &Path) -> io::Result<bool> {
    let entries = if_there(fs::read_dir(store))?;
    Ok(entries.is_none_or(|mut entries| entries.next().is_none()))
}

/// Makes an empty store. It gets its name when it is complete, so a crash leaves none.
fn create(store: &Path, schema: u16) -> io::Result<()> {
    let built = Builder::new(swap::beside(store, "building"), schema)?.finish()?;
    fs::rename(built, store)?;
    if let Some(parent) = store.parent() {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// A copy of a store that was found fit to use. Dropping it takes a while.
struct SoundCopy {
    // Dropped in this order.
    _database: Database,
    _folder: CopyFolder,
}

/// The folder of a copy, which goes with this.
struct CopyFolder(PathBuf);

impl Drop for CopyFolder {
    fn drop(&mut self) {
        if let Err(error) = build::remove(&self.0) {
            tracing::warn!(%error, "a copy of the store cannot be removed");
        }
    }
}

/// Finds out, without touching it, whether a store is fit to use.
fn examine(store: &Path) -> Result<(Examined, SoundCopy), OpenError> {
    let disk = |error| OpenError::of_disk(store, error);
    let unusable = |reason: String| OpenError::Unusable { path: store.to_path_buf(), reason };
    check_mode(store)?;
    check_parameters(store).map_err(unusable)?;
    let lock = database::lock(store).map_err(|error| unusable(format!("`db`: {error}")))?;
    let Some(lock) = lock else { return Err(OpenError::InUse { path: store.to_path_buf() }) };
    let folder = CopyFolder(swap::beside(store, "check"));
    let copied = build::copy_files(store, &folder.0);
    drop(lock);
    copied.map_err(disk)?;
    match guarded(|| inspect(&folder.0, high_water_mark::expected(store))).flatten() {
        Ok((examined, _database)) => Ok((examined, SoundCopy { _database, _folder: folder })),
        // A copy without room for what sled writes when it opens it looks damaged.
        Err(reason) => match try_to_write(&folder.0, OPENING).map_err(disk) {
            Err(full @ OpenError::Full { .. }) => Err(full),
            _ => Err(unusable(reason)),
        },
    }
}

fn check_mode(store: &Path) -> Result<(), OpenError> {
    let found = fs::metadata(store).map_err(|error| OpenError::of_disk(store, error))?;
    match found.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(OpenError::Exposed { path: store.to_path_buf() }),
    }
}

/// sled would take a missing or cut parameter file for a new database.
fn check_parameters(store: &Path) -> Result<(), String> {
    let found = fs::read(store.join("conf")).map_err(|error| format!("`conf`: {error}"))?;
    let expected = build::parameters();
    if found.len() == expected.len() + 4 && found.starts_with(expected.as_bytes()) {
        Ok(())
    } else {
        Err("`conf` is damaged or of another program".to_owned())
    }
}

/// Opens a copy of a store and reads from it.
fn inspect(copy: &Path, expected_commits: u64) -> Result<(Examined, Database), String> {
    let database = Database::open(copy).map_err(|error| error.to_string())?;
    if !database.was_recovered() {
        return Err("the database holds nothing that can be read".to_owned());
    }
    let (schema, commits) = standing(&database)?;
    if commits < expected_commits {
        return Err(format!(
            "its log is damaged: commits {} to {expected_commits} are missing",
            commits + 1
        ));
    }
    let began = Instant::now();
    let mut damaged = Vec::new();
    for (seen, record) in database.iter().enumerate() {
        if seen >= CHECKED_RECORDS && began.elapsed() > CHECK_TIME {
            break;
        }
        let (key, value) = record.map_err(|error| format!("a page cannot be read: {error}"))?;
        if envelope::open(&key, &value).is_err() {
            damaged.push(key.escape_ascii().to_string());
        }
    }
    Ok((Examined { schema, damaged }, database))
}
