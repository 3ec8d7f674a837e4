//! The trigger tools: how teams arrange for work that starts without a person typing.

use std::time::Duration;

use hivewright_actors::scheduler::trigger::{Trigger, Which};
use serde_json::{Value, json};

use super::{
    answer,
    contract::{Limits, ToolContext, ToolError},
    host::Toolbox,
    registry::Registered,
};
use crate::{
    api::triggers::TriggerRow,
    time::date,
    triggers::desk::{Author, Desk, DeskError, Parts},
};

mod consent;
mod create;
mod list;
pub mod report;
mod switch;
mod test;
mod update;

pub(super) const TOOLS: &[Registered] = &[
    Registered::of::<create::CreateTrigger>(),
    Registered::of::<switch::DisableTrigger>(),
    Registered::of::<switch::EnableTrigger>(),
    Registered::of::<list::ListTriggers>(),
    Registered::of::<test::TestTrigger>(),
    Registered::of::<update::UpdateTrigger>(),
];

/// A change takes one commit, a test one more.
const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
/// So many of the next times are shown to whoever made or changed a trigger.
const NEXT_SHOWN: usize = 3;

/// The tools that exist, and those of triggers. `report_run` is not among them: turns of triggers have
/// it, whatever their team is allowed, and no others do.
pub fn add(toolbox: Toolbox, desk: &Desk) -> Toolbox {
    toolbox
        .with(create::CreateTrigger(desk.clone()))
        .with(switch::DisableTrigger(desk.clone()))
        .with(switch::EnableTrigger(desk.clone()))
        .with(list::ListTriggers(desk.clone()))
        .with(test::TestTrigger(desk.clone()))
        .with(update::UpdateTrigger(desk.clone()))
}

/// The desk says no.
fn no(error: DeskError) -> ToolError {
    match error.details {
        Some(details) => answer::refuse_with(error.code, error.message, details),
        None => answer::refuse(error.code, error.message),
    }
}

fn author(cx: &ToolContext) -> Author<'_> {
    Author::Team(&cx.caller)
}

/// A trigger that the caller may manage.
fn which(parts: &Parts, cx: &ToolContext, team: &str, name: &str) -> Result<Which, ToolError> {
    let team = parts.team(&author(cx), team).map_err(no)?;
    Ok(Which::Named { team, name: name.to_owned() })
}

/// What the model reads of a trigger that it made or changed: with its next times, so that a wrong
/// pattern is seen at once.
fn told(parts: &Parts, trigger: &Trigger) -> Value {
    let shown = TriggerRow::from(trigger);
    let mut fields = standing(parts, trigger);
    if let Some(path) = &shown.path {
        fields["path"] = json!(path);
    }
    fields["trigger"] = json!(shown);
    fields
}

/// Whether a trigger fires, and when next.
fn standing(parts: &Parts, trigger: &Trigger) -> Value {
    let next_due_at = trigger.next_due_at.and_then(date);
    let mut fields = json!({ "next_due_at": next_due_at, "state": trigger.state });
    let next = parts.next_times(trigger, NEXT_SHOWN);
    if !next.is_empty() {
        fields["next_due"] = json!(next);
    }
    fields
}
