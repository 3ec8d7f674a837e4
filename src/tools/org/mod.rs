//! The organisation tools: how teams make, instruct and ask each other.

use super::toolbox::Toolbox;

pub(crate) mod belongings;
pub mod credentials;
mod delegate;
mod errand;
pub(crate) mod escalate;
mod finished;
mod handoff;
pub(crate) mod idempotency;
mod manage;
mod message;
pub mod office;
mod overview;
mod query;
mod spawn;
#[cfg(test)]
mod tests;
mod whoami;

use office::Office;

/// The longest task, message or query, in characters.
const LONGEST_TEXT: usize = 100_000;
/// The longest id that a model makes up, in characters.
const LONGEST_ID: usize = 128;

pub fn add(toolbox: Toolbox, office: &Office) -> Toolbox {
    let pools = toolbox.pools();
    toolbox
        .with(spawn::SpawnTeam(office.clone()))
        .with(manage::ShutdownTeam(office.clone()))
        .with(manage::UpdateTeam(office.clone()))
        .with(manage::ControlTeam(office.clone()))
        .with(whoami::Whoami(office.clone()))
        .with(overview::ListTeams(office.clone()))
        .with(overview::GetStatus { office: office.clone(), pools })
        .with(delegate::DelegateTask(office.clone()))
        .with(query::QueryTeam(office.clone()))
        .with(query::QueryTeams(office.clone()))
        .with(message::SendMessage(office.clone()))
        .with(escalate::Escalate(office.clone()))
        .with(handoff::EnqueueParentTask(office.clone()))
        .with(finished::ListCompletedTasks(office.clone()))
}
