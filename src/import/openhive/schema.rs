//! Tables of an OpenHive database, of whichever version, and the rows that are read from them.

use std::{collections::BTreeSet, path::Path};

use rusqlite::{Connection, Row};

use super::source::{SourceError, damaged};

/// A table that is read, as its versions have laid it out.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) order: &'static str,
    pub(super) columns: &'static [Column],
    /// Columns of every version that say nothing here.
    pub(super) unread: &'static [&'static str],
    /// The same, of some versions.
    pub(super) unread_later: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// What older versions call it.
    pub(super) former: Option<&'static str>,
    /// What a row of a version without the column means. Without a default every version has it.
    pub(super) default: Option<&'static str>,
}

/// Tables that every version has.
const ALWAYS: [&str; 3] = ["org_tree", "scope_keywords", "task_queue"];

/// Tables whose content follows from others, or is of no use any more.
pub(super) const DERIVED: [&str; 4] =
    ["trigger_dedup", "memory_chunks", "embedding_cache", "team_status"];

/// A row of a table that is read.
pub(super) trait Record: Sized {
    const TABLE: Table;

    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;
}

/// Declares the row of a table: `field: Type as "column" or "former_name" = "default"`. A column is
/// called like its field unless it says otherwise. `known by` names the field that tells rows apart.
macro_rules! row {
    ($(#[$doc:meta])* $row:ident in $table:literal by $order:literal $(known by $id:ident)? {
        $($field:ident: $type:ty
            $(as $column:literal $(or $former:literal)?)? $(= $default:literal)?),* $(,)?
    } $(unread [$($unread:literal),*])? $(later [$($later:literal),*])?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(super) struct $row {
            $(pub(super) $field: $type,)*
        }

        $(impl $row {
            /// What it is known by, so that it is taken once.
            pub(super) fn mark(&self) -> String {
                $crate::import::openhive::target::mark($table, &self.$id, &self.created_at)
            }
        })?

        impl $crate::import::openhive::schema::Record for $row {
            const TABLE: $crate::import::openhive::schema::Table =
                $crate::import::openhive::schema::Table {
                    name: $table,
                    order: $order,
                    columns: &[$($crate::import::openhive::schema::Column {
                        name: [$($column,)? stringify!($field)][0],
                        former: [$($(Some($former),)?)? None][0],
                        default: [$(Some($default),)? None][0],
                    },)*],
                    unread: &[$($($unread),*)?],
                    unread_later: &[$($($later),*)?],
                };

            fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($field: row.get([$($column,)? stringify!($field)][0])?,)* })
            }
        }
    };
}

pub(super) use row;

/// Something in the database that nobody here knows, and that is therefore left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) table: String,
    /// None is the whole table.
    pub(super) column: Option<String>,
}

/// Refuses a database that lacks what is read from it, and tells what is in it beside that.
pub(super) fn check(
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
pub(super) fn selection(
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
        super::{installation::TABLES, tasks::TaskRow, topics::TopicRow, triggers::TriggerRow},
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
            let error = check(Path::new(PATH), &database(statements), TABLES).unwrap_err();
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

        let extras = check(Path::new(PATH), &database(&statements), TABLES).unwrap();

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
