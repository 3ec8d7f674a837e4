//! `get_status`: what teams do at the moment.

use std::{collections::HashMap, time::Duration};

use hivewright_actors::{
    ids::{TaskId, TeamName},
    journal,
    org::record::TeamRecord,
    queue::submit::OpenTask,
    task::{TaskState, records as tasks},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::office::{Office, Parts, no};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
    pools::{self, Pools},
};

pub(super) struct GetStatus {
    pub(super) office: Office,
    pub(super) pools: Pools,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Your own team or one below it; left out, all of them.
    #[serde(default)]
    team: Option<String>,
}

/// In which model call each task is that has begun.
async fn steps(parts: &Parts, open: &[OpenTask]) -> HashMap<TaskId, u32> {
    let begun = open.iter().filter(|task| task.state != TaskState::Accepted);
    let begun: Vec<TaskId> = begun.map(|task| task.task_id.clone()).collect();
    let read = parts.store.read(move |storage| {
        let mut steps = HashMap::new();
        for id in begun {
            if let Some(task) = tasks::find(storage, &id)? {
                let step = journal::present_step(storage, &task)?;
                steps.insert(id, step);
            }
        }
        Ok(steps)
    });
    read.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "how far tasks are cannot be read");
        HashMap::new()
    })
}

async fn status(
    parts: &Parts,
    pools: &Pools,
    team: &TeamRecord,
    open: &[OpenTask],
    steps: &HashMap<TaskId, u32>,
) -> Value {
    let own = || open.iter().filter(|task| task.team == team.name);
    let waiting = || own().filter(|task| task.state == TaskState::Accepted);
    let running: Vec<Value> = own()
        .filter(|task| task.state != TaskState::Accepted)
        .map(|task| {
            let mut row = json!({
                "task_id": task.task_id,
                "type": task.kind.as_str(),
                "age_ms": task.age_ms,
                "step": steps.get(&task.task_id),
            });
            if let Some(reason) = task.wait_reason {
                row["wait_reason"] = reason.as_str().into();
            }
            row
        })
        .collect();
    let limit = parts.live.team(&team.name).await.map(|file| file.budgets);
    let busy = pools.busy(&team.name);
    json!({
        "name": team.name,
        "state": parts.state(team).await.as_str(),
        "phase": team.phase.as_str(),
        "running": running,
        "queued": waiting().count(),
        "oldest_wait_ms": waiting().map(|task| task.age_ms).max(),
        "active_daily_ops": busy.daily,
        "saturated": busy.daily >= pools::DAILY,
        "org_op_pending": busy.org > 0,
        "budget": { "spent": (parts.spent)(&team.name), "limit": limit.ok() },
    })
}

impl Tool for GetStatus {
    const NAME: &'static str = "get_status";
    const GROUP: &'static str = "@org";
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
        let parts = self.office.parts();
        let tree = parts.tree();
        let caller = &cx.caller.team.name;
        let teams = match args.team.map(TeamName::from) {
            Some(name) => vec![tree.as_self_or_above(caller, &name).map_err(no)?],
            None => tree.subtree(caller.as_str()),
        };
        let open = parts.work.open(None).await;
        let shown: Vec<OpenTask> = open
            .iter()
            .filter(|task| teams.iter().any(|team| team.name == task.team))
            .cloned()
            .collect();
        let steps = steps(parts, &shown).await;
        let mut rows = Vec::new();
        for team in teams {
            rows.push(status(parts, &self.pools, team, &open, &steps).await);
        }
        Ok(answer::ok(json!({ "teams": rows })))
    }
}
