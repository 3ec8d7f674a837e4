//! The archive over SQLite: `history.db`, a table for each kind of record that is over.
//!
//! ```text
//! packing.rs   one value: compressed, with a checksum
//! keys.rs      keys that are shorter in the file
//! tables.rs    which table and which rows a range of keys means
//! turns.rs     a task and its journal in one value
//! together.rs  what records say that are taken in at once
//! tasks.rs     columns of ended tasks, and the lists of them
//! audit.rs     facets of lines of the audit, and the lists of them
//! waits.rs     facets of approvals and questions, and the lists of them
//! sessions.rs  when sessions were used last, and the lists of them
//! usage.rs     what ended tasks have come to
//! merging.rs   one list of several ranges of an index
//! columns.rs   what a row has beside key and value
//! backfill.rs  columns that a former program did not fill
//! version.rs   the form of the file
//! words.rs     the full-text index
//! checking.rs  whether the indexes agree with the records
//! writer.rs    the one connection that writes
//! readers.rs   the few that read
//! marking.rs   where in a record the words stand that were found
//! ```

mod audit;
mod backfill;
mod checking;
mod columns;
mod facets;
mod keys;
mod listing;
pub(super) mod marking;
mod merging;
mod packing;
mod readers;
mod sessions;
mod tables;
mod tasks;
#[cfg(test)]
mod tests;
mod together;
mod turns;
mod usage;
mod version;
mod waits;
mod words;
mod writer;

use std::{
    collections::HashSet,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::{
    approvals::query::{WaitPage, WaitQuery, WaitWindow},
    archive::Shelf,
    audit::query::{AuditPage, AuditQuery, AuditWindow},
    budget::query::{UsagePlace, UsageQuery},
    clock::Timestamp,
    ids::TaskId,
    journal::query::{SessionPage, SessionQuery, SessionWindow},
    order::{Part, Window},
    search::{Entry, Place, Search},
    spine,
    storage::{ArchiveLists, Order, StorageError},
    store::records::Record as _,
    task::query::{TaskCounts, TaskPage, TaskQuery, TaskWindow},
};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension, config::DbConfig};

use columns::Held;
use keys::Keys;
use packing::Unpacker;
use readers::{LIST_TIMEOUT, Purpose, Readers};
use tables::Table;
use together::Together;
use turns::Role;
use writer::Writer;

use super::{OnProgress, Unit, report};
use crate::logging::tap::Line;

/// The file, in the folder of the store.
pub(super) const FILE: &str = "history.db";
/// Pages that a connection that reads keeps in memory, in KiB.
const READER_CACHE_KIB: i64 = 1024;
/// The one that writes keeps what a batch changes, until the night takes it back: a page that it must drop within a
/// transaction goes to the log twice.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// A check names no more faults than this.
const MOST_FAULTS: usize = 100;
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The archive of a store.
#[derive(Debug, Default)]
pub(super) struct History {
    /// None for an archive that does not exist, of a store of a former version: it holds nothing.
    path: Option<PathBuf>,
    tables: Vec<Table>,
    writer: Mutex<Option<Writer>>,
    readers: Readers,
}

/// One who reads, at one moment of the archive if it has begun a transaction.
struct Reader {
    connection: Connection,
    keys: Keys,
    unpacker: Unpacker,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

/// What an archive says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArchivePosition {
    /// Of which store it is.
    pub(super) store: u64,
    /// How many transactions it has taken in.
    pub(super) number: u64,
}

/// A record that holds what is searched for.
pub(super) struct Match {
    pub(super) key: Vec<u8>,
    pub(super) place: Place,
}

/// What the archive is told of a record.
pub(super) enum Taken<'a> {
    Value(&'a [u8]),
    /// It cannot be read, and holds this. Each read of it is to say so.
    Damaged(Vec<u8>),
    Removed,
}

/// A record as it was found: its key, and its value or why that cannot be read.
pub(super) type Found = (Vec<u8>, Result<Vec<u8>, StorageError>);

impl History {
    pub(super) fn create(folder: &Path, store: u64) -> io::Result<Self> {
        let path = folder.join(FILE);
        let connection = connect(&path, true).map_err(io::Error::other)?;
        version::begin(&connection, store).map_err(io::Error::other)?;
        let tables = tables::all(&shelves(), Keys::Short);
        let mut writer = Writer::new(connection);
        writer.prepare(&tables).map_err(io::Error::other)?;
        let writer = Mutex::new(Some(writer));
        Ok(Self { path: Some(path), tables, writer, ..Self::default() })
    }

