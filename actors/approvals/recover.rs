//! What a former process left waiting.

use std::collections::HashSet;

use super::{question::Question, record::Approval};
use crate::{
    approvals::records,
    ids::TaskId,
    storage::{Storage, StorageError},
    task::{Task, WaitReason},
};

/// What a former process left behind.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Recovered {
    pub approvals: Vec<Approval>,
    pub questions: Vec<Question>,
    pub open: HashSet<TaskId>,
    /// Decided on, and the turn that waits may not have heard of it.
    pub decided: Vec<Approval>,
}

impl Recovered {
    /// What a store holds for these open tasks. Blocks.
    pub fn read(storage: &dyn Storage, tasks: &[Task]) -> Result<Self, StorageError> {
        let approvals = records::waiting::<Approval>(storage)?;
        let questions = records::waiting(storage)?;
        let waiting: HashSet<_> = approvals.iter().filter_map(|row| row.task.clone()).collect();
        let unheard: HashSet<&TaskId> = tasks
            .iter()
            .filter(|task| {
                let parked = task.parked.as_ref().map(|parked| parked.reason);
                matches!(parked, Some(WaitReason::Approval | WaitReason::Budget))
                    && !waiting.contains(&task.id)
            })
            .map(|task| &task.id)
            .collect();
        // Only after a crash between a decision and its telling is there anything to look for.
        let decided = if unheard.is_empty() {
            Vec::new()
        } else {
            let mut rows = records::all::<Approval>(storage)?;
            rows.retain(|row| row.task.as_ref().is_some_and(|task| unheard.contains(task)));
            rows
        };
        Ok(Self {
            approvals,
            questions,
            open: tasks.iter().map(|task| task.id.clone()).collect(),
            decided,
        })
    }
}
