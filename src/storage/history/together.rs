//! Records that are taken in at once: what tells more about one of them without being read.

use std::collections::HashMap;

use hivewright_actors::{
    ids::TaskId,
    store::{
        keys::{key_of, prefix_of},
        records::Record,
    },
    task::records::{EndedTask, FinishedTask},
};

use super::{Taken, packing::Unpacker};

/// What the columns of a record are read from, beside the record.
pub(super) struct Beside<'a> {
    pub(super) unpacker: &'a mut Unpacker,
    pub(super) together: &'a Together<'a>,
}

/// Tasks and ends of tasks, by their keys.
#[derive(Default)]
pub(super) struct Together<'a>(HashMap<&'a [u8], &'a [u8]>);

impl<'a> Together<'a> {
    pub(super) fn of(records: impl Iterator<Item = (&'a [u8], &'a Taken<'a>)>) -> Self {
        let kinds = [prefix_of(FinishedTask::KIND, &()), prefix_of(EndedTask::KIND, &())];
        let together = records.filter_map(|(key, taken)| match taken {
            Taken::Value(value) if kinds.iter().any(|kind| key.starts_with(kind)) => {
                Some((key, *value))
            }
            _ => None,
        });
        Self(together.collect())
    }

    pub(super) fn has_task(&self, id: &TaskId) -> bool {
        self.0.contains_key(&*key_of(FinishedTask::KIND, id))
    }

    /// The end of a task, by its stored key.
    pub(super) fn end(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.0.get(key).copied()
    }
}
