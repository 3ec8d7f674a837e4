//! Version of the archive's form, as its file notes it.
//!
//! | version | |
//! |---|---|
//! | 0 | not noted: archives of former programs, which are brought to the next one when they are opened |
//! | 1 | a task and its journal may share a value; the rows that were there stay as they are |
//! | 2 | ids of tasks are short in keys: archives that were begun so |
//!
//! A former program does not look for a version, but must not write to these.

use rusqlite::{Connection, params};

use super::{FILE, keys::Keys};

const SHARED: i64 = 1;
const SHORT: i64 = 2;

/// What such a program reads first is an error with this text in it.
const REFUSAL: &str = "CREATE VIEW archive AS SELECT
    json_extract('{}', 'this archive is of a later version of Hivewright') AS store, 0 AS number;";

/// Begins an archive in an empty file.
pub(super) fn begin(connection: &Connection, store: u64) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE standing (store INTEGER NOT NULL, number INTEGER NOT NULL) STRICT;
        {REFUSAL}
        PRAGMA user_version = {SHORT};"
    ))?;
    connection.execute("INSERT INTO standing VALUES (?1, 0)", params![store.cast_signed()])?;
    Ok(())
}

/// Brings an archive of a former program to the first version, which takes as long however much it holds. Returns how its
/// keys are written.
pub(super) fn upgrade(connection: &Connection) -> Result<Keys, String> {
    let failed = |error: rusqlite::Error| format!("`{FILE}` cannot be read: {error}");
    match number(connection).map_err(failed)? {
        0 => {
            let upgraded = connection.execute_batch(&format!(
                "BEGIN IMMEDIATE;
                ALTER TABLE archive RENAME TO standing;
                ALTER TABLE done ADD COLUMN piece INTEGER;
                {REFUSAL}
                PRAGMA user_version = {SHARED};
                COMMIT;"
            ));
            upgraded.map_err(failed)?;
        }
        SHARED | SHORT => {}
        later => {
            return Err(format!(
                "`{FILE}` has version {later}, this program knows versions up to {SHORT}"
            ));
        }
    }
    keys(connection).map_err(failed)
}

/// Whether an archive can be read as it is, without being brought to a later version.
pub(super) fn check(connection: &Connection) -> Result<(), String> {
    match number(connection) {
        Ok(SHARED | SHORT) => Ok(()),
        Ok(other) => Err(format!("`{FILE}` has version {other}")),
        Err(error) => Err(format!("`{FILE}` cannot be read: {error}")),
    }
}

/// How the keys of an archive are written.
pub(super) fn keys(connection: &Connection) -> rusqlite::Result<Keys> {
    Ok(if number(connection)? < SHORT { Keys::Plain } else { Keys::Short })
}

fn number(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
