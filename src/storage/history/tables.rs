//! Tables of the archive: one for each kind of record, by the rest of its keys.

use std::borrow::Cow;

use hivewright_actors::{
    archive::Shelf,
    journal::records::Piece,
    search::Entry,
    storage::Order,
    store::{keys::prefix_of, records::Record},
    task::records::FinishedTask,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, params_from_iter, types::Value};

use super::{
    audit,
    columns::{Columns, Held},
    keys::Keys,
    tasks,
    together::Beside,
    waits,
};

const COLUMNS: &[Columns] = &[tasks::COLUMNS, audit::COLUMNS, waits::APPROVALS, waits::QUESTIONS];

/// Kinds whose large records arrive in another order than that of their keys. Kept as they arrive, they fill their pages;
/// by their keys, each would be put between others, in pages that stay half empty.
const BY_ARRIVAL: &[&str] = &[Piece::KIND];

/// The kind whose records may be guests: in `piece` is the row of the journal that such a one stands in.
const GUEST: &str = FinishedTask::KIND;

#[derive(Clone, Debug)]
pub(super) struct Table {
    shelf: Shelf,
    /// As the file has it.
    name: String,
    keys: Keys,
    prefix: Vec<u8>,
    columns: Option<&'static Columns>,
    create: String,
    put: String,
    select_columns: String,
    remove: String,
    get: String,
    count: String,
    /// Rising and falling, with and without an end.
    walks: [[String; 2]; 2],
}

/// The tables of all kinds, in the order of their keys.
pub(super) fn all(shelves: &[Shelf], keys: Keys) -> Vec<Table> {
    let mut tables: Vec<Table> = shelves.iter().map(|shelf| Table::new(*shelf, keys)).collect();
    tables.sort_unstable_by(|one, other| one.prefix.cmp(&other.prefix));
    tables
}

impl Table {
    fn new(shelf: Shelf, keys: Keys) -> Self {
        let bare = shelf.kind.replace('\0', ".");
        let name = format!("\"{bare}\"");
        let is_guest = shelf.kind == GUEST;
        let (held, from) = if is_guest {
            let from = format!("{name} AS own LEFT JOIN hist ON hist.rowid = own.piece");
            ("coalesce(hist.value, own.value), hist.key", from)
        } else {
            ("own.value, NULL", format!("{name} AS own"))
        };
        let walk = |order: &str, end: &str| {
            format!(
                "SELECT {held}, own.key FROM {from} \
                 WHERE own.key >= ?1{end} ORDER BY own.key {order} LIMIT ?2"
            )
        };
        let walks = |order| [walk(order, ""), walk(order, " AND own.key < ?3")];
        let columns = COLUMNS.iter().find(|columns| columns.kind == shelf.kind);
        let names = columns.map_or(&[][..], |columns| columns.names);
        let each = |form: &dyn Fn(usize, &str) -> String| -> String {
            let names = is_guest.then_some(&"piece").into_iter().chain(names);
            names.enumerate().map(|(place, name)| form(place, name)).collect()
        };
        let indexes = columns.map_or(String::new(), |it| it.indexes.replace("{kind}", it.kind));
        let declared = columns.map_or(String::new(), |it| format!("{}, ", it.declared));
        let declared = declared + if is_guest { "piece INTEGER, " } else { "" };
        let (key, layout) = if BY_ARRIVAL.contains(&shelf.kind) {
            ("id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE", "")
        } else {
            ("key BLOB PRIMARY KEY", ", WITHOUT ROWID")
        };
        let returned = match names {
            [] => "NULL".to_owned(),
            names => names.join(", "),
        };
        Self {
            shelf,
            name: bare,
            keys,
            prefix: prefix_of(shelf.kind, &()),
            columns,
            // The value last: it may be long.
            create: format!(
                "CREATE TABLE IF NOT EXISTS {name} \
                 ({key}, {declared}value BLOB NOT NULL) STRICT{layout};{indexes}"
            ),
            put: format!(
                "INSERT INTO {name} (key, value{}) VALUES (?1, ?2{}) \
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value{}",
                each(&|_, name| format!(", {name}")),
                each(&|place, _| format!(", ?{}", place + 3)),
                each(&|_, name| format!(", {name} = excluded.{name}")),
            ),
            select_columns: format!("SELECT {returned} FROM {name} WHERE key = ?1"),
            remove: format!("DELETE FROM {name} WHERE key = ?1 RETURNING {returned}"),
            get: format!("SELECT {held} FROM {from} WHERE own.key = ?1"),
            count: format!("SELECT count(*) FROM {name}"),
            walks: [walks("ASC"), walks("DESC")],
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        self.shelf.kind
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its columns that tables of former programs lack.
    pub(super) fn backfilled_columns(&self) -> &'static [&'static str] {
        self.columns.filter(|columns| columns.is_backfilled).map_or(&[], |columns| columns.names)
    }

    /// How its keys are written.
    pub(super) fn keys(&self) -> Keys {
        self.keys
    }

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

    /// The rest of a key that it holds.
    pub(super) fn rest<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.strip_prefix(&*self.prefix).unwrap_or(key)
    }

