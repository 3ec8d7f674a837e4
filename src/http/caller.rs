//! Callers: who asks, and which teams they reach.

use actix_web::{HttpMessage, HttpRequest};

use super::{State, auth::principal::Principal, error::ApiError, limits::Running, record::Target};

/// Who asks, having the right to.
pub(super) struct Caller {
    pub(super) principal: Principal,
    target: Target,
}

impl Caller {
    pub(super) fn new(principal: Principal, target: Target) -> Self {
        Self { principal, target }
    }

    /// Tells the audit what this is about, where the path does not.
    pub(super) fn names(&self, what: impl Into<String>) {
        self.target.name(what.into());
    }

    /// They may act on this team.
    pub(super) fn reaches(&self, team: &str) -> bool {
        let teams = self.principal.teams();
        teams.is_none_or(|teams| teams.iter().any(|name| name == team))
    }

    /// Refuses whoever may not act on this team.
    pub(super) fn team(&self, team: &str) -> Result<(), ApiError> {
        if self.reaches(team) { Ok(()) } else { Err(ApiError::other_team()) }
    }

    /// Refuses whoever may act on some teams only: this is not about one of them.
    pub(super) fn all_teams(&self) -> Result<(), ApiError> {
        match self.principal.teams() {
            None => Ok(()),
            Some(_) => Err(ApiError::other_team()),
        }
    }
}

/// Counts a request of a token, once, and refuses what is too much.
pub(super) fn within_limits(
    state: &State,
    request: &HttpRequest,
    principal: &Principal,
) -> Result<(), ApiError> {
    if !request.extensions().contains::<Running>() {
        let now = state.access.auth.now();
        let running = state.limits.admit(principal.grant(), now)?;
        request.extensions_mut().insert(running);
    }
    Ok(())
}
