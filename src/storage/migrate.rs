//! Upgrades of a store to the schema this program knows.
//!
//! Forward only, after a backup, into a new store beside the old one, which is kept. Only the last
//! step, one rename, changes what is in use, so an interrupted upgrade leaves the old store and is begun anew.

use std::{
    fs::{self, File},
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use hivewright_actors::{
    storage::{Order, Storage, StorageError},
    store::keys::prefix_of,
};

use super::{
    Home, OnProgress, Unit, backup,
    build::{self, Builder},
    error::OpenError,
    parts::RESERVED,
    report, swap,
    tiers::TieredStorage,
};
use crate::settings::config::Durability;

/// How long a replaced store is kept after the first good start.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
const STARTED: &str = "started-since";

/// Brings one record from a version to the next; none drops it.
pub type Step = fn(key: &[u8], value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)>;

/// A version of the records, with the way to it.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    pub version: u16,
    /// The steps to it: the first one leads from version 1 to 2.
    pub steps: &'a [Step],
}

impl Schema<'static> {
    /// What this program reads and writes. Any change of a record's form that the program before could not
    /// read is a new version: with its step here, and with fixtures in `tests/fixtures/stores/`.
    pub const CURRENT: Self = Self { version: 3, steps: &[tokens_apart, archive_apart] };
}

/// Version 2: tokens have a kind of their own. They shared `grant` with approvals that were given in advance.
fn tokens_apart(key: &[u8], value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let id = key.strip_prefix(prefix_of("edge\0grant", &()).as_slice()).filter(|_| {
        let row: Option<serde_json::Value> = serde_json::from_slice(value).ok();
        row.is_some_and(|row| row.get("hash").is_some())
    });
    let key = match id {
        Some(id) => [&prefix_of("edge\0token", &()), id].concat(),
        None => key.to_vec(),
    };
    Some((key, value.to_vec()))
}

/// Version 3: what is over is in the archive, which is where the new store puts it.
fn archive_apart(key: &[u8], value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    Some((key.to_vec(), value.to_vec()))
}

pub(super) fn migrate(
    home: &Home,
    durability: Durability,
    schema: &Schema<'_>,
    progress: OnProgress<'_>,
) -> Result<(), OpenError> {
    let disk = |error| OpenError::Disk { path: home.store.clone(), error };
    let old = TieredStorage::attach(&home.store, durability)?;
    backup::create(&old, home, None, progress)?;
    let built = rebuild(&old, &home.store, schema, progress).map_err(disk)?;
    drop(old);
    let kept = swap::swap(&built, &home.store, "before").map_err(disk)?;
    tracing::info!(version = schema.version, ?kept, "store upgraded");
    Ok(())
}

/// Fills a new store with the upgraded records of an old one.
pub(super) fn rebuild(
    old: &TieredStorage,
    store: &Path,
    schema: &Schema<'_>,
    progress: OnProgress<'_>,
) -> io::Result<PathBuf> {
    let steps = schema.steps.get(usize::from(old.schema().saturating_sub(1))..).unwrap_or_default();
    let mut builder = Builder::new(swap::beside(store, "building"), schema.version)?;
    let total = old.records();
    let mut done = 0;
    let mut result = Ok(());
    let mut visit = |key: &[u8], value: Result<&[u8], StorageError>| {
        result = match value {
            Ok(value) => put_upgraded(&mut builder, steps, key, value),
            // A record that can't be read stays what it is, and each read of it goes on saying so.
            Err(_) => put_as_it_is(&mut builder, old, key),
        };
        done += 1;
        if result.is_ok() {
            result = report(progress, done, total, Unit::Records);
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    old.scan(b"", RESERVED, Order::Rising, &mut visit).map_err(io::Error::other)?;
    result?;
    builder.finish()
}

/// Takes a record over with the parts that it may stand in.
fn put_as_it_is(builder: &mut Builder, old: &TieredStorage, key: &[u8]) -> io::Result<()> {
    if old.hot.database.get(key)?.is_none() {
        // It is in the archive.
        return builder.put_sealed(key.to_vec(), old.salvage(key).unwrap_or_default());
    }
    for key in std::iter::once(Ok(key.to_vec())).chain(old.hot.part_keys(key)) {
        let key = key?;
        if let Some(sealed) = old.hot.database.get(&key)? {
            builder.put_sealed(key, sealed.to_vec())?;
        }
    }
    Ok(())
}

fn put_upgraded(builder: &mut Builder, steps: &[Step], key: &[u8], value: &[u8]) -> io::Result<()> {
    let first = Some((key.to_vec(), value.to_vec()));
    let upgraded = steps
        .iter()
        .try_fold(first, |record, step| record.map(|(key, value)| step(&key, &value)))
        .flatten();
    upgraded.map_or(Ok(()), |(key, value)| builder.put(&key, &value))
}

/// Removes replaced stores a day after the first good start since they were replaced.
/// To be called after each good start. Stores set aside as bad stay.
pub fn forget_replaced(home: &Home) -> io::Result<()> {
    let prefix = swap::beside(&home.store, "before-");
    let (Some(folder), Some(prefix)) = (home.store.parent(), prefix.file_name()) else {
        return Ok(());
    };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            continue;
        }
        match fs::metadata(entry.path().join(STARTED)) {
            Ok(started) => {
                let age = SystemTime::now().duration_since(started.modified()?);
                if age.is_ok_and(|age| age > KEPT) {
                    build::remove(&entry.path())?;
                }
            }
            Err(_) => drop(File::create(entry.path().join(STARTED))?),
        }
    }
    Ok(())
}
