//! `memory_delete`: what is remembered under a key no longer counts.

use std::time::Duration;

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::refusal;
use crate::{
    memory::{
        Memory,
        entry::{Actor, Key},
    },
    tools::{
        answer,
        contract::{Limits, Tool, ToolContext, ToolError},
    },
};

pub(super) struct Delete(pub(super) Memory);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The key of the entry.
    key: String,
    /// Why, at most 500 characters.
    reason: Option<String>,
}

impl Tool for Delete {
    const NAME: &'static str = "memory_delete";
    const GROUP: &'static str = "@memory";
    const DESCRIPTION: &'static str = "Takes an entry out of your team's memory. Its versions are kept, and a person can \
        bring them back. To correct an entry use `memory_save` with `supersede_reason` instead.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "memory";
    type Args = Args;

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let team = &cx.caller.team;
        let key = Key::parse(&args.key).map_err(refusal)?;
        let by = Actor::Team(team.name.clone());
        let deleted = self
            .0
            .delete(team, &key, args.reason, by, Some(cx.key.clone()))
            .await
            .map_err(refusal)?;
        Ok(answer::ok(json!({ "deleted": deleted })))
    }
}
