//! `enable_trigger` and `disable_trigger`.

use hivewright_actors::{
    policy::caution::Caution,
    scheduler::manage::{Change, Manage},
    tool::{Caller, Effect},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    Desk, LIMITS,
    consent::{self, Deed},
    no, standing, which,
};
use crate::tools::{
    answer,
    contract::{Limits, Pool, Tool, ToolContext, ToolError},
};

/// The longest reason, in characters.
const LONGEST_REASON: usize = 2_000;

pub(super) struct EnableTrigger(pub(super) Desk);

pub(super) struct DisableTrigger(pub(super) Desk);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// The team it belongs to.
    team: String,
    /// Its name.
    trigger_name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Off {
    /// The team it belongs to.
    team: String,
    /// Its name.
    trigger_name: String,
    /// Why.
    #[serde(default)]
    reason: Option<String>,
    /// Also stop the task that it started last.
    #[serde(default)]
    cancel_running: bool,
}

impl Tool for EnableTrigger {
    const NAME: &'static str = "enable_trigger";
    const GROUP: &'static str = "@triggers";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Lets a trigger fire from now on. The time it was off is not made up, and its \
        failures are forgotten.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "trigger.enable_trigger";
    type Args = Which;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn caution(&self, args: &Which, caller: &Caller) -> Option<Caution> {
        let parts = self.0.parts();
        consent::caution(parts, caller, &args.team, &Deed::Enable(&args.trigger_name))
    }

    async fn call(&self, args: Which, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let which = which(parts, cx, &args.team, &args.trigger_name)?;
        let trigger = parts.enable(which).await.map_err(no)?;
        Ok(answer::ok(standing(parts, &trigger)))
    }
}

impl Tool for DisableTrigger {
    const NAME: &'static str = "disable_trigger";
    const GROUP: &'static str = "@triggers";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Lets a trigger fire no more, until it is enabled again. Work that it started goes on unless `cancel_running` is set.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "trigger.disable_trigger";
    type Args = Off;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Off) -> Result<(), String> {
        match &args.reason {
            Some(reason) if reason.chars().count() > LONGEST_REASON => {
                Err(format!("`reason`: at most {LONGEST_REASON} characters are allowed"))
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, args: Off, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let which = which(parts, cx, &args.team, &args.trigger_name)?;
        let by = format!("disabled by team {}", cx.caller.team.name);
        let reason = args.reason.unwrap_or(by);
        let change = Change::Disable { reason, cancel_running: args.cancel_running };
        let trigger = parts.ask(Manage { which, change }).await.map_err(no)?;
        Ok(answer::ok(json!({ "state": trigger.state })))
    }
}
