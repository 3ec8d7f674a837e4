//! Port: the folders of teams.
#![warn(missing_docs)]

use futures_util::future::BoxFuture;

use crate::{
    clock::Timestamp,
    ids::{TeamKey, TeamName},
};

/// What is written into the folder of a new team.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderPlan {
    /// The team's file.
    pub config: String,
    /// What it is told from the start, as a rule of its own.
    pub context: Option<String>,
}

/// Why a folder could not be worked on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FolderError {
    #[error("there is a folder of this name already")]
    Taken,
    #[error("{0}")]
    Disk(String),
}

/// Makes and clears away folders. All of it may be repeated.
pub trait Folders: Send + Sync + 'static {
    /// Makes the folder of a new team, whole or not at all. Until [`Folders::keep`] it counts as
    /// unfinished.
    fn make(&self, team: TeamKey, plan: FolderPlan) -> BoxFuture<'static, Result<(), FolderError>>;

    /// The team is durable: its folder stays.
    fn keep(&self, team: TeamKey) -> BoxFuture<'static, ()>;

    /// The team was not made after all.
    fn unmake(&self, team: TeamKey) -> BoxFuture<'static, ()>;

    /// At start: removes unfinished folders of teams that are not among the living, and keeps those
    /// of teams that are.
    fn settle(&self, living: Vec<TeamName>) -> BoxFuture<'static, ()>;

    /// Moves the folder of a team to the trash. Returns where it is now; none if there was none.
    fn bury(
        &self,
        team: TeamKey,
        at: Timestamp,
    ) -> BoxFuture<'static, Result<Option<String>, FolderError>>;

    /// Writes another description into the team's file.
    fn describe(
        &self,
        team: TeamName,
        description: String,
    ) -> BoxFuture<'static, Result<(), FolderError>>;

    /// Whether the team has a rule or a subagent.
    fn is_furnished(&self, team: TeamName) -> BoxFuture<'static, bool>;
}
