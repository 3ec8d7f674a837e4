//! `list_triggers`: what a team will do by itself.

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Desk, LIMITS, author, no};
use crate::{
    api::triggers::TriggerRow,
    tools::{
        answer,
        contract::{Limits, Tool, ToolContext, ToolError},
    },
};

pub(super) struct ListTriggers(pub(super) Desk);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Whose: your own team, or a child of yours. Left out: your own.
    #[serde(default)]
    team: Option<String>,
}

impl Tool for ListTriggers {
    const NAME: &'static str = "list_triggers";
    const GROUP: &'static str = "@triggers";
    const DESCRIPTION: &'static str =
        "Lists the triggers of your team or of a child, each with its next time and its last run.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "trigger.list_triggers";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let name = args.team.unwrap_or_else(|| cx.caller.team.name.to_string());
        let team = parts.team_to_see(&author(cx), &name).map_err(no)?;
        let listed = parts.list(Some(team)).await.map_err(no)?;
        let triggers: Vec<TriggerRow> = listed.iter().map(TriggerRow::from).collect();
        Ok(answer::ok(json!({ "triggers": triggers })))
    }
}
