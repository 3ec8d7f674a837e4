//! Schema of an OpenHive database, of whichever version: what rows of its tables are declared with.

use std::fmt;

use rusqlite::Row;

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
    /// Its rows are read only if the operator wants them.
    pub(super) on_request: bool,
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
pub(super) const ALWAYS: [&str; 3] = ["org_tree", "scope_keywords", "task_queue"];

/// Tables whose content follows from others, or is of no use any more.
pub(super) const DERIVED: [&str; 4] =
    ["trigger_dedup", "memory_chunks", "embedding_cache", "team_status"];

/// A row of a table that is read.
pub(super) trait Record: fmt::Debug + Send + Sized + Sync + 'static {
    const TABLE: Table;

    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;
}

/// One that belongs to a team.
pub(super) trait TeamRecord: Record {
    /// Its team in the source.
    fn team(&self) -> &str;
}

/// What a thing of the source is known by, so that it is taken once.
///
/// Two installations may use the same numbers, so the moment it was made is part of it.
pub(super) fn mark(table: &str, id: impl std::fmt::Display, made: &str) -> String {
    // No key holds a zero byte.
    format!("openhive/{table}/{id}@{made}").replace('\0', "?")
}

/// Declares the row of a table: `field: Type as "column" or "former_name" = "default"`. A column is
/// called like its field unless it says otherwise. `known by` names the field that tells rows apart, `of` the one with
/// their team.
macro_rules! row {
    ($(#[$doc:meta])* $row:ident in $table:literal by $order:literal
        $(known by $id:ident)? $(of $team:ident)? $(on $request:ident)? {
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
                $crate::import::openhive::schema::mark($table, &self.$id, &self.created_at)
            }
        })?

        $(impl $crate::import::openhive::schema::TeamRecord for $row {
            fn team(&self) -> &str {
                &self.$team
            }
        })?

        impl $crate::import::openhive::schema::Record for $row {
            const TABLE: $crate::import::openhive::schema::Table = $crate::import::openhive::schema::Table {
                name: $table,
                order: $order,
                columns: &[$($crate::import::openhive::schema::Column {
                    name: [$($column,)? stringify!($field)][0],
                    former: [$($(Some($former),)?)? None][0],
                    default: [$(Some($default),)? None][0],
                },)*],
                unread: &[$($($unread),*)?],
                unread_later: &[$($($later),*)?],
                on_request: [$(!stringify!($request).is_empty(),)? false][0],
            };

            fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($field: row.get([$($column,)? stringify!($field)][0])?,)* })
            }
        }
    };
}

pub(super) use row;
