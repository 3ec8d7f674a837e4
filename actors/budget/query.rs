//! Usage query: what a list of the usage of tasks holds, and by what it is sorted.

use super::Tally;
use crate::{clock::Timestamp, ids::TaskId};

/// Which tasks are wanted in a list of what they have come to, and by what it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// The first day and the last, as numbers of days.
    pub days: (u32, u32),
    /// The first moment of these days, and the last.
    pub moments: (Timestamp, Timestamp),
    /// What the list is sorted by; tasks that are equal in it by their ids.
    pub rank: UsageRank,
}

/// What a list of the usage of tasks is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageRank {
    Usd,
    Requests,
    /// The id of the task.
    Task,
}

impl UsageRank {
    pub fn of(self, tally: &Tally) -> f64 {
        match self {
            Self::Usd => tally.usd,
            Self::Requests => tally.requests as f64,
            Self::Task => 0.0,
        }
    }
}

/// Where a task stands in a list of usage: by its rank, then by its id.
pub type UsagePlace = (f64, TaskId);
