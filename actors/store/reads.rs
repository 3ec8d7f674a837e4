//! Typed reads: one row by its key, rows of a range in the order of their keys. All of them block: see `StoreHandle::read`.
//!
//! A record that cannot be read is left out of what a range holds, and reported. It stays where it is, so that what
//! fails closed by it goes on to; `quarantine.rs` of the crate takes the reports.

use std::{marker::PhantomData, ops::ControlFlow};

use serde::de::DeserializeOwned;

use super::{
    keys::{KeyOf, Parts, PrefixOf, after_prefix, key_of, prefix_of, read_key},
    records::{Record, decode},
};
use crate::storage::{Damage, Order, Storage, StorageError, Visit};

/// Is shown each row of a range: its stored key, and the row or why it cannot be read.
pub type RowVisit<'a, R> = dyn FnMut(&[u8], Result<R, StorageError>) -> ControlFlow<()> + 'a;
/// The same of a visitor that may fail.
pub type TryRowVisit<'a, R> =
    dyn FnMut(&[u8], Result<R, StorageError>) -> Result<ControlFlow<()>, StorageError> + 'a;

/// A range of keys of one kind of record.
pub struct Range<R> {
    start: Vec<u8>,
    end: Vec<u8>,
    of: PhantomData<fn() -> R>,
}

impl<R: Record> Range<R> {
    pub fn all() -> Self {
        Self::under(&())
    }

    pub fn under(parts: &impl PrefixOf<R::Key>) -> Self {
        let start = prefix_of(R::KIND, parts);
        Self { end: after_prefix(&start), start, of: PhantomData }
    }

    /// From the first key on that these parts begin, or that comes after them.
    pub fn since(mut self, parts: &impl Parts) -> Self {
        self.start = self.start.max(key_of(R::KIND, parts));
        self
    }

    /// Only what comes before these parts.
    pub fn until(mut self, parts: &impl Parts) -> Self {
        self.end = self.end.min(key_of(R::KIND, parts));
        self
    }

    /// Nothing that comes behind all keys under these parts.
    pub fn through(mut self, parts: &impl PrefixOf<R::Key>) -> Self {
        self.end = self.end.min(after_prefix(&prefix_of(R::KIND, parts)));
        self
    }

    /// Goes on behind all keys under these parts.
    pub fn behind_all(mut self, parts: &impl PrefixOf<R::Key>) -> Self {
        self.start = self.start.max(after_prefix(&prefix_of(R::KIND, parts)));
        self
    }

    pub fn after(self, key: &impl KeyOf<R::Key>) -> Self {
        self.behind(&key_of(R::KIND, key))
    }

    /// Goes on behind a row, by its stored key.
    pub fn behind(mut self, key: &[u8]) -> Self {
        self.start = self.start.max([key, &[0]].concat());
        self
    }

    /// Ends before a row, by its stored key.
    pub fn before(mut self, key: &[u8]) -> Self {
        self.end = self.end.min(key.to_vec());
        self
    }

    /// The first stored key, and the first one behind the range.
    pub fn bounds(self) -> (Vec<u8>, Vec<u8>) {
        (self.start, self.end)
    }

    /// Shows the records as they are stored.
    pub fn visit(
        &self,
        storage: &dyn Storage,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        if self.start >= self.end {
            return Ok(());
        }
        storage.scan(&self.start, &self.end, order, visit)
    }

