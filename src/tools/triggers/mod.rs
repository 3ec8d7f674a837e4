//! The trigger tools: how teams arrange for work that starts without a person typing.

use std::{borrow::Cow, time::Duration};

use hivewright_actors::scheduler::{manage::Which, trigger::Trigger};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    answer,
    contract::{Limits, ToolContext, ToolError},
    host::Toolbox,
    registry::Registered,
};
use crate::triggers::{
    desk::{Author, Desk, DeskError, Parts},
    show,
};

mod consent;
mod create;
mod list;
pub mod report;
mod shape;
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
    let shown = show::trigger(trigger);
    let mut fields = json!({ "next_due_at": shown.next_due_at, "state": shown.state });
    if let Some(path) = &shown.path {
        fields["path"] = json!(path);
    }
    let next = parts.next_times(trigger, NEXT_SHOWN);
    if !next.is_empty() {
        fields["next_due"] = json!(next);
    }
    fields["trigger"] = json!(shown);
    fields
}

/// Arguments that are a form: read field by field where they are used, so that null and absent stay
/// apart. `S` is what the model is told of them.
#[derive(Debug, Deserialize)]
#[serde(transparent, bound = "")]
pub(super) struct Form<S> {
    fields: Map<String, Value>,
    #[serde(skip)]
    _shape: std::marker::PhantomData<fn() -> S>,
}

impl<S> Form<S> {
    /// Takes a text out that every form of this kind has.
    fn take(&mut self, name: &str) -> Result<String, ToolError> {
        match self.fields.remove(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(answer::refuse("invalid_input", format!("{name}: expected text"))),
            None => Err(answer::refuse("invalid_input", format!("{name}: is missing"))),
        }
    }

    /// Takes a switch out.
    fn take_flag(&mut self, name: &str) -> Result<bool, ToolError> {
        match self.fields.remove(name) {
            Some(Value::Bool(flag)) => Ok(flag),
            None | Some(Value::Null) => Ok(false),
            Some(_) => {
                let message = format!("{name}: expected true or false");
                Err(answer::refuse("invalid_input", message))
            }
        }
    }
}

impl<S: JsonSchema> JsonSchema for Form<S> {
    fn schema_name() -> Cow<'static, str> {
        S::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        S::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}
