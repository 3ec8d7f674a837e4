//! The `Storage` port over sled.

use std::{
    any::Any,
    collections::{BTreeMap, HashSet},
    fs::File,
    io,
    ops::{Bound, ControlFlow},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
};

use hivewright_actors::storage::{
    Batch, Damage, DamageReports, Order, Storage, StorageError, Visit,
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    build,
    clean_shutdown::CleanShutdown,
    database::Database,
    envelope::{self, Form, damaged},
    high_water_mark::HighWaterMark,
    history::ArchivePosition,
    parts::{self, LARGEST, LONGEST_KEY, RESERVED},
    preserved::Preserved,
    reserve,
};
use crate::settings::config::Durability;

#[derive(Debug)]
pub struct SledStorage {
    pub(super) database: Database,
    folder: PathBuf,
    data: File,
    mark: HighWaterMark,
    durability: Durability,
    schema: u16,
    /// What the archive beside it must be, if it has one.
    archive: Option<ArchivePosition>,
    writing: Mutex<Writing>,
    damage: DamageReports,
}

/// What commits change. Whoever holds it keeps commits out.
#[derive(Debug, Default)]
pub(super) struct Writing {
    pub(super) commits: u64,
    /// It was noted that nothing is written any more.
    rests: bool,
    /// Keys whose value stands in parts.
    split: HashSet<Vec<u8>>,
    failed: bool,
    pub(super) export: Option<Preserved>,
}

/// Records to write and to remove, as sled sees them.
pub(super) type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

impl Writing {
    /// After this nothing is acknowledged any more.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }
}

impl SledStorage {
    /// Opens the database of a folder that was found fit to use.
    pub(super) fn attach(store: &Path, durability: Durability) -> io::Result<Self> {
        let database = guarded(|| Database::open(store)).map_err(io::Error::other)??;
        let data = File::options().write(true).open(store.join("db"))?;
        if !reserve::holds(&data, reserve::need(0, 0))? {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let (schema, commits) = standing(&database).map_err(io::Error::other)?;
        let archive = archive(&database).map_err(io::Error::other)?;
        let split = parts::split_keys(&database)?;
        let mark = HighWaterMark::open(store, durability)?;
        mark.note(commits)?;
        // sled replaces its snapshot while it opens. An older one that came back after a power cut
        // would point to places that were reused since.
        build::settle(store)?;
        Ok(Self {
            database,
            folder: store.to_path_buf(),
            data,
            mark,
            durability,
            schema,
            archive,
            writing: Mutex::new(Writing { commits, split, ..Writing::default() }),
            damage: DamageReports::default(),
        })
    }

    pub fn schema(&self) -> u16 {
        self.schema
    }

    /// What the archive beside it must be; none if it was made without one.
    pub(super) fn archive(&self) -> Option<ArchivePosition> {
        self.archive
    }

    /// Notes that nothing is under way: the next start opens it in place. A commit takes the note back.
    pub(super) fn rest(&self) -> io::Result<()> {
        let mut writing = self.writing();
        if writing.failed {
            return Ok(());
        }
        self.database.flush()?;
        self.data.sync_all()?;
        let closed =
            CleanShutdown { commits: writing.commits, length: self.data.metadata()?.len() };
        closed.note(&self.folder)?;
        writing.rests = true;
        Ok(())
    }

    /// How many records there are. Counts them.
    pub fn records(&self) -> u64 {
        self.database.range(..RESERVED).count() as u64
    }

    pub(super) fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock()
    }

