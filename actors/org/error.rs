//! Why the organisation stays as it is.

use crate::{ids::TeamName, queue::refusal::Refusal};

/// Why something was not done to a team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum OrgError {
    /// Not a name for a team.
    #[error("`name`: `{name}` cannot be the name of a team: {rule}")]
    Name { name: String, rule: &'static str },
    /// The name means something else.
    #[error("`name`: `{0}` is reserved; choose another")]
    NameReserved(TeamName),
    /// Another team, or a folder that is nobody's, has the name.
    #[error("`name`: `{0}` is taken; choose another")]
    NameTaken(TeamName),
    /// Too far below the main team.
    #[error(
        "`{parent}` is at level {present}, and a team may be at most {limit} levels below `main`"
    )]
    LimitDepth { parent: TeamName, limit: usize, present: usize },
    /// Too many children.
    #[error("`{parent}` has {present} children; `limits.max_children` allows {limit}")]
    LimitChildren { parent: TeamName, limit: usize, present: usize },
    /// Too many teams.
    #[error("there are {present} teams; `limits.max_teams` allows {limit}")]
    LimitTeams { limit: usize, present: usize },
    /// There is no such team.
    #[error("there is no team `{0}`")]
    Unknown(TeamName),
    /// The caller is not the one who may.
    #[error("`{caller}` may not do this to `{team}`: {rule}")]
    NotAuthorized { team: TeamName, caller: String, rule: &'static str },
    /// The main team stays.
    #[error("`main` is always there: it can be neither made nor shut down")]
    Root,
    /// Its children would be without a parent.
    #[error("`{team}` has children: {}; shut them down first, or set `cascade`", list(.children))]
    HasChildren { team: TeamName, children: Vec<TeamName> },
    /// It is being shut down.
    #[error("`{0}` is being shut down")]
    Draining(TeamName),
    /// A team is being made below it, or it is being shut down by itself.
    #[error("`{0}` is being shut down, or a team is being made below it; try again in a moment")]
    Busy(TeamName),
    /// Words of a scope that cannot be.
    #[error("`scope`: {0}")]
    Scope(String),
    /// Nothing would be left of the scope.
    #[error("`{0}` would have no scope left; add a keyword before the last one is removed")]
    ScopeEmpty(TeamName),
    /// The queue did not take the work that belongs to it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The folder could not be made, changed or moved.
    #[error("{0}")]
    Folder(String),
    /// What belongs to the team could not be written.
    #[error("{0}")]
    Beside(String),
    /// The process is stopping.
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

fn list(names: &[TeamName]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
