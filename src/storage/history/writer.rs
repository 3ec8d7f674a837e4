//! Writer of the archive: the one connection that changes records, and their words with them.

use std::{io, time::Duration};

use hivewright_actors::{store::records::Record, task::records::EndedTask};
use rusqlite::Connection;

use super::{
    BUSY_TIMEOUT,
    packing::{self, Packer, Unpacker},
    tables::Table,
    usage, words,
};

pub(super) struct Writer {
    pub(super) connection: Connection,
    packer: Packer,
    unpacker: Unpacker,
    /// Words were forgotten since the log of SQLite was emptied.
    has_forgotten: bool,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    pub(super) fn new(connection: Connection) -> io::Result<Self> {
        let (packer, unpacker) = (Packer::new()?, Unpacker::default());
        Ok(Self { connection, packer, unpacker, has_forgotten: false })
    }

    /// Takes what was forgotten out of the log of SQLite as well: it may have become a secret. While somebody reads, that
    /// waits for the next transaction.
    pub(super) fn empty_log(&mut self) -> rusqlite::Result<()> {
        if !self.has_forgotten {
            return Ok(());
        }
        self.connection.busy_timeout(Duration::ZERO)?;
        let is_busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        self.has_forgotten = is_busy?;
        Ok(())
    }

    /// Makes the tables that are not there yet.
    pub(super) fn prepare(&self, tables: &[Table]) -> rusqlite::Result<()> {
        tables.iter().try_for_each(|table| table.create(&self.connection))?;
        words::create(&self.connection)
    }

    pub(super) fn put(
        &mut self,
        table: &Table,
        key: &[u8],
        rest: &[u8],
        value: &[u8],
    ) -> rusqlite::Result<()> {
        self.note(table, key, rest, Some(value))?;
        let packed = self.packer.pack(key, value);
        table.put(&self.connection, key, value, &packed)
    }

    /// Puts a record that cannot be read, so that it cannot be read here either.
    pub(super) fn put_damaged(
        &mut self,
        table: &Table,
        key: &[u8],
        rest: &[u8],
        content: &[u8],
    ) -> rusqlite::Result<()> {
        self.note(table, key, rest, None)?;
        table.put(&self.connection, key, content, &packing::unreadable(content))
    }

    pub(super) fn remove(
        &mut self,
        table: &Table,
        key: &[u8],
        rest: &[u8],
    ) -> rusqlite::Result<()> {
        self.note(table, key, rest, None)?;
        table.remove(&self.connection, rest)
    }

    /// Notes what a record is found by, in place of what it was before.
    fn note(
        &mut self,
        table: &Table,
        key: &[u8],
        rest: &[u8],
        value: Option<&[u8]>,
    ) -> rusqlite::Result<()> {
        if table.kind() == EndedTask::KIND {
            return usage::note(&self.connection, key, value);
        }
        if !table.is_indexed() {
            return Ok(());
        }
        let packed = table.get(&self.connection, rest)?;
        let before = packed.and_then(|packed| self.unpacker.unpack(key, &packed).ok());
        let before = before.and_then(|before| table.entry(key, &before));
        let now = value.and_then(|value| table.entry(key, value));
        self.has_forgotten |= before.is_some() && before != now;
        words::note(&self.connection, table.kind(), rest, before.as_ref(), now.as_ref())
    }
}
