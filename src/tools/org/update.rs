//! `update_team`: a child takes on other things, or is described in other words.

use std::time::Duration;

use hivewright_actors::{
    ids::TeamName,
    org::{Update, record::TeamRecord, tree::By},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    check_length,
    office::{Office, Parts},
};
use crate::{
    settings::team::LONGEST_DESCRIPTION,
    tools::{
        answer,
        contract::{Limits, Pool, Tool, ToolContext, ToolError},
    },
};

pub(super) struct UpdateTeam(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The child team.
    team: String,
    /// Words to add to what it takes on.
    #[serde(default)]
    scope_add: Vec<String>,
    /// Words to take away. One has to stay.
    #[serde(default)]
    scope_remove: Vec<String>,
    /// Another description, at most 500 characters.
    #[serde(default)]
    description: Option<String>,
}

async fn answered(parts: &Parts, team: &TeamRecord) -> String {
    let file = parts.live.team(&team.name).await;
    let description = file.map(|file| file.description.clone());
    answer::ok(json!({
        "team": team.name,
        "scope": team.scope,
        "description": description.unwrap_or_default(),
    }))
}

impl Tool for UpdateTeam {
    const NAME: &'static str = "update_team";
    const GROUP: &'static str = "@org";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str =
        "Changes what a child team takes on (its scope keywords) or its description.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.update_team";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        let description = args.description.as_deref();
        check_length("description", description.unwrap_or_default(), LONGEST_DESCRIPTION)?;
        if args.scope_add.is_empty() && args.scope_remove.is_empty() && description.is_none() {
            return Err("give `scope_add`, `scope_remove` or `description`".to_owned());
        }
        Ok(())
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(team) = parts.earlier::<TeamRecord>(cx, "").await? {
            return Ok(answered(parts, &team).await);
        }
        let update = Update {
            name: TeamName::from(args.team),
            by: By::Team(cx.caller.team.name.clone()),
            add: args.scope_add,
            remove: args.scope_remove,
            description: args.description,
            capabilities: None,
            call: Some(cx.key.clone()),
        };
        let team = parts.ask(update).await?;
        Ok(answered(parts, &team).await)
    }
}
