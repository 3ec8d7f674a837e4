//! The store on a real disk, whole: used, killed, damaged, backed up, restored, upgraded.

mod audit;
mod backups;
mod damage;
mod fixtures;
mod full;
mod indexes;
mod killed;
mod lists;
mod port;
mod room;
mod sessions;
mod tiers;
mod upgrades;
mod waits;

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use hivewright_actors::storage::{Batch, Order, Storage};
use tempfile::TempDir;

use super::{Home, error::OpenError, open::open, tiers::TieredStorage, unwatched as quiet};
use crate::settings::config::Durability;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

struct Place {
    folder: TempDir,
    home: Home,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["data", "run"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let home = Home::new(&folder.path().join("data"), &folder.path().join("run"));
        Self { folder, home }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn open(&self) -> TieredStorage {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<TieredStorage, OpenError> {
        open(&self.home, Durability::Power, &quiet)
    }

    /// Names in the run directory, with what tells one time from another cut off.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path("run"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.split("-2").next().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }
}

fn put(key: &str, value: impl AsRef<[u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.into(), Some(value.as_ref().to_vec()))
}

fn remove(key: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.into(), None)
}

fn commit(storage: &TieredStorage, changes: impl Into<Vec<(Vec<u8>, Option<Vec<u8>>)>>) {
    let changes = changes.into();
    storage.commit(&Batch::from(changes)).unwrap();
}

fn all(storage: &TieredStorage) -> Records {
    let mut records = Records::new();
    storage
        .scan(b"", b"\xff", Order::Rising, &mut |key, value| {
            records.insert(key.to_vec(), value.unwrap().to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    records
}

/// Every file under a folder with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Bytes that differ from one seed to the next and don't compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
