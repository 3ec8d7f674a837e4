//! Columns of the archive's tables: what a row has beside its key, and its value as it is held.

use hivewright_actors::{
    clock::Timestamp,
    journal::records::Piece,
    store::{keys::prefix_of, records::Record},
};
use rusqlite::{Connection, Row, types::Value};

use super::{keys::Keys, together::Beside};

/// The facet of what cannot be read, and is in no list.
pub(super) const UNREADABLE: i64 = 0;

/// What the columns of a record hold, from its stored key and its value.
type ReadColumns =
    fn(&Connection, Keys, &[u8], &[u8], &mut Beside<'_>) -> rusqlite::Result<Vec<Value>>;

/// What a table has beside key and value, for lists.
#[derive(Debug)]
pub(super) struct Columns {
    /// Of which kind of record.
    pub(super) kind: &'static str,
    pub(super) names: &'static [&'static str],
    /// The columns as `CREATE TABLE` has them.
    pub(super) declared: &'static str,
    /// Archives of former programs lack them, and a row without a facet is yet to be filled.
    pub(super) is_backfilled: bool,
    /// Makes what belongs to the table of the `{kind}`, if it is not there.
    pub(super) indexes: &'static str,
    /// What the columns of a record hold, from its stored key and its value.
    pub(super) read: ReadColumns,
    /// A record with such columns was removed.
    pub(super) sweep: fn(&Connection, &[Value]) -> rusqlite::Result<()>,
}

/// Is told what differs between records and what lists know of them, one line each.
pub(super) type Note<'a> = dyn FnMut(String) + 'a;

/// Whether the columns of a row from one on have these values.
pub(super) fn have(
    row: &Row<'_>,
    first: usize,
    expected: impl Iterator<Item = Value>,
) -> rusqlite::Result<bool> {
    for (value, column) in expected.zip(first..) {
        if row.get::<_, Value>(column)? != value {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A moment as a column has it.
pub(super) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// A value as a table has it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) packed: Vec<u8>,
    /// The key of the row that it stands in, if that is of another record.
    pub(super) host: Option<Vec<u8>>,
}

impl Held {
    /// The key of the row that the record of a key stands in.
    pub(super) fn row<'a>(&'a self, key: &'a [u8]) -> &'a [u8] {
        self.host.as_deref().unwrap_or(key)
    }

    /// A value, and the rest of the key of the journal that it stands in.
    pub(super) fn read(packed: &[u8], host: Option<&[u8]>) -> Self {
        let host = host.map(|rest| [&prefix_of(Piece::KIND, &()), rest].concat());
        Self { packed: packed.to_vec(), host }
    }
}
