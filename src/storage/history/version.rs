//! Version of the archive's form, as its file notes it.
//!
//! | version | |
//! |---|---|
//! | 0 | not noted: the first archives |
//! | 1 | a task and its journal may share a value; the rows that were there stay as they are |
//! | 2 | as 1, and ids of tasks are short in keys: archives that were begun so |
//! | 3, 4 | as 1 and 2, and the lists of the audit, of approvals, of questions and of sessions have an index |
//!
//! An archive of a former program is brought to 3 or 4 when it is opened. Such a program does not look for a version (0), or
//! refuses one that it does not know, and must not write to these: what it wrote would be missing in the indexes.

use rusqlite::{Connection, params};

use super::{FILE, keys::Keys};

const SHARED: i64 = 1;
const SHORT: i64 = 2;
const INDEXED: i64 = 3;
const INDEXED_SHORT: i64 = 4;

/// What such a program reads first is an error with this text in it.
const REFUSAL: &str = "CREATE VIEW archive AS SELECT
    json_extract('{}', 'this archive is of a later version of Hivewright') AS store, 0 AS number;";

/// Begins an archive in an empty file.
pub(super) fn begin(connection: &Connection, store: u64) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE standing (store INTEGER NOT NULL, number INTEGER NOT NULL) STRICT;
        {REFUSAL}
        PRAGMA user_version = {INDEXED_SHORT};"
    ))?;
    connection.execute("INSERT INTO standing VALUES (?1, 0)", params![store.cast_signed()])?;
    Ok(())
}

/// Brings an archive of a former program to the version of its kind, which takes as long however much it holds. Returns how
/// its keys are written.
pub(super) fn upgrade(connection: &Connection) -> Result<Keys, String> {
    let failed = |error: rusqlite::Error| format!("`{FILE}` cannot be read: {error}");
    let upgraded = match number(connection).map_err(failed)? {
        0 => connection.execute_batch(&format!(
            "BEGIN IMMEDIATE;
            ALTER TABLE archive RENAME TO standing;
            ALTER TABLE done ADD COLUMN piece INTEGER;
            {REFUSAL}
            PRAGMA user_version = {INDEXED};
            COMMIT;"
        )),
        SHARED => connection.pragma_update(None, "user_version", INDEXED),
        SHORT => connection.pragma_update(None, "user_version", INDEXED_SHORT),
        INDEXED | INDEXED_SHORT => Ok(()),
        later => {
            return Err(format!(
                "`{FILE}` has version {later}, this program knows versions up to {INDEXED_SHORT}"
            ));
        }
    };
    upgraded.map_err(failed)?;
    keys(connection).map_err(failed)
}

/// Whether an archive can be read as it is, without being brought to a later version.
pub(super) fn check(connection: &Connection) -> Result<(), String> {
    match number(connection) {
        Ok(SHARED | SHORT | INDEXED | INDEXED_SHORT) => Ok(()),
        Ok(other) => Err(format!("`{FILE}` has version {other}")),
        Err(error) => Err(format!("`{FILE}` cannot be read: {error}")),
    }
}

/// How the keys of an archive are written.
pub(super) fn keys(connection: &Connection) -> rusqlite::Result<Keys> {
    let is_short = matches!(number(connection)?, SHORT | INDEXED_SHORT);
    Ok(if is_short { Keys::Short } else { Keys::Plain })
}

fn number(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