    /// The stored keys, whatever the records hold.
    pub fn keys(&self, storage: &dyn Storage) -> Result<Vec<Vec<u8>>, StorageError> {
        let mut keys = Vec::new();
        self.visit(storage, Order::Rising, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(keys)
    }

    /// The stored key of the first record in an order, whatever it holds.
    pub fn first_key(
        &self,
        storage: &dyn Storage,
        order: Order,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let mut first = None;
        self.visit(storage, order, &mut |key, _| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(first)
    }
}

impl<R: Record + DeserializeOwned> Range<R> {
    /// Shows each row with its stored key; an error is one that cannot be read, and that has been reported.
    pub fn walk(
        &self,
        storage: &dyn Storage,
        order: Order,
        visit: &mut RowVisit<'_, R>,
    ) -> Result<(), StorageError> {
        self.visit(storage, order, &mut |key, value| {
            let row = value.and_then(|value| decode(key, value));
            visit(key, row.inspect_err(|error| report(storage, key, error)))
        })
    }

    /// The same for a visitor that may fail: its first error ends the walk, and is returned.
    pub fn try_walk(
        &self,
        storage: &dyn Storage,
        order: Order,
        visit: &mut TryRowVisit<'_, R>,
    ) -> Result<(), StorageError> {
        let mut failed = None;
        self.walk(storage, order, &mut |key, row| {
            visit(key, row).unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Shows the rows until the visitor has enough.
    pub fn each(
        &self,
        storage: &dyn Storage,
        order: Order,
        visit: &mut dyn FnMut(R) -> ControlFlow<()>,
    ) -> Result<(), StorageError> {
        self.walk(storage, order, &mut |_, row| row.map_or(ControlFlow::Continue(()), &mut *visit))
    }

    /// Shows all rows with their keys, for rows that don't hold them.
    pub fn for_each_keyed(
        &self,
        storage: &dyn Storage,
        visit: &mut dyn FnMut(R::Key, R),
    ) -> Result<(), StorageError> {
        self.walk(storage, Order::Rising, &mut |key, row| {
            if let (Some(key), Ok(row)) = (parse::<R>(key), row) {
                visit(key, row);
            }
            ControlFlow::Continue(())
        })
    }

    pub fn for_each(
        &self,
        storage: &dyn Storage,
        visit: &mut dyn FnMut(R),
    ) -> Result<(), StorageError> {
        self.each(storage, Order::Rising, &mut |row| {
            visit(row);
            ControlFlow::Continue(())
        })
    }
}

impl<R> Clone for Range<R> {
    fn clone(&self) -> Self {
        Self { start: self.start.clone(), end: self.end.clone(), of: PhantomData }
    }
}

impl<R> std::fmt::Debug for Range<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Range({:?}, {:?})", self.start.escape_ascii(), self.end.escape_ascii())
    }
}

/// The row under a key. One that cannot be read is an error, and is reported.
pub fn get<R: Record + DeserializeOwned>(
    storage: &dyn Storage,
    key: &(impl KeyOf<R::Key> + ?Sized),
) -> Result<Option<R>, StorageError> {
    let key = key_of(R::KIND, key);
    let value = storage.get(&key);
    value
        .and_then(|value| value.map(|value| decode(&key, &value)).transpose())
        .inspect_err(|error| report(storage, &key, error))
}

/// The row under a key, where one that cannot be read counts as none. It is reported all the same.
pub fn get_readable<R: Record + DeserializeOwned>(
    storage: &dyn Storage,
    key: &(impl KeyOf<R::Key> + ?Sized),
) -> Result<Option<R>, StorageError> {
    match get(storage, key) {
        Err(StorageError::Damaged { .. }) => Ok(None),
        found => found,
    }
}

/// Whether there is a record under a key, whatever it holds.
pub fn contains<R: Record>(
    storage: &dyn Storage,
    key: &(impl KeyOf<R::Key> + ?Sized),
) -> Result<bool, StorageError> {
    match storage.get(&key_of(R::KIND, key)) {
        Err(StorageError::Damaged { .. }) => Ok(true),
        found => Ok(found?.is_some()),
    }
}

/// The rows of a range, in the order of their keys.
pub fn scan<R: Record + DeserializeOwned>(
    storage: &dyn Storage,
    range: Range<R>,
) -> Result<Vec<R>, StorageError> {
    let mut rows = Vec::new();
    range.for_each(storage, &mut |row| rows.push(row))?;
    Ok(rows)
}

/// The same with their keys, for rows that don't hold them.
pub fn scan_keyed<R: Record + DeserializeOwned>(
    storage: &dyn Storage,
    range: Range<R>,
) -> Result<Vec<(R::Key, R)>, StorageError> {
    let mut rows = Vec::new();
    range.for_each_keyed(storage, &mut |key, row| rows.push((key, row)))?;
    Ok(rows)
}

/// The first row of a range in an order, if it can be read.
pub fn first<R: Record + DeserializeOwned>(
    storage: &dyn Storage,
    range: Range<R>,
    order: Order,
) -> Result<Option<R>, StorageError> {
    let mut found = None;
    range.walk(storage, order, &mut |_, row| {
        found = row.ok();
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The last rows of a range, the last first.
pub fn newest<R: Record + DeserializeOwned>(
    storage: &dyn Storage,
    range: Range<R>,
    most: usize,
) -> Result<Vec<R>, StorageError> {
    let mut rows = Vec::new();
    if most == 0 {
        return Ok(rows);
    }
    range.each(storage, Order::Falling, &mut |row| {
        rows.push(row);
        if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(rows)
}

/// The key of a record of this kind, taken apart.
pub fn parse<R: Record>(key: &[u8]) -> Option<R::Key> {
    read_key::<R::Key>(R::KIND, key)
}

/// Reports a record that its reader could not read.
pub fn report(storage: &dyn Storage, key: &[u8], error: &StorageError) {
    let StorageError::Damaged { reason, .. } = error else { return };
    let damage = || {
        tracing::error!(%error, "a record is left out; it stays in the store as it is");
        let held = storage.salvage(key).unwrap_or_default();
        Damage { key: key.to_vec(), reason: reason.clone(), held }
    };
    match storage.damage_reports() {
        Some(reports) => reports.report(key, damage),
        None => drop(damage()),
    }
}
