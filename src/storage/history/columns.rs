//! Columns of the archive's tables: what a row has beside its key, and its value as it is held.

use hivewright_actors::{
    journal::records::Piece,
    store::{keys::prefix_of, records::Record},
};
use rusqlite::{Connection, types::Value};

use super::{keys::Keys, together::Beside};

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
    /// Makes what belongs to the table, if it is not there.
    pub(super) indexes: &'static str,
    /// What the columns of a record hold, from its stored key and its value.
    pub(super) read: ReadColumns,
    /// A record with such columns was removed.
    pub(super) sweep: fn(&Connection, &[Value]) -> rusqlite::Result<()>,
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
