//! Writer of the archive: the one connection that changes records, and their words with them.

use std::{io, time::Duration};

use hivewright_actors::{store::records::Record, task::records::EndedTask};
use rusqlite::Connection;

use super::{
    BUSY_TIMEOUT,
    packing::{self, Packer, Unpacker},
    tables::{Held, Table},
    turns::{self, Stored},
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
        if self.has_forgotten {
            self.has_forgotten = !self.checkpoint()?;
        }
        Ok(())
    }

    /// Writes the log of SQLite to the file and empties it. Returns whether it is empty: not while somebody reads.
    pub(super) fn checkpoint(&self) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let is_busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(!is_busy?)
    }

    /// Makes the tables that are not there yet.
    pub(super) fn prepare(&self, tables: &[Table]) -> rusqlite::Result<()> {
        tables.iter().try_for_each(|table| table.create(&self.connection))?;
        words::create(&self.connection)
    }

    pub(super) fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> rusqlite::Result<()> {
        self.note(table, key, Some(value))?;
        let packed = self.packer.pack(key, value);
        table.put(&self.connection, key, value, &packed, None)
    }

    /// Puts a piece of a journal and its task into one row, if they fit.
    pub(super) fn put_turn(
        &mut self,
        journal: &Table,
        piece: Stored<'_>,
        tasks: &Table,
        task: Stored<'_>,
    ) -> rusqlite::Result<()> {
        let Some(packed) = self.packer.join(piece, task) else {
            self.put(tasks, task.0, task.1)?;
            return self.put(journal, piece.0, piece.1);
        };
        self.note(tasks, task.0, Some(task.1))?;
        self.note(journal, piece.0, Some(piece.1))?;
        journal.put(&self.connection, piece.0, piece.1, &packed, None)?;
        let row = turns::row_of(&self.connection, journal.rest(piece.0))?;
        tasks.put(&self.connection, task.0, task.1, &[], Some(row))
    }

    /// The same with the task that is there under a key, if it is, and alone.
    pub(super) fn put_late(
        &mut self,
        journal: &Table,
        piece: Stored<'_>,
        tasks: &Table,
        task: &[u8],
    ) -> rusqlite::Result<()> {
        let held = tasks.get(&self.connection, tasks.rest(task))?;
        let alone = held.filter(|held| held.host.is_none());
        match alone.and_then(|held| self.unpacker.unpack(task, &held.packed).ok()) {
            Some(value) => self.put_turn(journal, piece, tasks, (task, &value)),
            None => self.put(journal, piece.0, piece.1),
        }
    }

    /// Puts a record that cannot be read, so that it cannot be read here either.
    pub(super) fn put_damaged(
        &mut self,
        table: &Table,
        key: &[u8],
        content: &[u8],
    ) -> rusqlite::Result<()> {
        self.note(table, key, None)?;
        table.put(&self.connection, key, content, &packing::unreadable(content), None)
    }

    pub(super) fn remove(&mut self, table: &Table, key: &[u8]) -> rusqlite::Result<()> {
        self.note(table, key, None)?;
        table.remove(&self.connection, table.rest(key))
    }

    /// Notes what a record is found by, in place of what it was before.
    fn note(&mut self, table: &Table, key: &[u8], value: Option<&[u8]>) -> rusqlite::Result<()> {
        if table.kind() == EndedTask::KIND {
            return usage::note(&self.connection, table.keys(), key, value);
        }
        if !table.is_indexed() {
            return Ok(());
        }
        let rest = table.rest(key);
        let held = table.get(&self.connection, rest)?;
        if let Some(held) = &held {
            let packing = (&mut self.packer, &mut self.unpacker);
            turns::part(&self.connection, table.keys(), packing, key, held)?;
        }
        let unpack = |held: Held| self.unpacker.unpack_from(held.row(key), key, &held.packed).ok();
        let before = held.and_then(unpack).and_then(|before| table.entry(key, &before));
        let now = value.and_then(|value| table.entry(key, value));
        self.has_forgotten |= before.is_some() && before != now;
        words::note(
            &self.connection,
            table.kind(),
            &table.stored(rest),
            before.as_ref(),
            now.as_ref(),
        )
    }
}