    /// Opens the archive in a folder. Returns it with what it says of itself.
    pub(super) fn open(folder: &Path) -> Result<(Self, ArchivePosition), String> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Err(format!("`{FILE}`, which holds what is over, is missing"));
        }
        let failed = |error: rusqlite::Error| format!("`{FILE}` cannot be read: {error}");
        let connection = connect(&path, false).map_err(failed)?;
        let tables = tables::all(&shelves(), version::upgrade(&connection)?);
        let mut writer = Writer::new(connection);
        let position = position(&writer.connection).map_err(failed)?;
        writer.prepare(&tables).map_err(failed)?;
        let writer = Mutex::new(Some(writer));
        Ok((Self { path: Some(path), tables, writer, ..Self::default() }, position))
    }

    /// Brings into the indexes what came before there were such. May be broken off, and costs nothing once it is done.
    pub(super) fn fill(&self, progress: OnProgress<'_>) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let Some(writer) = &mut *writer else { return Ok(()) };
        let mut told = Ok(());
        let mut tell = |done, total| {
            told = report(progress, done, total, Unit::Records);
            if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let filled = writer.fill(&self.tables, &mut tell);
        filled.map_err(|error| match unwritten(error) {
            StorageError::Full => io::ErrorKind::StorageFull.into(),
            error => io::Error::other(error),
        })?;
        told
    }

    /// Opens the archive in a folder to look at it: nothing of it changes, also not its version.
    pub(super) fn look(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let failed = |error: rusqlite::Error| format!("`{FILE}` cannot be read: {error}");
        let reader = Reader::open(&path).map_err(failed)?;
        version::check(&reader.connection)?;
        let mut tables = tables::all(&shelves(), reader.keys);
        // One that was never opened by this program may lack some.
        let mut missing = Vec::new();
        for table in &tables {
            if !table.is_there(&reader.connection).map_err(failed)? {
                missing.push(table.kind());
            }
        }
        tables.retain(|table| !missing.contains(&table.kind()));
        Ok(Self { path: Some(path), tables, ..Self::default() })
    }

    /// Writes what is in the log of SQLite to the file itself, so that the file alone is the archive. An error while
    /// somebody else reads it: then the log must stay with it.
    pub(super) fn close(self) -> io::Result<()> {
        drop(self.readers);
        let writer = self.writer.into_inner();
        if let Some(writer) = writer {
            let is_emptied = writer.checkpoint().map_err(io::Error::other)?;
            writer.connection.close().map_err(|(_, error)| io::Error::other(error))?;
            let log = self.path.map(|path| path.with_file_name(format!("{FILE}-wal")));
            let is_left = |log: PathBuf| log.metadata().is_ok_and(|found| found.len() > 0);
            if !is_emptied || log.is_some_and(is_left) {
                return Err(io::Error::other(format!("`{FILE}` is in use by another program")));
            }
        }
        Ok(())
    }

    /// Takes records in, whole and durable, in place of those under the same keys. Returns the number of the
    /// transaction.
    pub(super) fn take<'a, Key: AsRef<[u8]>>(
        &self,
        records: impl Iterator<Item = (Key, Taken<'a>)>,
    ) -> Result<u64, StorageError> {
        let records: Vec<(Key, Taken<'a>)> = records.collect();
        let all = records.iter().map(|(key, taken)| (key.as_ref(), taken));
        let (turns, together) = (turns::pair(all.clone()), Together::of(all));
        self.change(|writer| {
            for (key, taken) in &records {
                let key = key.as_ref();
                let Some((table, _)) = self.place(key) else { continue };
                match (taken, turns.get(key)) {
                    (Taken::Value(value), Some(Role::Host(task))) => {
                        let tasks = self.table(task.0)?;
                        writer.put_turn(table, (key, value), tasks, *task, &together)?;
                    }
                    (Taken::Value(value), Some(Role::LateHost(task))) => {
                        let tasks = self.table(task)?;
                        writer.put_late(table, (key, value), tasks, task, &together)?;
                    }
                    (Taken::Value(_), Some(Role::Guest)) => {}
                    (Taken::Value(value), None) => writer.put(table, (key, value), &together)?,
                    (Taken::Damaged(content), _) => writer.put_damaged(table, key, content)?,
                    (Taken::Removed, _) => writer.remove(table, key)?,
                }
            }
            Ok(())
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Writer) -> rusqlite::Result<()>,
    ) -> Result<u64, StorageError> {
        let mut writer = self.writer.lock();
        let Some(writer) = &mut *writer else {
            return Err(StorageError::Write("this store has no archive yet".to_owned()));
        };
        let changed = (|| {
            writer.connection.execute_batch("BEGIN IMMEDIATE")?;
            change(writer)?;
            writer.connection.execute("UPDATE standing SET number = number + 1", [])?;
            let number = position(&writer.connection)?.number;
            writer.connection.execute_batch("COMMIT")?;
            writer.clean_log()?;
            Ok(number)
        })();
        changed.map_err(|error: rusqlite::Error| {
            // Without a transaction there is nothing to take back.
            let _ = writer.connection.execute_batch("ROLLBACK");
            unwritten(error)
        })
    }

    /// Empties the log of SQLite, unless somebody reads: the next start has nothing to read there.
    pub(super) fn empty_log(&self) -> Result<(), StorageError> {
        let mut writer = self.writer.lock();
        writer.as_mut().map_or(Ok(()), Writer::empty_log).map_err(unwritten)
    }

    /// Gives back the memory that only work needs.
    pub(super) fn shrink(&self) -> Result<(), StorageError> {
        let mut writer = self.writer.lock();
        writer.as_mut().map_or(Ok(()), Writer::shrink).map_err(unwritten)?;
        drop(writer);
        self.readers.shrink().map_err(unread)
    }

    /// What is wrong with the file and its indexes, one line each. Reads all of it.
    pub(super) fn faults(&self) -> Result<Vec<String>, StorageError> {
        let Some(path) = &self.path else { return Ok(Vec::new()) };
        let mut reader = Reader::open(path).map_err(unread)?;
        let mut faults = torn(&reader.connection).map_err(unread)?;
        // What is torn may not be read to its end.
        if faults.is_empty() {
            let mut note = |fault| {
                if faults.len() < MOST_FAULTS {
                    faults.push(fault);
                }
            };
            checking::check(&mut reader, &self.tables, &mut note).map_err(unread)?;
        }
        Ok(faults.into_iter().map(|fault| format!("`{FILE}`: {fault}")).collect())
    }

    /// Whether records under this key are archived.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.place(key).is_some()
    }

    /// Where the keys of archived kinds begin, in order.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.tables.iter().map(Table::prefix)
    }

    fn table(&self, key: &[u8]) -> rusqlite::Result<&Table> {
        self.place(key).map(|(table, _)| table).ok_or(rusqlite::Error::InvalidQuery)
    }

    fn place<'a>(&self, key: &'a [u8]) -> Option<(&Table, &'a [u8])> {
        self.tables.iter().find_map(|table| Some((table, key.strip_prefix(table.prefix())?)))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        let Some((table, rest)) = self.place(key) else { return Ok(None) };
        self.read(|reader| {
            let held = table.get(&reader.connection, rest)?;
            let unpack = |it: Held| reader.unpacker.unpack_from(it.row(key), key, &it.packed);
            Ok(held.map(unpack))
        })?
        .transpose()
    }

    /// What a record holds, whatever its state.
    pub(super) fn salvage(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (table, rest) = self.place(key)?;
        let held = self.read(|reader| table.get(&reader.connection, rest)).ok()??;
        Some(packing::content(&held.packed).to_vec())
    }

    /// The first records of a range, in its order. A number below `most` means that there are no more.
    pub(super) fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        most: usize,
    ) -> Result<Vec<Found>, StorageError> {
        if !self.tables.iter().any(|table| table.rows(start, end).is_some()) {
            return Ok(Vec::new());
        }
        self.read(|reader| reader.scan(&self.tables, start, end, order, most))
    }

    /// The keys of records that hold what is searched for, with where they stand, and how many there are. There is one
    /// more than is wanted if there are more.
    pub(super) fn search(&self, search: &Search) -> Result<(Vec<Match>, usize), StorageError> {
        let (rows, total) = self.read_list(|reader| words::find(&reader.connection, search))?;
        let found = rows.into_iter().filter_map(|row| {
            let table = self.tables.iter().find(|table| table.kind() == row.kind)?;
            Some(Match { key: table.key_of(&row.key), place: row.place })
        });
        Ok((found.collect(), total))
    }

    /// What a search finds a record by.
    pub(super) fn entry(&self, key: &[u8], value: &[u8]) -> Option<Entry> {
        self.place(key)?.0.entry(key, value)
    }

    /// The facets that the lists of the audit know.
    #[cfg(test)]
    pub(super) fn facets(&self) -> Vec<String> {
        self.read(|reader| audit::names(&reader.connection)).unwrap()
    }

    /// The names that the lists of tasks know.
    #[cfg(test)]
    pub(super) fn names(&self, of: &str) -> Vec<String> {
        self.read(|reader| tasks::names(&reader.connection, of)).unwrap()
    }

    /// How many records there are. Counts them.
    pub(super) fn records(&self) -> u64 {
        let counted = self
            .read(|reader| self.tables.iter().map(|table| table.count(&reader.connection)).sum());
        counted.unwrap_or_default()
    }

    /// Shows all records as they are at the moment of the call, whatever is written meanwhile.
    pub(super) fn snapshot(&self) -> Result<Snapshot<'_>, StorageError> {
        let reader = match &self.path {
            Some(path) => Some(Reader::open(path).map_err(unread)?),
            None => None,
        };
        if let Some(reader) = &reader {
            reader.connection.execute_batch("BEGIN").map_err(unread)?;
            // The moment is that of the first read.
            position(&reader.connection).map_err(unread)?;
        }
        Ok(Snapshot { reader, tables: &self.tables })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&mut Reader) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError>
    where
        T: Default,
    {
        let Some(path) = &self.path else { return Ok(T::default()) };
        self.readers.read(path, Purpose::Work, read).map_err(unread)
    }

    /// The same for what may go through all there is: it has its time.
    fn read_list<T: Default>(
        &self,
        read: impl FnOnce(&mut Reader) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        let Some(path) = &self.path else { return Ok(T::default()) };
        self.readers.read(path, Purpose::List, read).map_err(|error| {
            match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::OperationInterrupted) => {
                    StorageError::TooSlow(LIST_TIMEOUT)
                }
                _ => unread(error),
            }
        })
    }

    /// Reads a list that is a few ranges of an index, as it is at one moment: whoever decides on one does not wait for those who
    /// look through all there is.
    fn read_ranges<T: Default>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        self.read(|reader| {
            let moment = reader.connection.unchecked_transaction()?;
            read(&moment)
        })
    }

    /// Reads a list as it is at one moment: what moves in meanwhile is not seen by half of the statements.
    fn read_at_once<T: Default>(
        &self,
        read: impl FnOnce(&Connection, Keys) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        self.read_list(|reader| {
            let moment = reader.connection.unchecked_transaction()?;
            read(&moment, reader.keys)
        })
    }
}

