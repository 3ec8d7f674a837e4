//! Port: the ordered, durable key space that the store actor writes.

use std::ops::ControlFlow;

/// Changes that become visible and durable together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Keys with their new value; none removes the key.
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Why the storage could not do as told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The disk or the database refused. What was not yet answered may or may not be there.
    #[error("the store cannot be written: {0}")]
    Write(String),
    /// There is no room on the disk. Nothing was written, and the same batch may be tried again.
    #[error("the store cannot be written: the disk is full")]
    Full,
    /// The disk or the database refused.
    #[error("the store cannot be read: {0}")]
    Read(String),
    /// A record is damaged.
    #[error("record {key} is damaged: {reason}")]
    Damaged {
        /// The record, made readable.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Rising,
    /// Largest key first.
    Falling,
}

/// Is shown each record of a scan: key and value, or why the value cannot be read.
pub type Visit<'a> = dyn FnMut(&[u8], Result<&[u8], StorageError>) -> ControlFlow<()> + 'a;

/// An ordered key space. All calls may block, so none is made on an arbiter that serves others.
pub trait Storage: Send + Sync + 'static {
    /// Applies a batch whole, and returns once it is durable.
    fn commit(&self, batch: &Batch) -> Result<(), StorageError>;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError>;

    /// Shows the records with `start <= key < end` until the visitor breaks off.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError>;
}
