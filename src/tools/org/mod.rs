//! The organisation tools: how teams make, instruct and ask each other.

use super::{concurrency::ConcurrencyLimits, made::tools, registry::Registry};
use crate::teams::office::Office;

pub(crate) mod belongings;
pub(super) mod credentials;
mod delegate;
mod errand;
pub(crate) mod escalate;
mod finished;
mod handoff;
pub(crate) mod idempotency;
mod manage;
mod message;
mod office_calls;
mod overview;
mod query;
mod spawn;
#[cfg(test)]
mod tests;
mod whoami;

/// The longest task, message or query, in characters.
const LONGEST_TEXT: usize = 100_000;
/// The longest id that a model makes up, in characters.
const LONGEST_ID: usize = 128;

tools! {
    pub fn made(office: &Office, pools: &ConcurrencyLimits, registry: Registry) {
        delegate::DelegateTask(office.clone()),
        escalate::Escalate(office.clone()),
        finished::ListCompletedTasks(office.clone()),
        handoff::EnqueueParentTask(office.clone()),
        manage::ControlTeam(office.clone()),
        manage::ShutdownTeam(office.clone()),
        manage::UpdateTeam(office.clone()),
        message::SendMessage(office.clone()),
        overview::GetStatus { office: office.clone(), pools: pools.clone() },
        overview::ListTeams(office.clone()),
        query::QueryTeam(office.clone()),
        query::QueryTeams(office.clone()),
        spawn::SpawnTeam { office: office.clone(), registry },
        whoami::Whoami(office.clone()),
    }
}