impl ArchiveLists for History {
    fn tasks(
        &self,
        wanted: &TaskQuery,
        window: &TaskWindow,
        known: &HashSet<TaskId>,
    ) -> Result<TaskPage, StorageError> {
        self.read_at_once(|connection, keys| tasks::page(connection, keys, wanted, window, known))
    }

    fn count_tasks(&self, known: &HashSet<TaskId>) -> Result<TaskCounts, StorageError> {
        self.read_at_once(|connection, keys| tasks::count_all(connection, keys, known))
    }

    fn usage(
        &self,
        wanted: &UsageQuery,
        window: &Window<UsagePlace>,
        known: &HashSet<TaskId>,
    ) -> Result<Part<UsagePlace>, StorageError> {
        self.read_at_once(|connection, keys| usage::page(connection, keys, wanted, window, known))
    }

    fn usage_known_at(&self, task: &TaskId) -> Result<Option<Timestamp>, StorageError> {
        self.read(|reader| usage::known_at(&reader.connection, reader.keys, task))
    }

    fn audit(
        &self,
        wanted: &AuditQuery,
        window: &AuditWindow,
        known: &HashSet<Vec<u8>>,
    ) -> Result<AuditPage, StorageError> {
        self.read_at_once(|connection, _| audit::page(connection, wanted, window, known))
    }

