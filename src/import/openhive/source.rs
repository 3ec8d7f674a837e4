//! The installation that is imported: its folders and a copy of its database, both only read.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::{Connection, OpenFlags};
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use super::schema::{self, Extra};

/// The database, in the run folder.
const DATABASE: &str = "openhive.db";

/// What SQLite keeps beside a database, and what belongs to it as much as the file itself.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Where SQLite puts its locks: in the database from here on …
const LOCKS: (u64, u64) = (0x4000_0000, 512);
/// … and in the index of its log here.
const LOG_LOCKS: (u64, u64) = (120, 9);

/// Why an installation cannot be read. Nothing has been written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// There is nothing of OpenHive there.
    #[error("there is no `{}`; `{flag}` names the {what} of an OpenHive installation", path.display())]
    Missing {
        /// What was looked for.
        path: PathBuf,
        /// The flag that led there.
        flag: &'static str,
        /// What it should name.
        what: &'static str,
    },
    /// Another program has the database open.
    #[error(
        "`{}` is locked{}; stop OpenHive first, so that nothing changes while it is read",
        path.display(),
        pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    )]
    Locked {
        /// The file.
        path: PathBuf,
        /// Who holds it, if that can be seen from here.
        pid: Option<i32>,
    },
    /// The file was written to while it was copied.
    #[error("`{}` changed while it was copied; stop OpenHive first", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// SQLite cannot read it.
    #[error(
        "`{}`{} is damaged: {reason}",
        path.display(),
        table.as_ref().map(|table| format!(", table `{table}`,")).unwrap_or_default()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        table: Option<String>,
        /// What SQLite says.
        reason: String,
    },
    /// It is not laid out as OpenHive lays it out.
    #[error(
        "`{}`, table `{table}`{}: {reason}",
        path.display(),
        column.as_ref().map(|column| format!(", column `{column}`")).unwrap_or_default()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The column.
        column: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk refused.
    #[error("`{}` cannot be read", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where an installation is.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its settings and rules.
    pub data: PathBuf,
    /// Its teams and its database.
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

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.run.join(DATABASE)
    }
}

/// A copy of the database, open and found good. It is removed when this is dropped.
#[derive(Debug)]
pub struct Copy {
    /// The file it was made of.
    pub(super) original: PathBuf,
    pub(super) connection: Connection,
    /// Tables and columns that nobody here knows.
    pub(super) extras: Vec<Extra>,
    // After the connection: a folder in use cannot go.
    _folder: Temporary,
}

impl Copy {
    /// Copies the database of an installation whose program is stopped.
    pub fn make(source: &Source) -> Result<Self, SourceError> {
        let original = source.database();
        if !original.is_file() {
            return Err(SourceError::Missing { path: original, flag: "--run", what: "run folder" });
        }
        check_locks(&original)?;
        let folder = Temporary::new()
            .map_err(|source| SourceError::Disk { path: std::env::temp_dir(), source })?;
        let copy = folder.0.join(DATABASE);
        copy_files(&original, &copy)?;
        // The log is worked into the copy, so this is open for writing.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&copy, flags)
            .map_err(|error| damaged(&original, None, &error))?;
        check_pages(&original, &connection)?;
        let extras = schema::check(&original, &connection)?;
        Ok(Self { original, connection, extras, _folder: folder })
    }
}

pub(super) fn damaged(path: &Path, table: Option<&str>, error: &rusqlite::Error) -> SourceError {
    SourceError::Damaged {
        path: path.to_owned(),
        table: table.map(str::to_owned),
        reason: error.to_string(),
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
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(SourceError::Disk { path, source }),
        };
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
            Err(error) => {
                let source = error.into();
                return Err(SourceError::Disk { path, source });
            }
        }
    }
    Ok(())
}

fn copy_files(original: &Path, copy: &Path) -> Result<(), SourceError> {
    let states = || -> Result<Vec<_>, SourceError> {
        let names = [""].into_iter().chain(COMPANIONS);
        names.map(|name| state(&companion(original, name))).collect()
    };
    let before = states()?;
    for suffix in [""].into_iter().chain(COMPANIONS) {
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
    let disk = |source| SourceError::Disk { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(found) => Ok(Some((found.len(), found.modified().map_err(disk)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(disk(error)),
    }
}

fn check_pages(original: &Path, connection: &Connection) -> Result<(), SourceError> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| damaged(original, None, &error))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        reason => Err(SourceError::Damaged {
            path: original.to_owned(),
            table: None,
            reason: reason.to_owned(),
        }),
    }
}

/// A folder for the owner alone. The database holds secrets as they are, so it goes when dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> io::Result<Self> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let path = std::env::temp_dir().join(format!("hivewright-import-{number:016x}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a copy of the database stays behind");
        }
    }
}
