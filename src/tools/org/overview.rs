//! `list_teams` and `get_status`: who is below the caller, and what they do at the moment.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use hivewright_actors::{
    ids::{TaskId, TeamName},
    journal,
    org::{record::TeamRecord, tree::Tree},
    queue::submit::OpenTask,
    task::{TaskState, records as tasks},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    teams::service::{Parts, TeamService},
    tools::{
        about::About,
        answer,
        concurrency::{self, ConcurrencyLimits},
        contract::{Tool, ToolContext},
        error::ToolError,
    },
};

pub(super) struct ListTeams(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Listing {
    /// Also those below them.
    #[serde(default)]
    recursive: bool,
}

/// The teams right below one as lists show them, with their own if told so.
fn rows<'a>(
    parts: &'a Parts,
    tree: &'a Tree,
    above: &'a str,
    open: &'a [OpenTask],
    recursive: bool,
) -> BoxFuture<'a, Value> {
    Box::pin(async move {
        let mut teams = Vec::new();
        for team in tree.children(above) {
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
            teams.push(fields);
        }
        Value::Array(teams)
    })
}

impl Tool for ListTeams {
    const ABOUT: About = About::new("list_teams", "@org", "org.list_teams", Effect::Pure);
    const DESCRIPTION: &'static str = "Your child teams: purpose, scope, whether busy. Look here \
        before you delegate or make a team.";
    type Args = Listing;

    async fn call(&self, args: Listing, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let tree = parts.tree();
        let open = parts.work.open(None).await;
        let above = cx.caller.team.name.as_str();
        let teams = rows(parts, &tree, above, &open, args.recursive).await;
        Ok(answer::ok(json!({ "teams": teams })))
    }
}

pub(super) struct GetStatus {
    pub(super) team_service: TeamService,
    pub(super) limits: ConcurrencyLimits,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Whose {
    /// Left out: all of them.
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
        tracing::warn!(%error, "how far tasks are cannot be read, and is left out");
        HashMap::new()
    })
}

async fn status(
    parts: &Parts,
    limits: &ConcurrencyLimits,
    team: &TeamRecord,
    open: &[OpenTask],
    steps: &HashMap<TaskId, u32>,
) -> Value {
    let own = || open.iter().filter(|task| task.team == team.name);
    let waiting = || own().filter(|task| task.state == TaskState::Accepted);
    let running = own().filter(|task| task.state != TaskState::Accepted).map(|task| {
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
    });
    let limit = parts.live.team(&team.name).await.map(|file| file.budgets);
    let busy = limits.busy(&team.name);
    json!({
        "name": team.name,
        "state": parts.state(team).await.as_str(),
        "phase": team.phase.as_str(),
        "running": running.collect::<Value>(),
        "queued": waiting().count(),
        "oldest_wait_ms": waiting().map(|task| task.age_ms).max(),
        "active_daily_ops": busy.daily,
        "saturated": busy.daily >= concurrency::DAILY,
        "org_op_pending": busy.org > 0,
        "budget": { "spent": (parts.spent)(&team.name), "limit": limit.ok() },
    })
}

impl Tool for GetStatus {
    const ABOUT: About = About::new("get_status", "@org", "org.get_status", Effect::Pure);
    const DESCRIPTION: &'static str =
        "What your team and those below it do now: tasks, state, budget.";
    type Args = Whose;

    async fn call(&self, args: Whose, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.team_service.parts();
        let tree = parts.tree();
        let caller = &cx.caller.team.name;
        let teams = match args.team.map(TeamName::from) {
            Some(name) => vec![tree.as_self_or_above(caller, &name)?],
            None => tree.subtree(caller.as_str()),
        };
        let mut open = parts.work.open(None).await;
        open.retain(|task| teams.iter().any(|team| team.name == task.team));
        let steps = steps(parts, &open).await;
        let mut rows = Vec::new();
        for team in teams {
            rows.push(status(parts, &self.limits, team, &open, &steps).await);
        }
        Ok(answer::ok(json!({ "teams": rows })))
    }
}
