//! Refusals of the queue: why a task was not stored.

use super::causes::Runaway;
use crate::{room::DISK_FULL, store::StoreError};

/// Why a task was not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} tasks wait already; try again later")]
    QueueFull(usize),
    /// The disk has no room for new work.
    #[error("{DISK_FULL}")]
    DiskFull,
    #[error("the team is being shut down and takes no new work")]
    TeamDraining,
    #[error(transparent)]
    Runaway(#[from] Runaway),
    #[error("the task cannot be stored: {0}")]
    Unstorable(StoreError),
    #[error("the service is stopping; the task was not stored")]
    Stopping,
}

impl Refusal {
    /// For models and programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::QueueFull(_) => "queue_full",
            Self::DiskFull => "disk_full",
            Self::TeamDraining => "team_draining",
            Self::Runaway(why) => why.code(),
            Self::Unstorable(_) => "invalid_input",
            Self::Stopping => "stopping",
        }
    }
}