    fn waits(
        &self,
        of: &'static str,
        wanted: &WaitQuery,
        window: &WaitWindow,
        known: &HashSet<Vec<u8>>,
    ) -> Result<WaitPage, StorageError> {
        self.read_ranges(|connection| waits::page(connection, of, wanted, window, known))
    }

    fn sessions(
        &self,
        wanted: &SessionQuery,
        window: &SessionWindow,
        known: &HashSet<String>,
    ) -> Result<SessionPage, StorageError> {
        self.read_ranges(|connection| sessions::page(connection, wanted, window, known))
    }
}

/// All records of an archive at one moment.
pub(super) struct Snapshot<'a> {
    reader: Option<Reader>,
    tables: &'a [Table],
}

impl Snapshot<'_> {
    /// The records behind a key, in the order of their keys.
    pub(super) fn behind(&mut self, key: &[u8], most: usize) -> Result<Vec<Found>, StorageError> {
        let start = [key, &[0]].concat();
        let Some(reader) = &mut self.reader else { return Ok(Vec::new()) };
        reader.scan(self.tables, &start, &[0xff], Order::Rising, most).map_err(unread)
    }
}

impl Reader {
    fn open(path: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        tune(&connection, READER_CACHE_KIB)?;
        let keys = version::keys(&connection)?;
        tasks::equip(&connection, keys)?;
        audit::equip(&connection)?;
        Ok(Self { connection, keys, unpacker: Unpacker::default() })
    }

