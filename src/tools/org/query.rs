//! `query_team` and `query_teams`: questions to children that the caller waits for.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use hivewright_actors::{
    ids::{TaskId, TeamName},
    org::{
        record::{TeamRecord, TeamState},
        tree::Tree,
        work::Work,
    },
    store::records::Writes,
    task::{
        Kind, Label, OnResult, Priority,
        outcome::{Ending, Outcome},
        records as tasks,
    },
    tool::{Effect, records::Answer},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    LONGEST_TEXT,
    outgoing_task::{Sent, by, enqueue, handed_on, outgoing_task, shown},
};
use crate::{
    teams::service::{Parts, TeamService},
    tools::{
        about::About,
        answer,
        contract::{LONGEST, Tool, ToolContext, not_blank},
        error::ToolError,
    },
};

/// How long one team is waited for, unless the call says otherwise.
const ONE: Duration = Duration::from_secs(120);
/// How long several are, and at most.
const SEVERAL: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(120));
/// The most teams of one call.
const MOST: usize = 5;
/// How long a call has beyond what it waits: to cancel, and to say what happened.
const SLACK: Duration = Duration::from_secs(5);

pub(super) struct QueryTeam(pub(super) TeamService);
pub(super) struct QueryTeams(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct One {
    team: String,
    /// Complete in itself.
    #[schemars(length(min = 1, max = LONGEST_TEXT))]
    query: String,
    #[schemars(range(min = 1, max = LONGEST.as_millis() as u64))]
    timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Several {
    #[schemars(length(min = 1))]
    teams: Vec<String>,
    /// Complete in itself.
    #[schemars(length(min = 1, max = LONGEST_TEXT))]
    query: String,
    #[schemars(range(min = 1, max = SEVERAL.1.as_millis() as u64))]
    timeout_ms: Option<u64>,
}

/// A team gave no answer to a question. `current`: what it does instead.
fn silence(code: &str, message: String, task: &TaskId, current: Option<Value>) -> ToolError {
    answer::refuse_with(code, message, json!({ "task_id": task, "current_task": current }))
}

/// Withdraws a question if whoever asked goes away without an answer.
struct Open {
    work: Arc<dyn Work>,
    task: Option<TaskId>,
}

impl Open {
    fn closed(mut self) {
        self.task = None;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            let reason = "the team that asked stopped waiting".to_owned();
            self.work.cancel_soon(task, reason);
        }
    }
}

/// Asks a team, and waits for the end of the question. A question that an earlier try asked is not
/// asked again.
async fn ask(
    parts: &Parts,
    cx: &ToolContext,
    name: &TeamName,
    query: &str,
    patience: Duration,
) -> Result<(TaskId, String), ToolError> {
    let tree = parts.tree();
    let team = tree.as_parent(&by(cx), name)?;
    let part = format!("/{name}");
    let id = match parts.earlier::<Sent>(cx, &part).await? {
        Some(sent) => sent.task_id,
        None if team.state == TeamState::Degraded => {
            return Err(answer::refuse("team_failed", rests(name)));
        }
        None => give(parts, cx, team, query, patience, &part).await?,
    };
    let open = Open { work: parts.work.clone(), task: Some(id.clone()) };
    let waiting = parts.work.wait(id.clone(), Some(cx.caller.lane.clone()));
    let mut teams = parts.view.changes();
    let is_degraded = |tree: &Arc<Tree>| {
        let team = tree.get(name.as_str());
        team.is_some_and(|team| team.state == TeamState::Degraded)
    };
    let degraded = async { teams.wait_for(is_degraded).await.map(drop) };
    let ended = tokio::select! {
        biased;
        outcome = waiting => outcome,
        Ok(()) = degraded => {
            parts.work.cancel(id.clone(), rests(name)).await;
            open.closed();
            return Err(silence("team_failed", rests(name), &id, None));
        }
        () = tokio::time::sleep(patience) => {
            let silence = withdraw(parts, team, &id, patience).await;
            open.closed();
            return Err(silence);
        }
        () = cx.cancel.cancelled() => return Err(ToolError::stopped("")),
    };
    open.closed();
    let task = id.clone();
    let row = parts.store.read(move |storage| tasks::find(storage, &task));
    let row = row.await.ok().flatten();
    // The row has the label of the turn that answered. What cannot be looked up is not believed.
    cx.believe(row.as_ref().map_or(Label::Untrusted, |task| task.label));
    let text = match ended.or_else(|| row.and_then(|task| task.outcome)) {
        Some(outcome) => read(name, outcome),
        None => Err(("team_failed", format!("`{name}`: the question was lost; ask again"))),
    };
    match text {
        Ok(text) => Ok((id, text)),
        Err((code, message)) => Err(silence(code, message, &id, None)),
    }
}

/// Nobody waits for an answer of a team that starts no turn before it has rested.
fn rests(team: &TeamName) -> String {
    format!(
        "`{team}` is degraded: it died several times and rests; use `delegate_task` for work that can wait, or ask later"
    )
}

/// Puts the question into the team's lane.
async fn give(
    parts: &Parts,
    cx: &ToolContext,
    team: &TeamRecord,
    query: &str,
    patience: Duration,
    part: &str,
) -> Result<TaskId, ToolError> {
    let mut task = outgoing_task(parts, cx, team, Kind::Query, query.to_owned());
    task.files = handed_on(parts, cx).await?;
    task.priority = Priority::High;
    // The answer goes to whoever waits, and nowhere else.
    task.reply_to = None;
    task.on_result = OnResult::Silent;
    task.deadline_at = task.deadline_at.min(task.created_at + patience + SLACK);
    let sent = Sent { task_id: task.id.clone(), at: task.created_at };
    let writes = Writes::new().put_at(&format!("{}{part}", cx.key), &Answer(&sent));
    enqueue(parts, cx, query, task, writes).await?;
    Ok(sent.task_id)
}

/// The time is over: the question ends, and the caller learns what the team does.
async fn withdraw(parts: &Parts, team: &TeamRecord, id: &TaskId, patience: Duration) -> ToolError {
    let open = parts.work.open(Some(team.name.clone())).await;
    let reason = "the team that asked stopped waiting".to_owned();
    parts.work.cancel(id.clone(), reason).await;
    let current = open.iter().find(|task| task.task_id != *id).map(shown);
    let message = format!(
        "`{}` gave no answer within {} ms, and the question was withdrawn; use `delegate_task` for work that takes longer",
        team.name,
        patience.as_millis()
    );
    silence("timeout", message, id, current)
}

/// What the end of a question says: the answer, or the code and the words of why there is none.
fn read(team: &TeamName, outcome: Outcome) -> Result<String, (&'static str, String)> {
    match outcome.ending {
        Ending::Done if outcome.text.trim().is_empty() => {
            Err(("empty_response", format!("`{team}` answered with nothing")))
        }
        Ending::Done => Ok(outcome.text),
        Ending::Expired => Err((
            "timeout",
            format!(
                "`{team}` gave no answer in time; use `delegate_task` for work that takes longer"
            ),
        )),
        Ending::Failed | Ending::Cancelled | Ending::Dead => {
            let why = outcome.message.unwrap_or_else(|| "no reason was given".to_owned());
            let ending = outcome.ending.as_str();
            Err(("team_failed", format!("`{team}`: the question ended as {ending}: {why}")))
        }
    }
}

/// What a call waits. No call may take longer than [`LONGEST`], so its end must fit into that.
fn patience(asked: Option<u64>, default: Duration) -> Duration {
    let asked = asked.map_or(default, Duration::from_millis);
    asked.min(LONGEST.saturating_sub(SLACK))
}

impl Tool for QueryTeam {
    const ABOUT: About = About::new("query_team", "@org", "org.query_team", Effect::Idempotent)
        .within(ONE, LONGEST)
        .speaks_to_teams();
    const DESCRIPTION: &'static str = "Asks a child team and waits for its answer: for what takes \
        seconds to minutes. For longer work use `delegate_task`.";
    type Args = One;

    fn accept(args: &One) -> Result<(), String> {
        not_blank("query", &args.query)
    }

    fn timeout(args: &One) -> Option<Duration> {
        Some(patience(args.timeout_ms, ONE) + SLACK)
    }

    async fn call(&self, args: One, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let team = TeamName::from(args.team);
        let patience = patience(args.timeout_ms, ONE);
        let (task_id, response) = ask(parts, cx, &team, &args.query, patience).await?;
        Ok(answer::ok(json!({ "response": response, "task_id": task_id })))
    }
}

impl Tool for QueryTeams {
    const ABOUT: About = About::new("query_teams", "@org", "org.query_teams", Effect::Idempotent)
        .within(SEVERAL.0, LONGEST)
        .speaks_to_teams();
    const DESCRIPTION: &'static str = "The same question to 1 to 5 child teams at once; one that \
        fails leaves the others' answers.";
    type Args = Several;

    fn accept(args: &Several) -> Result<(), String> {
        not_blank("query", &args.query)?;
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = args.teams.iter().find(|team| !seen.insert(*team)) {
            return Err(format!("`teams`: `{twice}` is named twice"));
        }
        Ok(())
    }

    fn timeout(args: &Several) -> Option<Duration> {
        Some(patience(args.timeout_ms, SEVERAL.0) + SLACK)
    }

    async fn call(&self, args: Several, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if args.teams.len() > MOST {
            return Err(answer::refuse(
                "fanout_limit",
                format!("`teams`: {} are named; at most {MOST} are allowed", args.teams.len()),
            ));
        }
        let names: Vec<TeamName> = args.teams.into_iter().map(TeamName::from).collect();
        let tree = parts.tree();
        for name in &names {
            tree.as_parent(&by(cx), name)?;
        }
        let patience = patience(args.timeout_ms, SEVERAL.0);
        let asked = names.iter().map(|name| ask(parts, cx, name, &args.query, patience));
        let heard = join_all(asked).await;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::stopped(""));
        }
        let results = names.iter().zip(heard).map(|(team, heard)| match heard {
            Ok((task_id, response)) => {
                json!({ "team": team, "ok": true, "response": response, "task_id": task_id })
            }
            Err(ToolError { fault, message, refusal, .. }) => {
                let mut row = json!({
                    "team": team,
                    "ok": false,
                    "error": refusal["error"].as_str().unwrap_or(fault.as_str()),
                    "message": refusal["message"].as_str().unwrap_or(&message),
                });
                if let Some(task) = refusal.get("task_id") {
                    row["task_id"] = task.clone();
                }
                row
            }
        });
        let results: Vec<Value> = results.collect();
        if results.iter().any(|result| result["ok"] == true) {
            return Ok(answer::ok(json!({ "results": results })));
        }
        let codes: Vec<&str> =
            results.iter().filter_map(|result| result["error"].as_str()).collect();
        let code = match codes.first() {
            Some(first) if codes.iter().all(|code| code == first) => first,
            _ => "team_failed",
        };
        let message = "none of the teams answered; `results` says why";
        Err(answer::refuse_with(code, message, json!({ "results": results })))
    }
}
