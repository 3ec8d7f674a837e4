//! The installation that is imported: its folders and a copy of its database, both only read.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::{Connection, OpenFlags};
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use super::schema::{ALWAYS, Column, DERIVED, Record, Table};
use crate::removal::{TemporaryFolder, if_there};

/// The database, in the run folder.
const DATABASE: &str = "openhive.db";

/// A database is its file and what SQLite keeps beside it, by how the names go on.
const PARTS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Where SQLite puts its locks: in the database from here on …
const LOCKS: (u64, u64) = (0x4000_0000, 512);
/// … and in the index of its log here.
const LOG_LOCKS: (u64, u64) = (120, 9);

/// Why an installation cannot be read. Nothing has been written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("there is no `{}`; `{flag}` names the {what} of an OpenHive installation", path.display())]
    Missing { path: PathBuf, flag: &'static str, what: &'static str },
    /// Another program has the database open: `pid`, if that can be seen from here.
    #[error(
        "`{}` is locked{}; stop OpenHive first, so that nothing changes while it is read",
        path.display(),
        pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    )]
    Locked { path: PathBuf, pid: Option<i32> },
    #[error("`{}` changed while it was copied; stop OpenHive first", path.display())]
    Changed { path: PathBuf },
    /// SQLite cannot read it.
    #[error(
        "`{}`{} is damaged",
        path.display(),
        table.as_ref().map(|table| format!(", table `{table}`,")).unwrap_or_default()
    )]
    Damaged {
        path: PathBuf,
        table: Option<String>,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It is not laid out as OpenHive lays it out.
    #[error(
        "`{}`, table `{table}`{}: {reason}",
        path.display(),
        column.as_ref().map(|column| format!(", column `{column}`")).unwrap_or_default()
    )]
    Schema { path: PathBuf, table: String, column: Option<String>, reason: String },
    #[error("`{}` cannot be read", path.display())]
    Disk { path: PathBuf, source: io::Error },
}

pub(super) fn disk(path: &Path) -> impl Fn(io::Error) -> SourceError {
    move |source| SourceError::Disk { path: path.to_owned(), source }
}

pub(super) fn damaged(
    path: &Path,
    table: Option<&str>,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SourceError {
    SourceError::Damaged {
        path: path.to_owned(),
        table: table.map(str::to_owned),
        source: error.into(),
    }
}

/// Where an installation is: settings and rules in `data`, teams and the database in `run`.
#[derive(Clone, Debug)]
pub struct Source {
    pub data: PathBuf,
    pub run: PathBuf,
}

impl Source {
    /// An installation at these places, which must be there.
    pub fn new(data: &Path, run: &Path) -> Result<Self, SourceError> {
        let folder = |path: &Path, flag, what| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            if path.is_dir() { Ok(path) } else { Err(SourceError::Missing { path, flag, what }) }
        };
        Ok(Self {
            data: folder(data, "--data", "data folder")?,
            run: folder(run, "--run", "run folder")?,
        })
    }
}

/// Something in the database that nobody here knows, and that is therefore left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) table: String,
    /// None is the whole table.
    pub(super) column: Option<String>,
}

/// A copy of the database, open and found good. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct DatabaseCopy {
    original: PathBuf,
    connection: Connection,
    // After the connection: a folder in use cannot go. The database holds secrets as they are.
    _folder: TemporaryFolder,
}

impl DatabaseCopy {
    /// Copies the database of an installation whose program is stopped.
    pub(super) fn make(source: &Source) -> Result<Self, SourceError> {
        let original = source.run.join(DATABASE);
        if !original.is_file() {
            return Err(SourceError::Missing { path: original, flag: "--run", what: "run folder" });
        }
        check_locks(&original)?;
        let folder = TemporaryFolder::new("import").map_err(disk(&std::env::temp_dir()))?;
        let copy = folder.path().join(DATABASE);
        copy_files(&original, &copy)?;
        // The log is worked into the copy, so this is open for writing.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&copy, flags)
            .map_err(|error| damaged(&original, None, error))?;
        check_pages(&original, &connection)?;
        Ok(Self { original, connection, _folder: folder })
    }

