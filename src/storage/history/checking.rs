//! Check of the archive's indexes: each record is in each index that it should be in, as it is, and nothing else is.
//!
//! What SQLite finds wrong with the file itself is asked of SQLite. A record that cannot be read is in no list, and is no fault
//! of an index.

use hivewright_actors::{
    approvals::{question::Question, record::Approval},
    journal::records::Piece,
    search::Entry,
    storage::Order,
    store::{keys::printable, records::Record},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Reader, audit, columns::Note, sessions, tables::Table, tasks, waits, words};

/// Compares the indexes with the records, as they are at one moment.
pub(super) fn check(
    reader: &mut Reader,
    tables: &[Table],
    note: &mut Note<'_>,
) -> rusqlite::Result<()> {
    let Reader { connection, keys, unpacker } = reader;
    let moment = connection.unchecked_transaction()?;
    tasks::check(&moment, *keys, unpacker, note)?;
    audit::check(&moment, unpacker, note)?;
    waits::check::<Approval>(&moment, unpacker, note)?;
    waits::check::<Question>(&moment, unpacker, note)?;
    for table in tables.iter().filter(|table| table.kind() == Piece::KIND) {
        sessions::check(&moment, table, unpacker, note)?;
    }
    for table in tables.iter().filter(|table| table.is_indexed()) {
        let mut failed = Ok(());
        table.walk(&moment, &[], None, Order::Rising, usize::MAX, &mut |key, held| {
            let value = unpacker.unpack_from(held.row(key), key, &held.packed);
            if let (Ok(value), true) = (value, failed.is_ok()) {
                let entry = table.entry(key, &value);
                failed = words_of(&moment, table, key, entry.as_ref(), note);
            }
        })?;
        failed?;
        for stored in words::left_over(&moment, table.kind())? {
            let name = printable(&table.key_of(&stored));
            note(format!("the full-text index names `{name}`, which is not there"));
        }
    }
    Ok(())
}

/// Whether a search finds a record by what it says, and only then.
fn words_of(
    connection: &Connection,
    table: &Table,
    key: &[u8],
    entry: Option<&Entry>,
    note: &mut Note<'_>,
) -> rusqlite::Result<()> {
    let mut said =
        connection.prepare_cached("SELECT id, at, team FROM said WHERE kind = ?1 AND key = ?2")?;
    let read = |row: &Row<'_>| -> rusqlite::Result<(i64, i64, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    let stored = table.stored(table.rest(key));
    let found = said.query_row(params![table.kind(), stored], read).optional()?;
    let fault = match (entry, found) {
        (None, None) => None,
        (None, Some(_)) => Some("has words of what says none:"),
        (Some(_), None) => Some("lacks"),
        (Some(entry), Some((id, at, team))) => {
            if (at.cast_unsigned(), &*team) != (entry.at.0, entry.team.as_str()) {
                Some("has another time or team of")
            } else if words::lacks_words(connection, id, entry)? {
                Some("lacks words of")
            } else {
                None
            }
        }
    };
    if let Some(fault) = fault {
        note(format!("the full-text index {fault} `{}`", printable(key)));
    }
    Ok(())
}
