//! A list of the archive: how its rows are counted, and a page of them is read.

use std::collections::HashSet;

use hivewright_actors::order::{Order, Part, Window};
use rusqlite::{Connection, types::Value};
use serde::Serialize;

use super::merging::{Bound, Row, Stream, bind_all, merge, number};

/// What is wanted of one table, as ranges of its indexes.
pub(super) trait List {
    /// Each range as it is counted: what follows `FROM`, and its parameters.
    fn counted(&self) -> Vec<(String, Bound)>;

    /// For rows that are looked up by their keys: the table, a condition that those which are wanted meet, and its parameters.
    fn by_key(&self) -> rusqlite::Result<(&str, String, Bound)>;

    /// The ranges as they are read. A list is short if it was counted to its end.
    fn streams(&self, is_short: bool) -> Vec<Stream>;
}

/// A page of a list, but for the rows of keys that are known already.
pub(super) fn page(
    connection: &Connection,
    list: &impl List,
    window: &Window<Row>,
    known: &HashSet<Vec<u8>>,
) -> rusqlite::Result<Part<Row>> {
    let found = count_known(connection, list, known)?;
    let total = count_up_to(connection, list, window.counted + 1 + found)?.saturating_sub(found);
    let known = (found > 0).then_some(known);
    let is_short = total <= window.counted;
    let read = |window: &_| merge(connection, list.streams(is_short), window, known);
    let (mut places, mut skipped) = (read(window)?, window.skip);
    if places.is_empty() && skipped > 0 {
        // Nobody has counted to the end: a skip beyond it is taken back.
        skipped = 0;
        places = read(&Window { skip: 0, ..window.clone() })?;
    }
    Ok(Part { total: total.max(skipped + places.len()), places, skipped })
}

/// How many rows of a list are known already.
fn count_known(
    connection: &Connection,
    list: &impl List,
    known: &HashSet<Vec<u8>>,
) -> rusqlite::Result<usize> {
    if known.is_empty() {
        return Ok(0);
    }
    let (table, wanted, mut bound) = list.by_key()?;
    bound.push((":known", in_hex(known.iter())?));
    let select = format!(
        "SELECT count(*) FROM (SELECT unhex(value) AS id FROM json_each(:known)) AS known
        CROSS JOIN {table} AS own ON own.key = known.id WHERE {wanted}"
    );
    count(connection, &select, &bound)
}

/// How many rows a list has, up to so many.
fn count_up_to(connection: &Connection, list: &impl List, most: usize) -> rusqlite::Result<usize> {
    let mut total = 0;
    for (range, mut bound) in list.counted() {
        if total >= most {
            break;
        }
        bound.push((":most", number(most - total).into()));
        let select = format!("SELECT count(*) FROM (SELECT 1 FROM {range} LIMIT :most)");
        total += count(connection, &select, &bound)?;
    }
    Ok(total)
}

/// What a statement counts.
fn count(connection: &Connection, select: &str, bound: &Bound) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(select)?;
    bind_all(&mut statement, bound)?;
    let mut rows = statement.raw_query();
    let count = rows.next()?.map_or(Ok(0), |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// How SQL compares what is behind a place in an order, and what it calls the order.
pub(super) fn directions(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Rising => (">", "ASC"),
        Order::Falling => ("<", "DESC"),
    }
}

/// A list as a parameter.
pub(super) fn json(list: &impl Serialize) -> rusqlite::Result<Value> {
    let text = serde_json::to_string(list);
    text.map(Value::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Keys as a parameter.
pub(super) fn in_hex(keys: impl Iterator<Item = impl AsRef<[u8]>>) -> rusqlite::Result<Value> {
    let hex = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json(&keys.map(|key| hex(key.as_ref())).collect::<Vec<_>>())
}
