//! `get_status`: what teams do at the moment.

use std::time::Duration;

use hivewright_actors::{
    ids::TeamName,
    org::record::TeamRecord,
    queue::submit::{OpenState, OpenTask},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::office::{Office, Parts, no};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

pub(super) struct GetStatus(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Your own team or one below it; left out, all of them.
    #[serde(default)]
    team: Option<String>,
}

async fn status(parts: &Parts, team: &TeamRecord, open: &[OpenTask]) -> Value {
    let own = || open.iter().filter(|task| task.team == team.name);
    let waiting = || own().filter(|task| task.state == OpenState::Accepted);
    let running: Vec<Value> = own()
        .filter(|task| task.state != OpenState::Accepted)
        .map(|task| {
            let mut row = json!({
                "task_id": task.task_id,
                "type": task.kind.as_str(),
                "age_ms": task.age_ms,
            });
            if let OpenState::Parked(reason) = task.state {
                row["wait_reason"] = reason.as_str().into();
            }
            row
        })
        .collect();
    let limit = parts.live.team(&team.name).await.map(|file| file.budgets);
    json!({
        "name": team.name,
        "state": parts.state(team).await.as_str(),
        "phase": team.phase.as_str(),
        "running": running,
        "queued": waiting().count(),
        "oldest_wait_ms": waiting().map(|task| task.age_ms).max(),
        "budget": { "spent": (parts.spent)(&team.name), "limit": limit.ok() },
    })
}

impl Tool for GetStatus {
    const NAME: &'static str = "get_status";
    const DESCRIPTION: &'static str = "Says what your team and the teams below it do at the moment: running and waiting tasks, \
        state and budget.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.get_status";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts()?;
        let tree = parts.tree();
        let caller = &cx.caller.team.name;
        let teams = match args.team.map(TeamName::from) {
            Some(name) => vec![tree.as_self_or_above(caller, &name).map_err(no)?],
            None => tree.subtree(caller.as_str()),
        };
        let open = parts.work.open(None).await;
        let mut rows = Vec::new();
        for team in teams {
            rows.push(status(parts, team, &open).await);
        }
        Ok(answer::ok(json!({ "teams": rows })))
    }
}
