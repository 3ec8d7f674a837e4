//! The organisation tools: how teams make, instruct and ask each other.

use super::{host::Toolbox, registry::Registered};

pub(crate) mod belongings;
pub mod credentials;
mod delegate;
mod errand;
mod escalate;
mod finished;
mod handoff;
pub(crate) mod idempotency;
mod list;
mod message;
pub mod office;
mod query;
mod shutdown;
mod spawn;
mod status;
#[cfg(test)]
mod tests;
mod update;

use office::Office;

/// The longest task, message or query, in characters.
const LONGEST_TEXT: usize = 100_000;

pub(super) const TOOLS: &[Registered] = &[
    Registered::of::<delegate::DelegateTask>(),
    Registered::of::<handoff::EnqueueParentTask>(),
    Registered::of::<escalate::Escalate>(),
    Registered::of::<status::GetStatus>(),
    Registered::of::<finished::ListCompletedTasks>(),
    Registered::of::<list::ListTeams>(),
    Registered::of::<query::QueryTeam>(),
    Registered::of::<query::QueryTeams>(),
    Registered::of::<message::SendMessage>(),
    Registered::of::<shutdown::ShutdownTeam>(),
    Registered::of::<spawn::SpawnTeam>(),
    Registered::of::<update::UpdateTeam>(),
];

/// The tools with those of the organisation.
pub fn add(toolbox: Toolbox, office: &Office) -> Toolbox {
    let pools = toolbox.pools();
    toolbox
        .with(spawn::SpawnTeam(office.clone()))
        .with(shutdown::ShutdownTeam(office.clone()))
        .with(update::UpdateTeam(office.clone()))
        .with(list::ListTeams(office.clone()))
        .with(status::GetStatus { office: office.clone(), pools })
        .with(delegate::DelegateTask(office.clone()))
        .with(query::QueryTeam(office.clone()))
        .with(query::QueryTeams(office.clone()))
        .with(message::SendMessage(office.clone()))
        .with(escalate::Escalate(office.clone()))
        .with(handoff::EnqueueParentTask(office.clone()))
        .with(finished::ListCompletedTasks(office.clone()))
}

/// Refuses a text that is empty or too long.
fn check_text(field: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("`{field}`: must not be empty"));
    }
    check_length(field, text, LONGEST_TEXT)
}

/// Refuses a text that is too long.
fn check_length(field: &str, text: &str, most: usize) -> Result<(), String> {
    match text.chars().count() {
        length if length > most => {
            Err(format!("`{field}`: {length} characters; at most {most} are allowed"))
        }
        _ => Ok(()),
    }
}
