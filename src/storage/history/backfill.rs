//! Backfill of columns that tables of former programs lack: they are added, and filled row by row.
//!
//! A row whose facet is none is not filled yet. The index finds those, so that a start with nothing to fill costs nothing,
//! and one that was broken off goes on where it was.

use std::ops::ControlFlow;

use hivewright_actors::store::keys::printable;
use rusqlite::{Connection, params, params_from_iter, types::Value};

use super::{
    merging::number,
    packing::Unpacker,
    tables::Table,
    together::{Beside, Together},
};

/// So many rows are filled in one transaction.
const AT_ONCE: usize = 1_000;

/// Is told how many rows are filled of how many, and says whether it goes on.
pub(super) type Tell<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

/// Lets the tables have their columns. They are empty.
pub(super) fn add(connection: &Connection, tables: &[Table]) -> rusqlite::Result<()> {
    for table in tables {
        let name = table.name();
        for column in table.backfilled_columns() {
            if table.is_there(connection)? && !connection.column_exists(None, name, *column)? {
                connection.execute_batch(&format!(
                    r#"ALTER TABLE "{name}" ADD COLUMN {column} INTEGER"#
                ))?;
            }
        }
    }
    Ok(())
}

/// Fills what is empty.
pub(super) fn fill(
    connection: &Connection,
    tables: &[Table],
    unpacker: &mut Unpacker,
    tell: &mut Tell<'_>,
) -> rusqlite::Result<()> {
    let mut lacking = Vec::new();
    let mut total = 0;
    for table in tables.iter().filter(|table| !table.backfilled_columns().is_empty()) {
        let count = format!(r#"SELECT count(*) FROM "{}" WHERE facet IS NULL"#, table.name());
        let count = connection.query_row(&count, [], |row| row.get::<_, i64>(0))?.cast_unsigned();
        lacking.push((table, count));
        total += count;
    }
    let mut filled = 0;
    for (table, mut left) in lacking {
        while left > 0 {
            if tell(filled, total).is_break() {
                return Ok(());
            }
            let some = fill_some(connection, table, unpacker)?.clamp(1, left);
            left -= some;
            filled += some;
        }
    }
    if total > 0 {
        // It is done, whatever it is told.
        let _ = tell(total, total);
    }
    Ok(())
}

/// Fills some rows of a table, whole and durable. Returns how many.
fn fill_some(
    connection: &Connection,
    table: &Table,
    unpacker: &mut Unpacker,
) -> rusqlite::Result<u64> {
    let name = table.name();
    let set: Vec<String> = table
        .backfilled_columns()
        .iter()
        .zip(2..)
        .map(|(column, place)| format!("{column} = ?{place}"))
        .collect();
    let together = Together::default();
    let batch = connection.unchecked_transaction()?;
    let mut empty = batch.prepare_cached(&format!(
        r#"SELECT key, value FROM "{name}" WHERE facet IS NULL LIMIT ?1"#
    ))?;
    let mut put = batch
        .prepare_cached(&format!(r#"UPDATE "{name}" SET {} WHERE key = ?1"#, set.join(", ")))?;
    let rows = empty.query_map(params![number(AT_ONCE)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows = rows.collect::<rusqlite::Result<Vec<(Vec<u8>, Vec<u8>)>>>()?;
    for (stored, packed) in &rows {
        let key = table.key_of(stored);
        let value = unpacker.unpack(&key, packed).inspect_err(|error| {
            tracing::error!(record = printable(&key), %error, "a record of ended work cannot be read, and is in no list; it is kept as it is");
        });
        let value = value.unwrap_or_default();
        let mut beside = Beside { unpacker: &mut *unpacker, together: &together };
        let columns = table.columns(&batch, &key, &value, &mut beside)?;
        let key = std::iter::once(Value::from(stored.clone()));
        put.execute(params_from_iter(key.chain(columns)))?;
    }
    drop((empty, put));
    batch.commit()?;
    Ok(rows.len() as u64)
}
