//! `list_completed_tasks`: what was done lately.

use std::time::Duration;

use hivewright_actors::{
    ids::TeamName,
    store::{reads, records::EndedTask},
    task::{Cause, Outcome, Task},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::office::{Office, date, moment, no};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

/// How far back, unless the call says otherwise.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many, unless the call says otherwise.
const SOME: usize = 50;
/// The most.
const MOST: usize = 200;
/// So much of a result is shown, in characters.
const SNIPPET: usize = 200;

pub(super) struct ListCompletedTasks(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Your own team, or one below it.
    #[serde(default)]
    team: Option<String>,
    /// A moment (RFC 3339), or how long ago, such as `2d`. Left out: seven days.
    #[serde(default)]
    since: Option<String>,
    /// At most so many, 1 to 200. Left out: 50.
    #[serde(default)]
    limit: Option<usize>,
}

fn row(task: &Task, outcome: &Outcome) -> Value {
    let said = match (&outcome.message, outcome.text.is_empty()) {
        (Some(message), true) => message,
        _ => &outcome.text,
    };
    let took = outcome.finished_at.since(task.created_at);
    json!({
        "id": task.id,
        "team": task.lane.team,
        "type": task.kind.as_str(),
        "state": outcome.ending.as_str(),
        "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "result_snippet": said.chars().take(SNIPPET).collect::<String>(),
        "finished_at": date(outcome.finished_at),
    })
}

/// What a turn is shown of others' work: nothing that another person caused. Work that nobody is behind looks
/// after everyone's, and is shown to everyone.
fn is_shown(task: &Task, behind: &Cause) -> bool {
    let cause = task.caused_by();
    cause == *behind || cause == Cause::System || *behind == Cause::System
}

impl Tool for ListCompletedTasks {
    const NAME: &'static str = "list_completed_tasks";
    const DESCRIPTION: &'static str =
        "Lists tasks that your team, or one below it, has ended lately, the newest first.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.list_completed_tasks";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        match args.limit {
            Some(limit) if !(1..=MOST).contains(&limit) => {
                Err(format!("`limit`: expected a number from 1 to {MOST}"))
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts()?;
        let tree = parts.tree();
        let caller = &cx.caller.team.name;
        let name = args.team.map_or_else(|| caller.clone(), TeamName::from);
        let team = tree.as_self_or_above(caller, &name).map_err(no)?.key();
        let now = parts.clock.now();
        let since = match &args.since {
            None => now - WEEK,
            Some(text) => moment(text, |ago| now - ago).ok_or_else(|| {
                answer::refuse(
                    "invalid_input",
                    "`since`: expected a moment in RFC 3339, or a duration such as `2d`",
                )
            })?,
        };
        let limit = args.limit.unwrap_or(SOME);
        let behind = cx.caller.cause.clone();
        let tasks = parts.store.read(move |storage| {
            // What people said is theirs.
            let of = |ended: &EndedTask| ended.team == team.name && !ended.is_chat;
            let wanted =
                |task: &Task| task.generation == team.generation && is_shown(task, &behind);
            reads::ended_tasks(storage, since, limit, of, wanted)
        });
        let tasks = tasks
            .await
            .map_err(|error| ToolError::failed(error.to_string()))?;
        // What a turn said holds what it had read.
        tasks.iter().for_each(|task| cx.believe(task.label));
        let rows: Vec<Value> = tasks
            .iter()
            .filter_map(|task| Some(row(task, task.outcome.as_ref()?)))
            .collect();
        Ok(answer::ok(json!({ "tasks": rows })))
    }
}
