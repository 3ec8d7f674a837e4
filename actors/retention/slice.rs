//! Slice of a retention pass: what may go at once, and what is still needed.

use std::collections::HashSet;

use serde::Serialize;

use super::terms::Cut;
use crate::{
    ids::{TaskId, TeamKey, TopicId},
    storage::Storage,
    store::records::{Record, Writes},
    task::{Lineage, records::LaneKey},
};

/// A commit changes so many records, or a few more that belong to the last.
const MAX_COMMIT: usize = 200;

/// What a slice found. Made durable at once, it leaves a store in which nothing is missing that
/// anything else in it needs.
#[derive(Debug, Default)]
pub struct Slice {
    /// What to remove, and what to write in its place.
    pub writes: Writes,
    /// The pass is over.
    pub last: bool,
    changed: usize,
}

impl Slice {
    pub(super) fn drop_keys(&mut self, keys: impl IntoIterator<Item = Vec<u8>>) {
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        self.changed += keys.len();
        self.writes = std::mem::take(&mut self.writes).drop_keys(keys);
    }

    pub(super) fn put_at<R: Record + Serialize>(&mut self, key: &R::Key, row: &R) {
        self.changed += 1;
        self.writes = std::mem::take(&mut self.writes).put_at(key, row);
    }

    pub(super) fn is_full(&self) -> bool {
        self.changed >= MAX_COMMIT
    }
}

/// Says when a slice has taken long enough.
pub type Enough<'a> = dyn FnMut() -> bool + 'a;

/// What a slice of a walk is made with.
pub(super) struct Sweep<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) needed: &'a Needed,
    pub(super) cut: Cut,
    pub(super) slice: &'a mut Slice,
    /// How many rows go.
    pub(super) removed: &'a mut u64,
}

/// What is still needed.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Tasks that open work, open approvals and memories tell of.
    pub(super) tasks: HashSet<TaskId>,
    /// Lanes with open work.
    pub(super) busy: HashSet<LaneKey>,
    /// Topics that somebody may go on with.
    pub(super) topics: HashSet<TopicId>,
    /// Teams that are there.
    pub(super) teams: HashSet<TeamKey>,
}

impl Needed {
    pub(super) fn line(&mut self, lineage: Option<&Lineage>) {
        let Some(lineage) = lineage else { return };
        self.tasks.insert(lineage.root.clone());
        self.tasks.extend(lineage.path.iter().map(|above| above.task.clone()));
    }
}