    /// The key of a row, from the rest of a record's key.
    pub(super) fn stored<'a>(&self, rest: &'a [u8]) -> Cow<'a, [u8]> {
        self.keys.stored(self.kind(), rest)
    }

    /// The whole key of a record, from the key of its row.
    pub(super) fn key_of(&self, stored: &[u8]) -> Vec<u8> {
        [&*self.prefix, &self.keys.rest(self.kind(), stored)].concat()
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

    pub(super) fn is_there(&self, connection: &Connection) -> rusqlite::Result<bool> {
        connection.table_exists(None, &*self.name)
    }

    pub(super) fn create(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(&self.create)
    }

    /// What a record has beside key and value.
    pub(super) fn columns(
        &self,
        connection: &Connection,
        key: &[u8],
        value: &[u8],
        beside: &mut Beside<'_>,
    ) -> rusqlite::Result<Vec<Value>> {
        let read = |columns: &Columns| (columns.read)(connection, self.keys, key, value, beside);
        Ok(self.columns.map(read).transpose()?.unwrap_or_default())
    }

    /// Puts a record, of which the table holds the packed value. A guest is in a row of the journal instead.
    pub(super) fn put(
        &self,
        connection: &Connection,
        key: &[u8],
        columns: &[Value],
        packed: &[u8],
        host: Option<i64>,
    ) -> rusqlite::Result<()> {
        let rest = self.stored(self.rest(key));
        let had = self
            .columns
            .map(|_| self.columns_by(connection, &self.select_columns, &rest))
            .transpose()?;
        let fixed: [&dyn ToSql; 2] = [&rest, &packed];
        let host = (self.kind() == GUEST).then_some(&host as &dyn ToSql);
        let all = columns.iter().map(|column| column as &dyn ToSql);
        let all = params_from_iter(fixed.into_iter().chain(host).chain(all));
        connection.prepare_cached(&self.put)?.execute(all)?;
        self.forget(connection, had.flatten().filter(|had| had != columns))
    }

    pub(super) fn remove(&self, connection: &Connection, key: &[u8]) -> rusqlite::Result<()> {
        let removed = self.columns_by(connection, &self.remove, &self.stored(key))?;
        self.forget(connection, removed)
    }

    /// What a statement says that a record has beside key and value; none if it is not there.
    fn columns_by(
        &self,
        connection: &Connection,
        statement: &str,
        stored: &[u8],
    ) -> rusqlite::Result<Option<Vec<Value>>> {
        let mut statement = connection.prepare_cached(statement)?;
        let count = statement.column_count();
        let found = statement.query_row(params![stored], |row| {
            (0..count).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()
        });
        found.optional()
    }

    /// No record has this beside it any more.
    fn forget(&self, connection: &Connection, gone: Option<Vec<Value>>) -> rusqlite::Result<()> {
        match (gone, self.columns) {
            (Some(gone), Some(columns)) => (columns.sweep)(connection, &gone),
            _ => Ok(()),
        }
    }

    pub(super) fn get(
        &self,
        connection: &Connection,
        key: &[u8],
    ) -> rusqlite::Result<Option<Held>> {
        let mut get = connection.prepare_cached(&self.get)?;
        get.query_row(params![self.stored(key)], held).optional()
    }

    pub(super) fn count(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let count = connection.prepare(&self.count)?.query_row([], |row| row.get::<_, i64>(0));
        count.map(i64::cast_unsigned)
    }

    /// Shows records by their whole keys in order, at most so many.
    pub(super) fn walk(
        &self,
        connection: &Connection,
        from: &[u8],
        to: Option<&[u8]>,
        order: Order,
        most: usize,
        show: &mut dyn FnMut(&[u8], &Held),
    ) -> rusqlite::Result<()> {
        let walks = &self.walks[usize::from(order == Order::Falling)];
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut statement = connection.prepare_cached(&walks[usize::from(to.is_some())])?;
        let mut rows = match to {
            Some(to) => statement.query(params![self.stored(from), most, self.stored(to)])?,
            None => statement.query(params![self.stored(from), most])?,
        };
        while let Some(row) = rows.next()? {
            show(&self.key_of(row.get_ref(2)?.as_blob()?), &held(row)?);
        }
        Ok(())
    }
}

fn held(row: &Row<'_>) -> rusqlite::Result<Held> {
    Ok(Held::read(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob_or_null()?))
}
