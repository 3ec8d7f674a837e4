//! What a former process left waiting.

use std::collections::HashSet;

use super::{question::Question, record::Approval};
use crate::{
    ids::TaskId,
    storage::{Storage, StorageError},
    store::reads,
    task::{Task, WaitReason},
};

/// What a former process left behind.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Approvals that wait.
    pub approvals: Vec<Approval>,
    /// Questions that wait.
    pub questions: Vec<Question>,
    /// Tasks without an outcome.
    pub open: HashSet<TaskId>,
    /// Tasks that were set aside for a decision, and none is missing any more.
    pub unheard: Vec<TaskId>,
}

impl Recovered {
    /// What a store holds for these open tasks. Blocks.
    pub fn read(storage: &dyn Storage, tasks: &[Task]) -> Result<Self, StorageError> {
        let approvals = reads::pending_approvals(storage)?;
        let questions = reads::open_questions(storage)?;
        for damage in approvals.damaged.iter().chain(&questions.damaged) {
            tracing::error!(error = %damage, "a record is left out; it stays in the store as it is");
        }
        let waiting: HashSet<_> = approvals
            .rows
            .iter()
            .filter_map(|row| row.task.as_ref())
            .collect();
        let unheard = tasks.iter().filter(|task| {
            let parked = task.parked.as_ref().map(|parked| parked.reason);
            parked == Some(WaitReason::Approval) && !waiting.contains(&task.id)
        });
        Ok(Self {
            unheard: unheard.map(|task| task.id.clone()).collect(),
            approvals: approvals.rows,
            questions: questions.rows,
            open: tasks.iter().map(|task| task.id.clone()).collect(),
        })
    }
}
