//! Tables of the archive: one for each kind of record, by the rest of its keys.

use hivewright_actors::{
    archive::Shelf,
    journal::records::Piece,
    search::Entry,
    storage::Order,
    store::{keys::prefix_of, records::Record},
};
use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter, types::Value};

use super::tasks;

/// What the columns of a record hold, from its stored key and its value.
type ReadColumns = fn(&Connection, &[u8], &[u8]) -> rusqlite::Result<Vec<Value>>;

/// What a table has beside key and value, for lists.
#[derive(Debug)]
pub(super) struct Columns {
    /// Of which kind of record.
    pub(super) kind: &'static str,
    pub(super) names: &'static [&'static str],
    /// The columns as `CREATE TABLE` has them.
    pub(super) declared: &'static str,
    /// Makes what belongs to the table, if it is not there.
    pub(super) indexes: &'static str,
    /// What the columns of a record hold, from its stored key and its value.
    pub(super) read: ReadColumns,
    /// A record with such columns was removed.
    pub(super) sweep: fn(&Connection, &[Value]) -> rusqlite::Result<()>,
}

const COLUMNS: &[Columns] = &[tasks::COLUMNS];

/// Kinds whose large records arrive in another order than that of their keys. Kept as they arrive, they fill their pages;
/// by their keys, each would be put between others, in pages that stay half empty.
const BY_ARRIVAL: &[&str] = &[Piece::KIND];

/// The table of one kind of record.
#[derive(Clone, Debug)]
pub(super) struct Table {
    shelf: Shelf,
    prefix: Vec<u8>,
    columns: Option<&'static Columns>,
    create: String,
    put: String,
    remove: String,
    get: String,
    count: String,
    /// Rising and falling, with and without an end.
    walks: [[String; 2]; 2],
}

/// The tables of all kinds, in the order of their keys.
pub(super) fn all(shelves: &[Shelf]) -> Vec<Table> {
    let mut tables: Vec<Table> = shelves.iter().copied().map(Table::new).collect();
    tables.sort_unstable_by(|one, other| one.prefix.cmp(&other.prefix));
    tables
}

impl Table {
    pub(super) fn new(shelf: Shelf) -> Self {
        let name = format!("\"{}\"", shelf.kind.replace('\0', "."));
        let walk = |order: &str, end: &str| {
            format!(
                "SELECT key, value FROM {name} WHERE key >= ?1{end} ORDER BY key {order} LIMIT ?2"
            )
        };
        let walks = |order| [walk(order, ""), walk(order, " AND key < ?3")];
        let columns = COLUMNS.iter().find(|columns| columns.kind == shelf.kind);
        let names = columns.map_or(&[][..], |columns| columns.names);
        let each = |form: &dyn Fn(usize, &str) -> String| -> String {
            names.iter().enumerate().map(|(place, name)| form(place, name)).collect()
        };
        let (declared, indexes) =
            columns.map_or_else(Default::default, |it| (format!("{}, ", it.declared), it.indexes));
        let layout = if BY_ARRIVAL.contains(&shelf.kind) { "" } else { ", WITHOUT ROWID" };
        let returned = match names {
            [] => "NULL".to_owned(),
            names => names.join(", "),
        };
        Self {
            shelf,
            prefix: prefix_of(shelf.kind, &()),
            columns,
            // The value last: it may be long.
            create: format!(
                "CREATE TABLE IF NOT EXISTS {name} \
                 (key BLOB PRIMARY KEY, {declared}value BLOB NOT NULL) STRICT{layout};{indexes}"
            ),
            put: format!(
                "INSERT INTO {name} (key, value{}) VALUES (?1, ?2{}) \
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value{}",
                each(&|_, name| format!(", {name}")),
                each(&|place, _| format!(", ?{}", place + 3)),
                each(&|_, name| format!(", {name} = excluded.{name}")),
            ),
            remove: format!("DELETE FROM {name} WHERE key = ?1 RETURNING {returned}"),
            get: format!("SELECT value FROM {name} WHERE key = ?1"),
            count: format!("SELECT count(*) FROM {name}"),
            walks: [walks("ASC"), walks("DESC")],
        }
    }

    /// The kind of record.
    pub(super) fn kind(&self) -> &'static str {
        self.shelf.kind
    }

    /// Whether a search finds its records.
    pub(super) fn is_indexed(&self) -> bool {
        self.shelf.index.is_some()
    }

    /// What a search finds a record by.
    pub(super) fn entry(&self, key: &[u8], value: &[u8]) -> Option<Entry> {
        self.shelf.index.and_then(|index| index(key, value))
    }

    /// What the keys begin with that it holds the rest of.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The rows that a range of keys means: from, and up to; none if it has none of them.
    pub(super) fn rows<'a>(
        &self,
        start: &'a [u8],
        end: &'a [u8],
    ) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let prefix = self.prefix();
        let from = match start.strip_prefix(prefix) {
            Some(rest) => rest,
            None if start < prefix => &[],
            None => return None,
        };
        let to = match end.strip_prefix(prefix) {
            Some([]) => return None,
            Some(rest) => Some(rest),
            None if end > prefix => None,
            None => return None,
        };
        Some((from, to))
    }

    pub(super) fn create(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(&self.create)
    }

    /// Puts a record, of which the table holds the packed value.
    pub(super) fn put(
        &self,
        connection: &Connection,
        key: &[u8],
        value: &[u8],
        packed: &[u8],
    ) -> rusqlite::Result<()> {
        let rest = key.strip_prefix(&*self.prefix).unwrap_or(key);
        let columns = self.columns.map(|columns| (columns.read)(connection, key, value));
        let columns = columns.transpose()?.unwrap_or_default();
        let fixed: [&dyn ToSql; 2] = [&rest, &packed];
        let columns = columns.iter().map(|column| column as &dyn ToSql);
        let all = params_from_iter(fixed.into_iter().chain(columns));
        connection.prepare_cached(&self.put)?.execute(all).map(drop)
    }

    pub(super) fn remove(&self, connection: &Connection, key: &[u8]) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(&self.remove)?;
        let count = statement.column_count();
        let removed = statement.query_row(params![key], |row| {
            (0..count).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()
        });
        match (removed.optional()?, self.columns) {
            (Some(removed), Some(columns)) => (columns.sweep)(connection, &removed),
            _ => Ok(()),
        }
    }

    pub(super) fn get(
        &self,
        connection: &Connection,
        key: &[u8],
    ) -> rusqlite::Result<Option<Vec<u8>>> {
        connection.prepare_cached(&self.get)?.query_row(params![key], |row| row.get(0)).optional()
    }

    pub(super) fn count(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let count = connection.prepare(&self.count)?.query_row([], |row| row.get::<_, i64>(0));
        count.map(i64::cast_unsigned)
    }

    /// Shows rows in order, at most so many.
    pub(super) fn walk(
        &self,
        connection: &Connection,
        from: &[u8],
        to: Option<&[u8]>,
        order: Order,
        most: usize,
        show: &mut dyn FnMut(&[u8], &[u8]),
    ) -> rusqlite::Result<()> {
        let walks = &self.walks[usize::from(order == Order::Falling)];
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut statement = connection.prepare_cached(&walks[usize::from(to.is_some())])?;
        let mut rows = match to {
            Some(to) => statement.query(params![from, most, to])?,
            None => statement.query(params![from, most])?,
        };
        while let Some(row) = rows.next()? {
            show(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}
