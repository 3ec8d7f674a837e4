//! What a rebuilt store lacks of the one that was set aside.
//!
//! The store that was set aside cannot be used, but part of it can mostly be read, from a copy: sled repairs what
//! it opens. What it holds otherwise than the rebuilt one is what was stored after the backup.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use hivewright_actors::{
    storage::{Storage, StorageError},
    store::keys::printable,
};
use serde::Serialize;

use super::{
    build,
    database::Database,
    envelope::{self, Form, Opened},
    high_water_mark,
    history::History,
    parts::RESERVED,
    pending::Pending,
    sled::{guarded, standing},
    swap,
    tiers::TieredStorage,
};
use crate::{settings::config::Durability, time};

/// The file in the store that was set aside.
const LIST: &str = "not-recovered.txt";
/// Archived records are compared in chunks of so many.
const CHUNK: usize = 512;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// When the store that was set aside was last written.
    pub until: Option<String>,
    /// How many of its commits cannot be read there either.
    pub commits: Option<u64>,
    /// How many of the records there are of each kind that the rebuilt store lacks, or has as they were before.
    pub records: BTreeMap<String, u64>,
    pub list: Option<PathBuf>,
    /// Why nothing of it can be read.
    pub unread: Option<String>,
}

/// Compares a store that was set aside with the rebuilt one. The former stays as it is.
pub(super) fn between(aside: &Path, rebuilt: &Path) -> io::Result<Lost> {
    let written = fs::metadata(aside.join("mark"))
        .or_else(|_| fs::metadata(aside.join("db")))
        .and_then(|about| about.modified());
    let mut lost = Lost { until: written.ok().and_then(time::date_of_file), ..Lost::default() };
    let copy = swap::beside(aside, "check");
    build::copy_files(aside, &copy)?;
    let compared = guarded(|| compare(aside, &copy, rebuilt)).flatten();
    build::remove(&copy)?;
    match compared {
        Ok((commits, keys)) => {
            lost.commits = commits;
            for key in &keys {
                *lost.records.entry(kind(key)).or_default() += 1;
            }
            if !keys.is_empty() {
                let list = aside.join(LIST);
                fs::write(&list, keys.join("\n") + "\n")?;
                lost.list = Some(list);
            }
        }
        Err(reason) => lost.unread = Some(reason),
    }
    Ok(lost)
}

/// How many commits are missing, and the records that differ.
fn compare(
    aside: &Path,
    copy: &Path,
    rebuilt: &Path,
) -> Result<(Option<u64>, Vec<String>), String> {
    let text = |error: io::Error| error.to_string();
    let old = Database::open(copy).map_err(text)?;
    if !old.was_recovered() {
        return Err("the database holds nothing that can be read".to_owned());
    }
    let new =
        TieredStorage::attach(rebuilt, Durability::Power).map_err(|error| error.to_string())?;
    let expected = high_water_mark::expected(aside);
    let missing = standing(&old).ok().map(|(_, commits)| expected.saturating_sub(commits));
    let differs = |key: &[u8], value: Option<&[u8]>| match new.get(key) {
        Ok(found) => Ok(found.as_deref() != value),
        Err(StorageError::Damaged { .. }) => Ok(true),
        Err(error) => Err(error.to_string()),
    };
    let mut keys = BTreeSet::new();
    for record in old.range(..RESERVED) {
        let Ok((key, sealed)) = record else { continue };
        let is_same = match envelope::open(&key, &sealed) {
            Ok(Opened { form: Form::Whole, payload, .. }) => !differs(&key, Some(payload))?,
            // Its parts are not compared: that it is there says enough.
            Ok(Opened { form: Form::Parts, .. }) => differs(&key, None)?,
            Err(_) => false,
        };
        if !is_same {
            keys.insert(printable(&key));
        }
    }
    let (pending, _) = Pending::read(&old).map_err(|error| error.to_string())?;
    let pending = pending.all();
    for (key, value) in &pending {
        if differs(key, value.as_deref())? {
            keys.insert(printable(key));
        }
    }
    // What the archive that was set aside has beyond that.
    if let Ok(history) = History::look(aside) {
        let mut snapshot = history.snapshot().map_err(|error| error.to_string())?;
        let mut behind = Vec::new();
        loop {
            let chunk = snapshot.behind(&behind, CHUNK).map_err(|error| error.to_string())?;
            let Some((last, _)) = chunk.last() else { break };
            behind.clone_from(last);
            for (key, value) in &chunk {
                let is_newer = pending.contains_key(key.as_slice());
                if !is_newer && differs(key, value.as_deref().ok())? {
                    keys.insert(printable(key));
                }
            }
        }
    }
    Ok((missing.filter(|missing| *missing > 0), keys.into_iter().collect()))
}

fn kind(key: &str) -> String {
    let mut parts = key.split('/');
    match (parts.next(), parts.next()) {
        (Some("edge"), Some(kind)) => kind.to_owned(),
        (kind, _) => kind.unwrap_or_default().to_owned(),
    }
}