    /// What is in it beside these tables.
    pub(super) fn extras<'t>(
        &self,
        tables: impl Iterator<Item = &'t Table>,
    ) -> Result<Vec<Extra>, SourceError> {
        check(&self.original, &self.connection, &tables.collect::<Vec<_>>())
    }

    /// All rows of a table; none if the version has no such table.
    pub(super) fn all<R: Record>(&self) -> Result<Vec<R>, SourceError> {
        let Table { name, order, .. } = R::TABLE;
        let Some(columns) = selection(&self.original, &self.connection, &R::TABLE)? else {
            return Ok(Vec::new());
        };
        let read = || -> rusqlite::Result<Vec<R>> {
            let query = format!("SELECT {columns} FROM {name} ORDER BY {order}");
            self.connection.prepare(&query)?.query_map([], R::read)?.collect()
        };
        read().map_err(|error| match error {
            rusqlite::Error::InvalidColumnType(_, column, found) => SourceError::Schema {
                path: self.original.clone(),
                table: name.to_owned(),
                column: Some(column),
                reason: format!("holds a value of another kind ({found})"),
            },
            error => damaged(&self.original, Some(name), error),
        })
    }

    /// How many rows a table has; 0 if there is none.
    pub(super) fn count(&self, table: &str) -> u64 {
        let query = format!("SELECT count(*) FROM \"{table}\"");
        let rows = self.connection.query_row(&query, [], |row| row.get::<_, i64>(0));
        rows.ok().and_then(|rows| rows.try_into().ok()).unwrap_or(0)
    }
}

/// The file beside `path` whose name goes on with `suffix`.
fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A program that has the database open holds at least a shared lock, and one that waits for it is
/// not stopped by our reading: so any lock means that someone is at work.
fn check_locks(database: &Path) -> Result<(), SourceError> {
    for (path, range) in [(database.to_owned(), LOCKS), (companion(database, "-shm"), LOG_LOCKS)] {
        let Some(file) = if_there(File::open(&path)).map_err(disk(&path))? else { continue };
        let wish = Flock {
            start: range.0,
            length: range.1,
            pid: None,
            typ: FlockType::WriteLock,
            offset_type: FlockOffsetType::Set,
        };
        match fcntl_getlk(&file, &wish) {
            Ok(None) => {}
            Ok(Some(held)) => {
                let pid = held.pid.map(|pid| pid.as_raw_nonzero().get());
                return Err(SourceError::Locked { path: database.to_owned(), pid });
            }
            Err(error) => return Err(SourceError::Disk { path, source: error.into() }),
        }
    }
    Ok(())
}

fn copy_files(original: &Path, copy: &Path) -> Result<(), SourceError> {
    let states = || -> Result<Vec<_>, SourceError> {
        PARTS.iter().map(|suffix| state(&companion(original, suffix))).collect()
    };
    let before = states()?;
    for suffix in PARTS {
        let from = companion(original, suffix);
        match fs::copy(&from, companion(copy, suffix)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && !suffix.is_empty() => {}
            Err(source) => return Err(SourceError::Disk { path: from, source }),
        }
    }
    if states()? != before {
        return Err(SourceError::Changed { path: original.to_owned() });
    }
    Ok(())
}

/// Length and time of the last change; none if there is no such file.
fn state(path: &Path) -> Result<Option<(u64, SystemTime)>, SourceError> {
    let found = if_there(fs::metadata(path)).and_then(|found| {
        let state = |found: fs::Metadata| Ok((found.len(), found.modified()?));
        found.map(state).transpose()
    });
    found.map_err(disk(path))
}

fn check_pages(original: &Path, connection: &Connection) -> Result<(), SourceError> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| damaged(original, None, error))?;
    if verdict == "ok" { Ok(()) } else { Err(damaged(original, None, verdict)) }
}

/// Refuses a database that lacks what is read from it, and tells what is in it beside that.
fn check(
    path: &Path,
    connection: &Connection,
    tables: &[&Table],
) -> Result<Vec<Extra>, SourceError> {
    let found = table_names(path, connection)?;
    let mut extras = Vec::new();
    for table in tables {
        let missing = |column: Option<&str>, reason: &str| SourceError::Schema {
            path: path.to_owned(),
            table: table.name.to_owned(),
            column: column.map(str::to_owned),
            reason: format!("is missing; {reason}"),
        };
        if !found.contains(table.name) {
            if ALWAYS.contains(&table.name) {
                return Err(missing(None, "this is not a database of OpenHive"));
            }
            continue;
        }
        let present = column_names(path, connection, table.name)?;
        let needed = table.columns.iter().filter(|column| column.default.is_none());
        let mut needed = needed.map(|column| column.name).chain(table.unread.iter().copied());
        if let Some(column) = needed.find(|name| !present.contains(*name)) {
            return Err(missing(Some(column), "this version of OpenHive is not known"));
        }
        let known = |name: &str| {
            let read = |column: &Column| column.name == name || column.former == Some(name);
            table.columns.iter().any(read)
                || table.unread.contains(&name)
                || table.unread_later.contains(&name)
        };
        extras.extend(
            present
                .into_iter()
                .filter(|name| !known(name))
                .map(|column| Extra { table: table.name.to_owned(), column: Some(column) }),
        );
    }
    let known = |name: &str| {
        tables.iter().any(|table| table.name == name)
            || DERIVED.contains(&name)
            // The index of a full-text search, in tables of its own.
            || name.starts_with("memory_chunks_fts")
            || name.starts_with("sqlite_")
    };
    extras.extend(
        found.into_iter().filter(|name| !known(name)).map(|table| Extra { table, column: None }),
    );
    Ok(extras)
}

