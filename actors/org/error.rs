//! Errors of the organisation: why it stays as it is.

use crate::{ids::TeamName, queue::refusal::Refusal, text::quoted};

/// Why something was not done to a team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrgError {
    #[error("`name`: `{name}` cannot be the name of a team: {rule}")]
    Name { name: String, rule: &'static str },
    #[error("`name`: `{0}` is reserved; choose another")]
    NameReserved(TeamName),
    #[error("`name`: `{0}` is taken; choose another")]
    NameTaken(TeamName),
    #[error(
        "`{parent}` is at level {present}, and a team may be at most {limit} levels below `main`"
    )]
    LimitDepth { parent: TeamName, limit: usize, present: usize },
    #[error("`{parent}` has {present} children; `limits.max_children` allows {limit}")]
    LimitChildren { parent: TeamName, limit: usize, present: usize },
    #[error("there are {present} teams; `limits.max_teams` allows {limit}")]
    LimitTeams { limit: usize, present: usize },
    #[error("there is no team `{0}`")]
    Unknown(TeamName),
    #[error("`{caller}` may not do this to `{team}`: {rule}")]
    NotAuthorized { team: TeamName, caller: String, rule: &'static str },
    #[error("`{0}` may not do this to itself")]
    Own(TeamName),
    #[error("`main` is always there: it can be neither made nor shut down")]
    Root,
    #[error("`{team}` has children: {}; shut them down first, or set `cascade`", quoted(.children))]
    HasChildren { team: TeamName, children: Vec<TeamName> },
    #[error("`{0}` is being shut down")]
    Draining(TeamName),
    #[error("`{0}` is being shut down, or a team is being made below it; try again in a moment")]
    Busy(TeamName),
    #[error("`scope`: {0}")]
    Scope(String),
    #[error("`{0}` would have no scope left; add a keyword before the last one is removed")]
    ScopeEmpty(TeamName),
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Folder(String),
    /// What belongs to the team could not be written.
    #[error("{0}")]
    Beside(String),
    #[error("the service is stopping; try again after its next start")]
    Stopping,
}

impl OrgError {
    /// For models and programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name { .. } | Self::Scope(_) => "invalid_input",
            Self::NameReserved(_) => "name_reserved",
            Self::NameTaken(_) => "name_taken",
            Self::LimitDepth { .. } => "limit_depth",
            Self::LimitChildren { .. } => "limit_children",
            Self::LimitTeams { .. } => "limit_teams",
            Self::Unknown(_) => "not_found",
            Self::NotAuthorized { .. } | Self::Root => "not_authorized",
            Self::Own(_) => "self_forbidden",
            Self::HasChildren { .. } => "has_children",
            Self::Draining(_) => "team_draining",
            Self::Busy(_) => "busy",
            Self::ScopeEmpty(_) => "scope_empty",
            Self::Refused(refusal) => refusal.code(),
            Self::Folder(_) | Self::Beside(_) => "failed",
            Self::Stopping => "stopping",
        }
    }
}
