//! Lists of records that lie in the hot tier of the store first and in the archive later.

use std::{collections::HashSet, ops::ControlFlow};

use serde::de::DeserializeOwned;

use super::{
    reads::{Range, report},
    records::{Record, decode},
};
use crate::{
    order::{Order, Part, Window},
    storage::{ArchiveLists, Storage, StorageError},
};

/// The wanted part of a list of all records of a kind. `place` says where one stands, from its stored key, if it is wanted;
/// `archived` asks the archive for its part, but for the stored keys that are known already. Blocks.
pub fn part<R: Record + DeserializeOwned, Place: Ord + Clone>(
    storage: &dyn Storage,
    window: &Window<Place>,
    place: impl Fn(&[u8], R) -> Option<Place>,
    archived: impl FnOnce(
        &dyn ArchiveLists,
        &Window<Place>,
        &HashSet<Vec<u8>>,
    ) -> Result<Part<Place>, StorageError>,
) -> Result<Part<Place>, StorageError> {
    let mut part = Part::default();
    let mut see = |key: &[u8], row: R| {
        if let Some(place) = place(key, row) {
            part.total += 1;
            part.places.extend(Some(place).filter(|place| window.reaches(place)));
        }
    };
    let all = Range::<R>::all();
    let Some(tiers) = storage.tiers() else {
        all.walk(storage, Order::Rising, &mut |key, row| {
            if let Ok(row) = row {
                see(key, row);
            }
            ControlFlow::Continue(())
        })?;
        return Ok(part.within(window));
    };
    // In this order: what moves meanwhile is found in both, and never in none.
    let (start, end) = all.bounds();
    let mut known = HashSet::new();
    tiers.pending(&start, &end, &mut |key, value| {
        known.insert(key.to_vec());
        match value.map(|value| decode(key, value)) {
            Some(Ok(row)) => see(key, row),
            Some(Err(error)) => report(storage, key, &error),
            // It was removed.
            None => {}
        }
    });
    part.joined(window, |window| archived(tiers.lists(), window, &known))
}
