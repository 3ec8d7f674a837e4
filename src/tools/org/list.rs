//! `list_teams`: who is below the caller.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hivewright_actors::{
    org::{record::TeamRecord, tree::Tree},
    queue::submit::OpenTask,
    task::TaskState,
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::office::{Office, Parts};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

pub(super) struct ListTeams(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Also the teams below your children.
    #[serde(default)]
    recursive: bool,
}

/// A team as lists show it, with its children if told so.
fn row<'a>(
    parts: &'a Parts,
    tree: &'a Tree,
    team: &'a TeamRecord,
    open: &'a [OpenTask],
    recursive: bool,
) -> BoxFuture<'a, Value> {
    Box::pin(async move {
        let file = parts.live.team(&team.name).await;
        let own = || open.iter().filter(|task| task.team == team.name);
        let running = own().filter(|task| task.state == TaskState::Running).count();
        let mut fields = json!({
            "name": team.name,
            "description": file.map(|file| file.description.clone()).unwrap_or_default(),
            "scope": tree.effective_scope(team.name.as_str()),
            "state": parts.state(team).await.as_str(),
            "phase": team.phase.as_str(),
            "pending": own().count() - running,
            "running": running,
        });
        if recursive {
            fields["children"] = rows(parts, tree, team.name.as_str(), open, true).await;
        }
        fields
    })
}

async fn rows(
    parts: &Parts,
    tree: &Tree,
    above: &str,
    open: &[OpenTask],
    recursive: bool,
) -> Value {
    let mut rows = Vec::new();
    for team in tree.children(above) {
        rows.push(row(parts, tree, team, open, recursive).await);
    }
    Value::Array(rows)
}

impl Tool for ListTeams {
    const NAME: &'static str = "list_teams";
    const GROUP: &'static str = "@org";
    const DESCRIPTION: &'static str = "Lists your child teams: what they are for, what they take on and whether they are busy. \
        Look here before you delegate or make a team.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.list_teams";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let tree = parts.tree();
        let open = parts.work.open(None).await;
        let above = cx.caller.team.name.as_str();
        let teams = rows(parts, &tree, above, &open, args.recursive).await;
        Ok(answer::ok(json!({ "teams": teams })))
    }
}
