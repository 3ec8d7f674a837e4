//! Port: how long things are kept, and what only the edges know of their own records.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{
    clock::Timestamp,
    ids::TaskId,
    storage::StorageError,
    store::{
        reads::Range,
        records::{Record, decode},
    },
    task::records::LaneKey,
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
    pub now: Timestamp,
    /// Work that ended before this goes.
    pub tasks: Timestamp,
    /// Lines of audits from before this go.
    pub audit: Timestamp,
}

/// From a stored key up to another.
pub type Bounds = (Vec<u8>, Vec<u8>);

/// Whether the record of a lot goes, by key and value; else why it cannot be read.
pub type IsOld = Box<dyn Fn(&[u8], &[u8]) -> Result<bool, StorageError> + Send>;

/// Records that may be too old.
pub struct Lot {
    pub range: Bounds,
    /// Which of them go.
    pub is_old: IsOld,
}

impl Lot {
    /// All rows of a range.
    pub fn all<R: Record>(range: Range<R>) -> Self {
        Self { range: range.bounds(), is_old: Box::new(|_, _| Ok(true)) }
    }

    /// The rows of a kind that are too old, by their stored keys and themselves.
    pub fn old<R: Record + DeserializeOwned>(
        is_old: impl Fn(&[u8], &R) -> bool + Send + 'static,
    ) -> Self {
        let is_old =
            move |key: &[u8], value: &[u8]| decode(key, value).map(|row| is_old(key, &row));
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

    /// Removes the transcript of a session, whether or not any are written; else says why it is still there.
    fn remove_transcript(&self, session: &LaneKey) -> Result<(), String>;
}