    fn scan(
        &mut self,
        tables: &[Table],
        start: &[u8],
        end: &[u8],
        order: Order,
        most: usize,
    ) -> rusqlite::Result<Vec<Found>> {
        let mut found = Vec::new();
        let Self { connection, unpacker, .. } = self;
        let mut walk = |table: &Table| -> rusqlite::Result<()> {
            let Some((from, to)) = table.rows(start, end) else { return Ok(()) };
            let left = most.saturating_sub(found.len());
            table.walk(connection, from, to, order, left, &mut |key, held| {
                let value = unpacker.unpack_from(held.row(key), key, &held.packed);
                found.push((key.to_vec(), value));
            })
        };
        match order {
            Order::Rising => tables.iter().try_for_each(&mut walk)?,
            Order::Falling => tables.iter().rev().try_for_each(&mut walk)?,
        }
        Ok(found)
    }
}

/// What is archived: of the spine, and log lines.
fn shelves() -> Vec<Shelf> {
    [spine::SHELVES, &[Shelf::of(Line::KIND)]].concat()
}

fn connect(path: &Path, is_new: bool) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, is_new);
    let connection = Connection::open_with_flags(path, flags)?;
    tune(&connection, WRITER_CACHE_KIB)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A transaction is on the disk when it is answered: only then the hot half lets its records go.
    connection.pragma_update(None, "synchronous", "full")?;
    // What is removed is overwritten: it may have become a secret.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    Ok(connection)
}

fn tune(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(128);
    // Without it a statement is prepared anew for values that it might have a better plan for, which none of ours has.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", -cache_kib)
}

/// What SQLite finds wrong with a file.
fn torn(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({MOST_FAULTS})"))?;
    let found = check.query_map([], |row| row.get::<_, String>(0))?;
    let found = found.map(|row| row.unwrap_or_else(|error| error.to_string()));
    Ok(found.filter(|row| row != "ok").collect())
}

fn position(connection: &Connection) -> rusqlite::Result<ArchivePosition> {
    let mut statement = connection.prepare_cached("SELECT store, number FROM standing")?;
    let position = statement.query_row([], |row| {
        let (store, number): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(ArchivePosition { store: store.cast_unsigned(), number: number.cast_unsigned() })
    });
    position.optional()?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// Gives back what a connection keeps for later.
fn shrink(connection: &Connection) -> rusqlite::Result<()> {
    connection.flush_prepared_statement_cache();
    connection.execute_batch("PRAGMA shrink_memory")
}

fn unwritten(error: rusqlite::Error) -> StorageError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => StorageError::Full,
        _ => StorageError::Write(format!("{FILE}: {error}")),
    }
}

fn unread(error: rusqlite::Error) -> StorageError {
    StorageError::Read(format!("{FILE}: {error}"))
}
