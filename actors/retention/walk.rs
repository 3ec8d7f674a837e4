//! Walks through ranges of records that go on where the last slice of a pass ended.

use std::ops::ControlFlow;

use serde::de::DeserializeOwned;

use super::{
    slice::{Enough, Slice},
    terms::Bounds,
};
use crate::{
    storage::{Order, Storage, StorageError},
    store::{
        reads::{Range, report},
        records::{Record, decode},
    },
};

/// Looks at a record, by its key and its value.
type Visit<'a> = dyn FnMut(&[u8], &[u8], &mut Slice) + 'a;
/// The same; it may go on from a later key.
type SkippingVisit<'a> = dyn FnMut(&[u8], &[u8], &mut Slice) -> Option<Vec<u8>> + 'a;

/// Goes on where the last slice ended, as far as this one gets.
pub(super) struct Walk<'a, 'b> {
    pub(super) storage: &'a dyn Storage,
    pub(super) from: &'a mut Option<Vec<u8>>,
    pub(super) slice: &'a mut Slice,
    pub(super) enough: &'a mut Enough<'b>,
}

impl Walk<'_, '_> {
    /// Shows the records of a range; a damaged one is left alone. Returns whether there are no more.
    pub(super) fn all(
        &mut self,
        bounds: Bounds,
        visit: &mut Visit<'_>,
    ) -> Result<bool, StorageError> {
        self.skipping(bounds, &mut |key, value, slice| {
            visit(key, value, slice);
            None
        })
    }

    /// The same without those that the visitor skips.
    pub(super) fn skipping(
        &mut self,
        (start, end): Bounds,
        visit: &mut SkippingVisit<'_>,
    ) -> Result<bool, StorageError> {
        let Self { storage, from, slice, enough } = self;
        let mut start = from.take().unwrap_or(start);
        while start < end {
            let (mut next, mut paused) = (None, false);
            storage.scan(&start, &end, Order::Rising, &mut |key, value| {
                match value {
                    Ok(value) => next = visit(key, value, slice),
                    Err(error) => report(*storage, key, &error),
                }
                paused = slice.is_full() || enough();
                if paused {
                    // The first key behind this one.
                    next.get_or_insert_with(|| [key, &[0]].concat());
                }
                if next.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            match next {
                None => break,
                Some(next) if paused => {
                    **from = Some(next);
                    return Ok(false);
                }
                Some(next) => start = next,
            }
        }
        Ok(true)
    }

    /// Shows the rows of a range.
    pub(super) fn rows<R: Record + DeserializeOwned>(
        &mut self,
        range: Range<R>,
        visit: &mut dyn FnMut(&[u8], R, &mut Slice),
    ) -> Result<bool, StorageError> {
        let storage = self.storage;
        self.all(range.bounds(), &mut |key, value, slice| match decode(key, value) {
            Ok(row) => visit(key, row, slice),
            Err(error) => report(storage, key, &error),
        })
    }
}
