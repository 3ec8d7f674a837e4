//! `delegate_task`: work for a child, done while the caller goes on.

use hivewright_actors::{
    blocking,
    ids::TeamName,
    queue::submit::{OpenTask, Overlap, Submission},
    store::records::Writes,
    task::{Kind, OnResult, Options, Priority, Task},
    text::Span,
    tool::{Effect, records::Answer},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    LONGEST_ID, LONGEST_TEXT,
    idempotency::{self, Known},
    outgoing_task::{Sent, by, handed_on, outgoing_task, shown, submit},
};
use crate::{
    settings::team::STEPS,
    teams::service::{Parts, TeamService},
    time,
    tools::{
        about::About,
        answer,
        compact_schema::unsaid,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
    },
    triggers::preconditions::unknown_subagent,
};

pub(super) struct DelegateTask(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    team: String,
    /// Complete in itself: the team sees nothing of this conversation.
    #[schemars(length(min = 1, max = LONGEST_TEXT))]
    task: String,
    #[serde(default)]
    #[schemars(transform = unsaid)]
    priority: Priority,
    /// If it is busy: `confirm` (usual) enqueues nothing and says what it does, `replace` cancels what
    /// you gave it.
    #[serde(default)]
    overlap_policy: Overlap,
    /// RFC 3339, or such as `2h`.
    deadline: Option<String>,
    /// The same key within a day gives the same task.
    #[schemars(length(min = 1, max = LONGEST_ID))]
    idempotency_key: Option<String>,
    /// `notify` tells the person, `wake` gives you a turn, `silent` waits for your next turn.
    on_result: Option<OnResult>,
    /// Who of that team does it.
    subagent: Option<String>,
    #[schemars(range(min = *STEPS.start(), max = *STEPS.end()))]
    max_steps: Option<u32>,
}

impl DelegateTask {
    /// The task as it would be given.
    async fn task(
        &self,
        parts: &Parts,
        args: &Args,
        cx: &ToolContext,
    ) -> Result<(Task, Option<String>), ToolError> {
        let tree = parts.tree();
        let name = TeamName::from(args.team.as_str());
        let team = tree.as_parent(&by(cx), &name)?;
        if let Some(subagent) = &args.subagent {
            let (roster, of) = (parts.roster.clone(), name.clone());
            let known = blocking::run(move || roster(&of)).await.unwrap_or_default();
            if let Some(problem) = unknown_subagent(&name, subagent, &known) {
                let message = format!("`subagent`: {}", problem.reason);
                let fields = json!({ "known": known });
                return Err(answer::refuse_with("unknown_subagent", message, fields));
            }
        }
        let mut task = outgoing_task(parts, cx, team, Kind::Delegate, args.task.clone());
        task.files = handed_on(parts, cx).await?;
        task.priority = args.priority;
        task.options = Options {
            max_steps: args.max_steps,
            subagent: args.subagent.clone(),
            ..Options::default()
        };
        task.on_result = args.on_result.unwrap_or(match &task.source {
            Some(_) => OnResult::Notify,
            None => OnResult::Wake,
        });
        if let Some(text) = &args.deadline {
            let now = parts.clock.now();
            let at =
                text.parse::<Span>().map_or_else(|_| time::parse(text), |span| Some(now + span.0));
            let at = at.filter(|at| *at > now).ok_or_else(|| {
                answer::refuse(
                    "invalid_input",
                    "`deadline`: expected a moment to come, in RFC 3339, or a duration such as `2h`",
                )
            })?;
            task.deadline_at = task.deadline_at.min(at);
        }
        Ok((task, parts.note(team).await))
    }
}

/// What the model reads of work that a team was to be given.
fn told(enqueued: bool, policy: Overlap, in_flight: &[OpenTask]) -> Value {
    json!({
        "enqueued": enqueued,
        "overlap_policy_applied": policy,
        "in_flight": in_flight.iter().map(shown).collect::<Value>(),
    })
}

impl Tool for DelegateTask {
    const ABOUT: About =
        About::new("delegate_task", "@org", "org.delegate_task", Effect::Idempotent)
            .speaks_to_teams();
    const DESCRIPTION: &'static str = "Gives a child team work. You get its id now and the result \
        later. For a short question use `query_team`.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("task", &args.task)?;
        args.idempotency_key.iter().try_for_each(|key| not_blank("idempotency_key", key))
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let policy = args.overlap_policy;
        if let Some(sent) = parts.earlier::<Sent>(cx, "").await? {
            let mut fields = told(true, policy, &[]);
            fields["task_id"] = json!(sent.task_id);
            return Ok(answer::ok(fields));
        }
        let (task, note) = self.task(parts, &args, cx).await?;
        let team = task.team();
        let sent = Sent { task_id: task.id.clone(), at: task.created_at };
        let mut writes = Writes::new().put_at(&cx.key, &Answer(&sent));
        let _turn = match &args.idempotency_key {
            Some(_) => Some(parts.keyed.lock().await),
            None => None,
        };
        if let Some(key) = &args.idempotency_key {
            match idempotency::look_up(parts, &team, key, &args.task).await? {
                Known::Same(first) => {
                    let mut fields = told(false, policy, &[]);
                    fields["task_id"] = json!(first);
                    fields["duplicate"] = true.into();
                    return Ok(answer::ok(fields));
                }
                Known::Other(first) => {
                    let message = format!(
                        "`idempotency_key`: `{key}` was used for other words in task {first}"
                    );
                    return Err(answer::refuse("idempotency_conflict", message));
                }
                Known::Not => {
                    writes = writes.and(idempotency::remember(&team, key, &args.task, &sent));
                }
            }
        }
        Ok(match submit(parts, cx, &args.task, task, writes, Some(policy)).await? {
            Submission::Enqueued { in_flight } => {
                let mut fields = told(true, policy, &in_flight);
                fields["task_id"] = json!(sent.task_id);
                answer::noted(fields, note)
            }
            Submission::Skipped { in_flight } => answer::ok(told(false, policy, &in_flight)),
            Submission::NeedsConfirmation { in_flight, reason } => {
                let mut fields = told(false, policy, &in_flight);
                fields["requires_confirmation"] = true.into();
                if let Some(reason) = reason {
                    fields["reason"] = reason.into();
                }
                answer::ok(fields)
            }
        })
    }
}
