//! Whether a database is one of OpenHive, of whichever version.

use std::{collections::BTreeSet, path::Path};

use rusqlite::Connection;

use super::{
    source::{SourceError, damaged},
    tables::{DERIVED, TABLES, Table},
};

/// Something in the database that nobody here knows, and that is therefore left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) table: String,
    /// None is the whole table.
    pub(super) column: Option<String>,
}

/// Refuses a database that lacks what is read from it, and tells what is in it beside that.
pub(super) fn check(path: &Path, connection: &Connection) -> Result<Vec<Extra>, SourceError> {
    let found = tables(path, connection)?;
    let mut extras = Vec::new();
    for table in TABLES {
        let schema = |column: Option<&str>, reason: &str| SourceError::Schema {
            path: path.to_owned(),
            table: table.name.to_owned(),
            column: column.map(str::to_owned),
            reason: reason.to_owned(),
        };
        if !found.contains(table.name) {
            if table.always {
                return Err(schema(None, "is missing; this is not a database of OpenHive"));
            }
            continue;
        }
        let present = columns(path, connection, table.name)?;
        if let Some(missing) = table.columns.iter().find(|name| !present.contains(**name)) {
            return Err(schema(Some(missing), "is missing; this version of OpenHive is not known"));
        }
        let known = |name: &str| {
            table.columns.contains(&name)
                || table.later.iter().any(|(later, _)| *later == name)
                || table.former.iter().any(|(former, _)| *former == name)
        };
        extras.extend(
            present
                .into_iter()
                .filter(|name| !known(name))
                .map(|column| Extra { table: table.name.to_owned(), column: Some(column) }),
        );
    }
    let known = |name: &str| {
        TABLES.iter().any(|table| table.name == name)
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
pub(super) fn selection(
    path: &Path,
    connection: &Connection,
    table: &Table,
) -> Result<Option<String>, SourceError> {
    let present = columns(path, connection, table.name)?;
    if present.is_empty() {
        return Ok(None);
    }
    let later = table.later.iter().map(|(name, default)| {
        let former = table.former.iter().find(|(_, now)| now == name);
        match former {
            _ if present.contains(*name) => (*name).to_owned(),
            Some((former, _)) if present.contains(*former) => format!("{former} AS {name}"),
            _ => format!("{default} AS {name}"),
        }
    });
    let columns = table.columns.iter().map(|name| (*name).to_owned());
    Ok(Some(columns.chain(later).collect::<Vec<_>>().join(", ")))
}

fn tables(path: &Path, connection: &Connection) -> Result<BTreeSet<String>, SourceError> {
    let read = || -> rusqlite::Result<BTreeSet<String>> {
        connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?
            .query_map([], |row| row.get(0))?
            .collect()
    };
    read().map_err(|error| damaged(path, None, &error))
}

fn columns(
    path: &Path,
    connection: &Connection,
    table: &str,
) -> Result<BTreeSet<String>, SourceError> {
    let read = || -> rusqlite::Result<BTreeSet<String>> {
        connection
            .prepare("SELECT name FROM pragma_table_info(?1)")?
            .query_map([table], |row| row.get(0))?
            .collect()
    };
    read().map_err(|error| damaged(path, Some(table), &error))
}

#[cfg(test)]
mod tests {

    use super::{
        super::tables::{TASK_QUEUE, TOPICS, TRIGGER_CONFIGS},
        *,
    };

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
            let error = check(Path::new(PATH), &database(statements)).unwrap_err();
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

        let extras = check(Path::new(PATH), &database(&statements)).unwrap();

        let extra = |table: &str, column: Option<&str>| Extra {
            table: table.into(),
            column: column.map(str::to_owned),
        };
        assert_eq!(extras, [extra("org_tree", Some("mood")), extra("dreams", None)]);
    }

    #[test]
    fn older_versions_read_like_the_newest() {
        let connection = database(OLD);

        let tasks = selection(Path::new(PATH), &connection, &TASK_QUEUE).unwrap();
        let topics = selection(Path::new(PATH), &connection, &TOPICS).unwrap();

        let tasks = tasks.unwrap();
        assert!(tasks.contains("'delegate' AS type"), "{tasks}");
        assert!(tasks.starts_with("id, team_id, task"), "{tasks}");
        assert_eq!(topics, None);
    }

    #[test]
    fn a_column_is_found_under_its_former_name() {
        let columns = TRIGGER_CONFIGS.columns.join(", ");
        let connection = database(&format!("CREATE TABLE trigger_configs ({columns}, max_turns)"));

        let found = selection(Path::new(PATH), &connection, &TRIGGER_CONFIGS).unwrap();

        assert!(found.unwrap().contains("max_turns AS max_steps"));
    }
}