    fn write(&self, writing: &mut Writing, changes: &Changes) -> io::Result<()> {
        if let Some(preserved) = &mut writing.export {
            for (key, _) in changes {
                preserved.keep(key, || self.database.get(key))?;
            }
        }
        let mut batch = ::sled::Batch::default();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                None => batch.remove(key.as_slice()),
            }
        }
        self.database.apply_batch(batch)?;
        self.database.flush()?;
        if self.durability == Durability::Power {
            self.data.sync_data()?;
        }
        Ok(())
    }

    /// What a new value of a key changes. Nothing is read for that: which values stand in parts is
    /// known.
    fn change(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        split: &mut HashSet<Vec<u8>>,
        changes: &mut Changes,
    ) -> ::sled::Result<()> {
        if split.remove(key) {
            for part in self.part_keys(key) {
                changes.push((part?, None));
            }
        }
        let Some(value) = value else {
            changes.push((key.to_vec(), None));
            return Ok(());
        };
        let records = parts::split(self.schema, key, value);
        if records.len() > 1 {
            split.insert(key.to_vec());
        }
        changes.extend(records.into_iter().map(|(key, sealed)| (key, Some(sealed))));
        Ok(())
    }

    pub(super) fn part_keys(&self, key: &[u8]) -> impl Iterator<Item = ::sled::Result<Vec<u8>>> {
        let key = key.to_vec();
        self.database
            .range(parts::part_key(&key, 0)..=parts::part_key(&key, u32::MAX))
            .keys()
            .filter_map(move |found| match found {
                Ok(found) => parts::is_part_of(&key, &found).then(|| Ok(found.to_vec())),
                Err(error) => Some(Err(error)),
            })
    }

    /// Shows a record's value, putting it together if several records hold it.
    fn open<Shown>(
        &self,
        key: &[u8],
        sealed: &[u8],
        show: impl FnOnce(Result<&[u8], StorageError>) -> Shown,
    ) -> Result<Shown, StorageError> {
        match self.verified(key, sealed) {
            Ok((Form::Whole, payload)) => Ok(show(Ok(payload))),
            Ok((Form::Parts, _)) => match self.collect(key) {
                Ok(Some(value)) => Ok(show(Ok(&value))),
                Ok(None) => Ok(show(Err(damaged(key, "removed while it was read")))),
                Err(error @ StorageError::Damaged { .. }) => Ok(show(Err(error))),
                Err(error) => Err(error),
            },
            Err(error) => Ok(show(Err(error))),
        }
    }

    fn verified<'a>(&self, key: &[u8], sealed: &'a [u8]) -> Result<(Form, &'a [u8]), StorageError> {
        let opened = envelope::open(key, sealed)?;
        if opened.schema == self.schema {
            Ok((opened.form, opened.payload))
        } else {
            Err(damaged(key, "of another schema version than the store"))
        }
    }

    /// Puts a value together from its parts, while no commit can replace them one by one.
    fn collect(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        let _writing = self.writing();
        let Some(sealed) = self.database.get(key).map_err(unread)? else { return Ok(None) };
        let (form, payload) = self.verified(key, &sealed)?;
        if form == Form::Whole {
            return Ok(Some(payload.to_vec()));
        }
        let count = payload
            .try_into()
            .map(u32::from_be_bytes)
            .map_err(|_| damaged(key, "no count of parts"))?;
        let mut value = Vec::new();
        for index in 0..count {
            let part_key = parts::part_key(key, index);
            let Some(sealed) = self.database.get(&part_key).map_err(unread)? else {
                return Err(damaged(key, "a part is missing"));
            };
            value.extend(self.verified(&part_key, &sealed)?.1);
        }
        Ok(Some(value))
    }

    /// Makes changes durable, whole: those of records, and `own` ones of the store itself, as they are. `begins` is called
    /// when there is room for them, before anybody sees them.
    pub(super) fn change_all(
        &self,
        records: &BTreeMap<&[u8], Option<&[u8]>>,
        mut own: Changes,
        begins: impl FnOnce(),
    ) -> Result<(), StorageError> {
        for (key, value) in records {
            check_size(key, *value).map_err(StorageError::Write)?;
        }
        if records.is_empty() && own.is_empty() {
            return Ok(());
        }
        let mut writing = self.writing();
        if writing.failed {
            let reason = "an earlier write failed, only a new start can tell what is there";
            return Err(StorageError::Write(reason.to_owned()));
        }
        let length = |value: Option<usize>| value.unwrap_or_default();
        let bytes = records.iter().map(|(key, value)| key.len() + length(value.map(<[u8]>::len)));
        let bytes = bytes
            .chain(own.iter().map(|(key, value)| key.len() + length(value.as_ref().map(Vec::len))));
        let need = reserve::need(records.len() + own.len(), bytes.sum());
        match reserve::holds(&self.data, need) {
            Ok(true) => {}
            Ok(false) => return Err(StorageError::Full),
            Err(error) => return Err(StorageError::Write(error.to_string())),
        }
        if std::mem::take(&mut writing.rests) {
            CleanShutdown::take(&self.folder)
                .map_err(|error| StorageError::Write(error.to_string()))?;
        }
        begins();
        let done = guarded(|| {
            let mut changes = Changes::new();
            // From here on only a complete run says that the group is safe.
            writing.fail();
            for (key, value) in records {
                self.change(key, *value, &mut writing.split, &mut changes)?;
            }
            changes.append(&mut own);
            let commits = writing.commits + 1;
            let standing = build::commit_value(self.schema, commits);
            changes.push((build::commit_key(), Some(standing)));
            self.write(&mut writing, &changes)?;
            self.mark.note(commits)?;
            writing.commits = commits;
            writing.failed = false;
            Ok(())
        });
        done.and_then(|done: io::Result<()>| done.map_err(|error| error.to_string()))
            .map_err(StorageError::Write)
    }

    /// Reports a record of the store itself that cannot be read.
    pub(super) fn report_damage(&self, key: &[u8], reason: &str) {
        let held = self.salvage(key).unwrap_or_default();
        self.damage.report(key, || Damage { key: key.to_vec(), reason: reason.to_owned(), held });
    }

    /// What notes that the archive has come to a transaction.
    pub(super) fn archive_at(&self, number: u64) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let position = ArchivePosition { number, ..self.archive? };
        Some((build::archive_key(), Some(build::archive_value(self.schema, position))))
    }
}

