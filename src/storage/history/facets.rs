//! Facets: what many rows of the archive have in common, as one number.

use rusqlite::{Connection, OptionalExtension, Params, Row, types::Value};

/// The number of what a statement finds, or else of what another one makes.
pub(super) fn number_of<Values: Params + Copy>(
    connection: &Connection,
    [find, make]: [&str; 2],
    values: Values,
) -> rusqlite::Result<i64> {
    let found = connection.prepare_cached(find)?.query_row(values, |row| row.get(0)).optional()?;
    found.map_or_else(|| connection.prepare_cached(make)?.query_row(values, |row| row.get(0)), Ok)
}

/// The numbers, which a statement selects first, of those that are wanted.
pub(super) fn wanted(
    connection: &Connection,
    select: &str,
    wants: impl Fn(&Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(select)?;
    let mut rows = statement.query([])?;
    let mut numbers = Vec::new();
    while let Some(row) = rows.next()? {
        if wants(row)? {
            numbers.push(row.get(0)?);
        }
    }
    Ok(numbers)
}

/// Nothing is left of a row that was removed: also no name that was only in it.
pub(super) fn sweep(
    connection: &Connection,
    table: &str,
    column: &str,
    number: &Value,
) -> rusqlite::Result<()> {
    let unused = format!(
        r#"DELETE FROM "{table}.{column}" WHERE id = ?1
        AND NOT EXISTS (SELECT 1 FROM {table} WHERE {column} = ?1)"#
    );
    connection.prepare_cached(&unused)?.execute([number]).map(drop)
}
