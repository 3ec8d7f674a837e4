//! `shutdown_team`: a child goes, with all it has.

use std::time::Duration;

use hivewright_actors::{
    ids::TeamName,
    org::{Shutdown, shutdown::Removed, tree::By},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::office::Office;
use crate::tools::{
    answer,
    contract::{LONGEST, Limits, Pool, Tool, ToolContext, ToolError},
};

pub(super) struct ShutdownTeam(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The child team.
    name: String,
    /// Also all teams below it.
    #[serde(default)]
    cascade: bool,
}

fn answered(removed: &Removed) -> String {
    answer::ok(json!({
        "removed": removed.removed,
        "cancelled_tasks": removed.cancelled_tasks,
        "trash": removed.trash,
    }))
}

impl Tool for ShutdownTeam {
    const NAME: &'static str = "shutdown_team";
    const GROUP: &'static str = "@org";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Shuts a child team down for good: its tasks are cancelled, its memory, triggers and \
        secrets deleted, its folder moved to the trash. An operator has to agree.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = Limits { timeout: Duration::from_secs(300), longest: LONGEST };
    const CLASS: &'static str = "org.shutdown_team";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(removed) = parts.earlier::<Removed>(cx, "").await? {
            return Ok(answered(&removed));
        }
        let shutdown = Shutdown {
            name: TeamName::from(args.name),
            cascade: args.cascade,
            by: By::Team(cx.caller.team.name.clone()),
            call: Some(cx.key.clone()),
        };
        Ok(answered(&parts.ask(shutdown).await?))
    }
}