impl Storage for SledStorage {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        self.change_all(&batch.latest(), Changes::new(), || {})
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        if key >= RESERVED {
            return Ok(None);
        }
        guarded(|| {
            let Some(sealed) = self.database.get(key).map_err(unread)? else { return Ok(None) };
            match self.verified(key, &sealed)? {
                (Form::Whole, payload) => Ok(Some(payload.to_vec())),
                (Form::Parts, _) => self.collect(key),
            }
        })
        .map_err(StorageError::Read)?
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let end = end.min(RESERVED);
        if start >= end {
            return Ok(());
        }
        let range = (Bound::Included(start), Bound::Excluded(end));
        let mut records = self.database.range::<&[u8], _>(range);
        loop {
            let next = guarded(|| match order {
                Order::Rising => records.next(),
                Order::Falling => records.next_back(),
            });
            let Some(record) = next.map_err(StorageError::Read)? else { return Ok(()) };
            let (key, sealed) = record.map_err(unread)?;
            match self.open(&key, &sealed, |value| visit(&key, value))? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(()) => return Ok(()),
            }
        }
    }

    fn salvage(&self, key: &[u8]) -> Option<Vec<u8>> {
        let read = |key: &[u8]| guarded(|| self.database.get(key)).ok()?.ok()?;
        let sealed = read(key)?;
        // The parts are there where the record itself says nothing any more.
        let parts = (0..).map_while(|index| read(&parts::part_key(key, index)));
        let parts: Vec<u8> = parts.flat_map(|part| envelope::content(&part).to_vec()).collect();
        if parts.is_empty() { Some(envelope::content(&sealed).to_vec()) } else { Some(parts) }
    }

    fn damage_reports(&self) -> Option<&DamageReports> {
        Some(&self.damage)
    }
}

/// What a store says of itself: its schema version and its number of commits.
pub(super) fn standing(database: &::sled::Db) -> Result<(u16, u64), String> {
    let read = |key: Vec<u8>| {
        let name = key[RESERVED.len()..].escape_ascii().to_string();
        database
            .get(&key)
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("its record `{name}` is missing"))
            .and_then(|sealed| {
                let opened = envelope::open(&key, &sealed).map_err(|error| error.to_string())?;
                Ok((opened.schema, opened.payload.to_vec()))
            })
    };
    let (schema, _) = read(build::schema_key())?;
    let (_, commits) = read(build::commit_key())?;
    let commits = commits.try_into().map(u64::from_be_bytes);
    let commits = commits.map_err(|_| "its number of commits cannot be read".to_owned())?;
    Ok((schema, commits))
}

/// What a store says of the archive beside it; none if it was made without one.
fn archive(database: &::sled::Db) -> Result<Option<ArchivePosition>, String> {
    let key = build::archive_key();
    let Some(sealed) = database.get(&key).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let opened = envelope::open(&key, &sealed).map_err(|error| error.to_string())?;
    let unread = || "what it says of its archive cannot be read".to_owned();
    let (store, number) = opened.payload.split_first_chunk().ok_or_else(unread)?;
    let number = number.try_into().map_err(|_| unread())?;
    let (store, number) = (u64::from_be_bytes(*store), u64::from_be_bytes(number));
    Ok(Some(ArchivePosition { store, number }))
}

/// Runs what may meet damaged files, where sled panics in places.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the database gave up: {}", text.unwrap_or("no reason"))
}

pub(super) fn check_size(key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
    let name = key.escape_ascii();
    if key.is_empty() || key.len() > LONGEST_KEY {
        Err(format!("key `{name}` is empty or above {LONGEST_KEY} bytes"))
    } else if key >= RESERVED {
        Err(format!("key `{name}` is reserved"))
    } else if value.is_some_and(|value| value.len() > LARGEST) {
        Err(format!("record `{name}` is above {LARGEST} bytes"))
    } else {
        Ok(())
    }
}

fn unread(error: ::sled::Error) -> StorageError {
    StorageError::Read(error.to_string())
}
