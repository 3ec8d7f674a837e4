//! The organisation tools: how teams make, instruct and ask each other.

use super::{concurrency::ConcurrencyLimits, made::tools, registry::Registry};
use crate::teams::service::TeamService;

pub(crate) mod belongings;
pub(super) mod credentials;
mod delegate;
pub(crate) mod escalate;
mod finished;
mod handoff;
pub(crate) mod idempotency;
mod manage;
mod message;
mod outgoing_task;
mod overview;
mod query;
mod spawn;
mod team_service;
#[cfg(test)]
mod tests;
mod whoami;

/// The longest task, message or query, in characters.
const LONGEST_TEXT: usize = 100_000;
/// The longest id that a model makes up, in characters.
const LONGEST_ID: usize = 128;

tools! {
    pub fn made(team_service: &TeamService, limits: &ConcurrencyLimits, registry: Registry) {
        delegate::DelegateTask(team_service.clone()),
        escalate::Escalate(team_service.clone()),
        finished::ListCompletedTasks(team_service.clone()),
        handoff::EnqueueParentTask(team_service.clone()),
        manage::ControlTeam(team_service.clone()),
        manage::ShutdownTeam(team_service.clone()),
        manage::UpdateTeam(team_service.clone()),
        message::SendMessage(team_service.clone()),
        overview::GetStatus { team_service: team_service.clone(), limits: limits.clone() },
        overview::ListTeams(team_service.clone()),
        query::QueryTeam(team_service.clone()),
        query::QueryTeams(team_service.clone()),
        spawn::SpawnTeam { team_service: team_service.clone(), registry },
        whoami::Whoami(team_service.clone()),
    }
}
