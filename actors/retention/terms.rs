//! Port: how long things are kept, and what only the edges know of their own records.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{
    clock::Timestamp,
    ids::TaskId,
    store::{
        reads::Range,
        records::{Record, decode},
    },
};

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Finished tasks, runs, and journals of what has ended.
    pub tasks: Duration,
    /// Lines of audits.
    pub audit: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { tasks: 90 * day, audit: 365 * day }
    }
}

/// What is too old, by the same terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The present.
    pub now: Timestamp,
    /// Work that ended before this goes.
    pub tasks: Timestamp,
    /// Lines of audits from before this go.
    pub audit: Timestamp,
}

/// Whether the record of a lot goes, by key and value.
pub type IsOld = Box<dyn Fn(&[u8], &[u8]) -> bool + Send>;

/// Records of the edges that may be too old.
pub struct Lot {
    /// The first key.
    pub start: Vec<u8>,
    /// The first key behind them.
    pub end: Vec<u8>,
    /// Which of them go.
    pub is_old: IsOld,
}

impl Lot {
    /// All rows of a range.
    pub fn all<R: Record>(range: Range<R>) -> Self {
        let (start, end) = range.bounds();
        Self { start, end, is_old: Box::new(|_, _| true) }
    }

    /// The rows of a kind that are too old. One that cannot be read stays.
    pub fn old<R: Record + DeserializeOwned>(is_old: impl Fn(&R) -> bool + Send + 'static) -> Self {
        let is_old =
            move |key: &[u8], value: &[u8]| decode(key, value).is_ok_and(|row| is_old(&row));
        Self { is_old: Box::new(is_old), ..Self::all(Range::<R>::all()) }
    }
}

/// Knows what is kept at the edges. All calls may block.
pub trait Keeping: Send + Sync + 'static {
    /// How long things are kept, as settings say now; else why that is not known.
    fn terms(&self) -> Result<Terms, String>;

    /// Records of the edges that may be too old.
    fn lots(&self, cut: Cut) -> Vec<Lot>;

    /// What the keys of the records begin with that tell by which task something came to be, and are
    /// read for ever: memory.
    fn chains(&self) -> Vec<u8>;

    /// The task that such a record tells of.
    fn told_by(&self, key: &[u8], value: &[u8]) -> Option<TaskId>;

    /// Removes what was put into the trash before a moment.
    fn empty_trash(&self, before: Timestamp);
}
