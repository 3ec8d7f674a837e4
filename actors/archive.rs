//! Port: the archive, the cold half of the store, which holds what is over.
//!
//! A record is written to the hot half, and moves once it is durable there: the archive takes it in and makes it durable,
//! then the hot half lets it go. Whoever reads asks the hot half first, so a record that is in both, or was changed after it
//! had moved, is read as it is now.
#![warn(missing_docs)]

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, Message, Recipient};
use tokio::sync::oneshot;

use crate::{
    search::{Entry, Search, SearchPage},
    storage::StorageError,
};

/// Something was written.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Written;

/// Moves all that was written so far, and answers when that is done.
#[derive(Debug, Message)]
#[rtype(result = "oneshot::Receiver<()>")]
pub struct MoveAll;

/// A kind of record that moves to the archive.
#[derive(Clone, Copy, Debug)]
pub struct Shelf {
    /// What its keys begin with.
    pub kind: &'static str,
    /// What a search finds it by; none if it holds nothing that is searched for.
    pub index: Option<Index>,
}

/// What a search finds a record by, from its stored key and its value; none if it says nothing.
pub type Index = fn(key: &[u8], value: &[u8]) -> Option<Entry>;

impl Shelf {
    /// Records that are only found by their keys.
    pub const fn of(kind: &'static str) -> Self {
        Self { kind, index: None }
    }

    /// Records that a search finds.
    pub const fn indexed(kind: &'static str, index: Index) -> Self {
        Self { kind, index: Some(index) }
    }
}

/// Moves records from the hot half, and finds them again. All calls may block.
pub trait Archive: Send + Sync + 'static {
    /// Moves the oldest records that the hot half still holds; false if it holds none.
    fn take_next(&self) -> Result<bool, StorageError>;

    /// Nothing moves for the moment: brings what is written to where it stays.
    fn empty_log(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Nothing has moved for long: gives back the memory that only work needs.
    fn shrink(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Finds records that have moved by what they say. What a record says now counts, also if that has not moved yet.
    fn search(&self, search: &Search) -> Result<SearchPage, StorageError>;
}

/// An archive, and whoever moves records there.
#[derive(Clone)]
pub struct ArchiveHandle {
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) written: Recipient<Written>,
    pub(crate) move_all: Recipient<MoveAll>,
}

impl ArchiveHandle {
    /// What is over moves to this archive when this actor, which need not run yet, hears of it.
    pub fn new<A>(archive: Arc<dyn Archive>, archivist: Addr<A>) -> Self
    where
        A: Actor<Context = Context<A>> + Handler<Written> + Handler<MoveAll>,
    {
        let written = archivist.clone().recipient();
        Self { archive, written, move_all: archivist.recipient() }
    }
}
