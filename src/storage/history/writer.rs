//! Writer of the archive: the one connection that changes records, and their words with them.

use std::time::Duration;

use hivewright_actors::{
    journal::records::Piece, store::records::Record, task::records::EndedTask,
};
use rusqlite::Connection;

use super::{
    BUSY_TIMEOUT,
    backfill::{self, Tell},
    packing::{self, Packer, Unpacker},
    sessions, shrink,
    tables::Table,
    together::{Beside, Together},
    turns::{self, Stored},
    usage,
    words::{self, Before},
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
    pub(super) fn new(connection: Connection) -> Self {
        let (packer, unpacker) = Default::default();
        Self { connection, packer, unpacker, has_forgotten: false }
    }

    /// Takes what was forgotten out of the log of SQLite as well: it may have become a secret. While somebody reads, that
    /// waits for the next transaction.
    pub(super) fn clean_log(&mut self) -> rusqlite::Result<()> {
        if self.has_forgotten { self.empty_log() } else { Ok(()) }
    }

    /// Writes the log of SQLite to the file and empties it, unless somebody reads.
    pub(super) fn empty_log(&mut self) -> rusqlite::Result<()> {
        self.has_forgotten &= !self.checkpoint()?;
        Ok(())
    }

    /// The same. Returns whether it is empty.
    pub(super) fn checkpoint(&self) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let is_busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(!is_busy?)
    }

    /// Gives back the memory that only work needs.
    pub(super) fn shrink(&mut self) -> rusqlite::Result<()> {
        (self.packer, self.unpacker) = Default::default();
        shrink(&self.connection)
    }

    /// Makes the tables that are not there yet.
    pub(super) fn prepare(&mut self, tables: &[Table]) -> rusqlite::Result<()> {
        backfill::add(&self.connection, tables)?;
        tables.iter().try_for_each(|table| table.create(&self.connection))?;
        for table in tables.iter().filter(|table| table.kind() == Piece::KIND) {
            sessions::create(&self.connection, table, &mut self.unpacker)?;
        }
        words::create(&self.connection)
    }

    /// Fills columns of rows that came before there were such.
    pub(super) fn fill(&mut self, tables: &[Table], tell: &mut Tell<'_>) -> rusqlite::Result<()> {
        backfill::fill(&self.connection, tables, &mut self.unpacker, tell)
    }

    pub(super) fn put(
        &mut self,
        table: &Table,
        (key, value): Stored<'_>,
        together: &Together<'_>,
    ) -> rusqlite::Result<()> {
        self.note(table, key, Some(value), together)?;
        let packed = self.packer.pack(key, value);
        self.put_packed(table, (key, value), together, &packed, None)
    }

    /// Puts a piece of a journal and its task into one row, if they fit.
    pub(super) fn put_turn(
        &mut self,
        journal: &Table,
        piece: Stored<'_>,
        tasks: &Table,
        task: Stored<'_>,
        together: &Together<'_>,
    ) -> rusqlite::Result<()> {
        let Some(packed) = self.packer.join(piece, task) else {
            self.put(tasks, task, together)?;
            return self.put(journal, piece, together);
        };
        self.note(tasks, task.0, Some(task.1), together)?;
        let before = self.note(journal, piece.0, Some(piece.1), together)?;
        self.put_packed(journal, piece, together, &packed, None)?;
        let row = match before {
            Before::Nothing => self.connection.last_insert_rowid(),
            Before::Said(_) => turns::row_of(&self.connection, journal.rest(piece.0))?,
        };
        self.put_packed(tasks, task, together, &[], Some(row))
    }

    /// The same with the task that is there under a key, if it is, and alone.
    pub(super) fn put_late(
        &mut self,
        journal: &Table,
        piece: Stored<'_>,
        tasks: &Table,
        task: &[u8],
        together: &Together<'_>,
    ) -> rusqlite::Result<()> {
        let held = tasks.get(&self.connection, tasks.rest(task))?;
        let alone = held.filter(|held| held.host.is_none());
        match alone.and_then(|held| self.unpacker.unpack(task, &held.packed).ok()) {
            Some(value) => self.put_turn(journal, piece, tasks, (task, &value), together),
            None => self.put(journal, piece, together),
        }
    }

    /// Puts a record that cannot be read, so that it cannot be read here either.
    pub(super) fn put_damaged(
        &mut self,
        table: &Table,
        key: &[u8],
        content: &[u8],
    ) -> rusqlite::Result<()> {
        let alone = Together::default();
        self.note(table, key, None, &alone)?;
        // Its content may be whole, and is in no list: nobody can read it here.
        self.put_packed(table, (key, &[]), &alone, &packing::unreadable(content), None)
    }

    pub(super) fn remove(&mut self, table: &Table, key: &[u8]) -> rusqlite::Result<()> {
        self.note(table, key, None, &Together::default())?;
        table.remove(&self.connection, table.rest(key))?;
        self.note_session(table, key, None)
    }

    fn put_packed(
        &mut self,
        table: &Table,
        (key, value): Stored<'_>,
        together: &Together<'_>,
        packed: &[u8],
        host: Option<i64>,
    ) -> rusqlite::Result<()> {
        let mut beside = Beside { unpacker: &mut self.unpacker, together };
        let columns = table.columns(&self.connection, key, value, &mut beside)?;
        table.put(&self.connection, key, &columns, packed, host)?;
        self.note_session(table, key, Some(value))
    }

    /// Notes what a piece of a journal says of its session.
    fn note_session(
        &mut self,
        table: &Table,
        key: &[u8],
        piece: Option<&[u8]>,
    ) -> rusqlite::Result<()> {
        if table.kind() != Piece::KIND {
            return Ok(());
        }
        sessions::note(&self.connection, table, &mut self.unpacker, key, piece)
    }

    /// Notes what a record is found by, in place of what it was before. Returns that.
    fn note(
        &mut self,
        table: &Table,
        key: &[u8],
        value: Option<&[u8]>,
        together: &Together<'_>,
    ) -> rusqlite::Result<Before> {
        if table.kind() == EndedTask::KIND {
            usage::note(&self.connection, table.keys(), key, value, together)?;
        }
        if !table.is_indexed() {
            return Ok(Before::Said(None));
        }
        let rest = table.rest(key);
        let before = match table.get(&self.connection, rest)? {
            None => Before::Nothing,
            Some(held) => {
                let packing = (&mut self.packer, &mut self.unpacker);
                turns::part(&self.connection, table.keys(), packing, key, &held)?;
                let value = self.unpacker.unpack_from(held.row(key), key, &held.packed).ok();
                Before::Said(value.and_then(|value| table.entry(key, &value)))
            }
        };
        let now = value.and_then(|value| table.entry(key, value));
        self.has_forgotten |=
            matches!(&before, Before::Said(said) if said.is_some() && *said != now);
        words::note(&self.connection, table.kind(), &table.stored(rest), &before, now.as_ref())?;
        Ok(before)
    }
}