/// The columns to select, so that a row of any version reads like one of the newest; none if the
/// version has no such table.
fn selection(
    path: &Path,
    connection: &Connection,
    table: &Table,
) -> Result<Option<String>, SourceError> {
    let present = column_names(path, connection, table.name)?;
    let select = |Column { name, former, default }: &Column| match (former, default) {
        (Some(former), _) if !present.contains(*name) && present.contains(*former) => {
            format!("{former} AS {name}")
        }
        (_, Some(default)) if !present.contains(*name) => format!("{default} AS {name}"),
        _ => (*name).to_owned(),
    };
    let columns: Vec<_> = table.columns.iter().map(select).collect();
    Ok((!present.is_empty()).then(|| columns.join(", ")))
}

fn table_names(path: &Path, connection: &Connection) -> Result<BTreeSet<String>, SourceError> {
    names(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'", [])
        .map_err(|error| damaged(path, None, error))
}

fn column_names(
    path: &Path,
    connection: &Connection,
    table: &str,
) -> Result<BTreeSet<String>, SourceError> {
    names(connection, "SELECT name FROM pragma_table_info(?1)", [table])
        .map_err(|error| damaged(path, Some(table), error))
}

fn names(
    connection: &Connection,
    query: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<BTreeSet<String>> {
    connection.prepare(query)?.query_map(parameters, |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {

    use super::{
        super::{kinds::readers, tasks::TaskRow, topics::TopicRow, triggers::TriggerRow},
        *,
    };

    fn tables() -> Vec<&'static Table> {
        readers().into_iter().map(|reader| &reader.table).collect()
    }

    fn database(statements: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(statements).unwrap();
        connection
    }

    const PATH: &str = "/r/openhive.db";

    const OLD: &str = "
        CREATE TABLE org_tree (id TEXT, name TEXT, parent_id TEXT, status TEXT, created_at TEXT);
        CREATE TABLE scope_keywords (team_id TEXT, keyword TEXT);
        CREATE TABLE task_queue (id TEXT, team_id TEXT, task TEXT, priority TEXT, status TEXT,
            created_at TEXT, correlation_id TEXT);";

    /// OR-25
    #[test]
    fn an_unknown_layout_is_refused_by_file_table_and_column() {
        let refusal = |statements: &str| {
            let error = check(Path::new(PATH), &database(statements), &tables()).unwrap_err();
            error.to_string()
        };

        assert_eq!(
            refusal("CREATE TABLE notes (id)"),
            "`/r/openhive.db`, table `org_tree`: is missing; this is not a database of OpenHive"
        );
        assert_eq!(
            refusal(&OLD.replace("keyword TEXT", "word TEXT")),
            "`/r/openhive.db`, table `scope_keywords`, column `keyword`: is missing; \
             this version of OpenHive is not known"
        );
    }

    /// OR-25
    #[test]
    fn what_nobody_knows_is_named() {
        let statements = format!(
            "{OLD} ALTER TABLE org_tree ADD COLUMN mood TEXT; CREATE TABLE dreams (id);
             CREATE TABLE trigger_dedup (event_id);"
        );

        let extras = check(Path::new(PATH), &database(&statements), &tables()).unwrap();

        let extra = |table: &str, column: Option<&str>| Extra {
            table: table.into(),
            column: column.map(str::to_owned),
        };
        assert_eq!(extras, [extra("org_tree", Some("mood")), extra("dreams", None)]);
    }

    #[test]
    fn older_versions_read_like_the_newest() {
        let connection = database(OLD);

        let tasks = selection(Path::new(PATH), &connection, &TaskRow::TABLE).unwrap();
        let topics = selection(Path::new(PATH), &connection, &TopicRow::TABLE).unwrap();

        let tasks = tasks.unwrap();
        assert!(tasks.contains("'delegate' AS type"), "{tasks}");
        assert!(tasks.starts_with("id, team_id, task"), "{tasks}");
        assert_eq!(topics, None);
    }

    #[test]
    fn a_column_is_found_under_its_former_name() {
        let columns = TriggerRow::TABLE.columns.iter();
        let always: Vec<_> =
            columns.filter(|column| column.default.is_none()).map(|column| column.name).collect();
        let columns = always.join(", ");
        let connection = database(&format!("CREATE TABLE trigger_configs ({columns}, max_turns)"));

        let found = selection(Path::new(PATH), &connection, &TriggerRow::TABLE).unwrap();

        assert!(found.unwrap().contains("max_turns AS max_steps"));
    }
}
