//! `delegate_task`: work for a child, done while the caller goes on.

use std::time::Duration;

use hivewright_actors::{
    ids::TeamName,
    org::tree::By,
    queue::submit::{OpenTask, Overlap, Submission},
    store::records::Writes,
    task::{Kind, OnResult, Options, Task},
    tool::{Effect, records::Answer},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    check_length, check_text,
    errand::{Sent, Urgency, errand, shown, submit},
    idempotency::{self, Known},
    office::{Office, Parts, moment, no, refused},
};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

pub(super) struct DelegateTask(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The child team.
    team: String,
    /// What is to be done, complete in itself: the team knows nothing of this conversation. At most
    /// 100,000 characters.
    task: String,
    /// How soon, among the tasks of that team.
    #[serde(default)]
    priority: Urgency,
    /// What to do if the team is busy: `confirm` says what it does and enqueues nothing, `allow`
    /// enqueues, `skip` does not, `replace` cancels what you gave it before.
    #[serde(default)]
    overlap_policy: OverlapPolicy,
    /// When it is of no use any more: a moment (RFC 3339) or a duration such as `2h`.
    #[serde(default)]
    deadline: Option<String>,
    /// The same key for the same work within a day gives the first task instead of a second one.
    #[serde(default)]
    idempotency_key: Option<String>,
    /// What its end does: `notify` tells the person, `wake` gives you a turn with the result,
    /// `silent` shows it at your next turn.
    #[serde(default)]
    on_result: Option<WhenDone>,
    /// Who of that team does it.
    #[serde(default)]
    subagent: Option<String>,
    /// The most model calls, 1 to 500.
    #[serde(default)]
    max_steps: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OverlapPolicy {
    #[default]
    Confirm,
    Allow,
    Skip,
    Replace,
}

impl OverlapPolicy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Replace => "replace",
        }
    }
}

impl From<OverlapPolicy> for Overlap {
    fn from(policy: OverlapPolicy) -> Self {
        match policy {
            OverlapPolicy::Confirm => Self::Confirm,
            OverlapPolicy::Allow => Self::Allow,
            OverlapPolicy::Skip => Self::Skip,
            OverlapPolicy::Replace => Self::Replace,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WhenDone {
    Notify,
    Wake,
    Silent,
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
        let by = By::Team(cx.caller.team.name.clone());
        let team = tree.as_parent(&by, &name).map_err(no)?;
        if let Some(subagent) = &args.subagent {
            let (roster, of) = (parts.roster.clone(), name.clone());
            let known = tokio::task::spawn_blocking(move || roster(&of)).await;
            let known = known.unwrap_or_default();
            if !known.contains(subagent) {
                return Err(unknown_subagent(&name, subagent, &known));
            }
        }
        let mut task = errand(parts, cx, team, Kind::Delegate, args.task.clone());
        task.priority = args.priority.into();
        task.options = Options {
            max_steps: args.max_steps,
            subagent: args.subagent.clone(),
            ..Options::default()
        };
        task.on_result = match (args.on_result, &task.source) {
            (Some(WhenDone::Notify), _) | (None, Some(_)) => OnResult::Notify,
            (Some(WhenDone::Wake), _) | (None, None) => OnResult::Wake,
            (Some(WhenDone::Silent), _) => OnResult::Silent,
        };
        if let Some(text) = &args.deadline {
            let now = parts.clock.now();
            let at = moment(text, |after| now + after).filter(|at| *at > now);
            let at = at.ok_or_else(|| {
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

fn unknown_subagent(team: &TeamName, subagent: &str, known: &[String]) -> ToolError {
    let listed = match known {
        [] => "it has none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    answer::refuse_with(
        "unknown_subagent",
        format!("`subagent`: team `{team}` has no subagent `{subagent}`; {listed}"),
        json!({ "known": known }),
    )
}

/// What the model reads of a task that was stored.
fn enqueued(
    task: &Value,
    policy: OverlapPolicy,
    in_flight: &[OpenTask],
    note: Option<String>,
) -> String {
    let mut fields = json!({
        "task_id": task,
        "enqueued": true,
        "overlap_policy_applied": policy.as_str(),
        "in_flight": in_flight.iter().map(shown).collect::<Vec<_>>(),
    });
    if let Some(note) = note {
        fields["note"] = note.into();
    }
    answer::ok(fields)
}

impl Tool for DelegateTask {
    const NAME: &'static str = "delegate_task";
    const GROUP: &'static str = "@org";
    const DESCRIPTION: &'static str = "Gives a child team a task that it works on while you go on. You get its id at once \
        and its result later. If the team is busy, nothing is enqueued unless `overlap_policy` says so. For a short question \
        that you need answered now use `query_team`.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.delegate_task";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        check_text("task", &args.task)?;
        if let Some(key) = &args.idempotency_key {
            check_text("idempotency_key", key)?;
            check_length("idempotency_key", key, idempotency::LONGEST)?;
        }
        match args.max_steps {
            Some(steps) if !(1..=500).contains(&steps) => {
                Err("`max_steps`: expected a number from 1 to 500".to_owned())
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(sent) = parts.earlier::<Sent>(cx, "").await? {
            return Ok(enqueued(&json!(sent.task_id), args.overlap_policy, &[], None));
        }
        let (task, note) = self.task(parts, &args, cx).await?;
        let (id, team) = (task.id.clone(), task.team());
        let sent = Sent { task_id: id.clone(), at: task.created_at };
        let mut writes = Writes::new().put_at(&cx.key, &Answer(&sent));
        if let Some(key) = &args.idempotency_key {
            match idempotency::look_up(parts, &team, key, &args.task).await? {
                Known::Same(first) => {
                    return Ok(answer::ok(json!({
                        "task_id": first,
                        "enqueued": false,
                        "duplicate": true,
                        "overlap_policy_applied": args.overlap_policy.as_str(),
                        "in_flight": [],
                    })));
                }
                Known::Other(first) => {
                    return Err(answer::refuse(
                        "idempotency_conflict",
                        format!(
                            "`idempotency_key`: `{key}` was used for other words in task {first}"
                        ),
                    ));
                }
                Known::Not => {
                    writes = writes.and(idempotency::remember(&team, key, &args.task, &sent));
                }
            }
        }
        let policy = args.overlap_policy;
        let submitted = submit(parts, cx, &args.task, task, writes, Some(policy.into())).await;
        let submission = submitted.map_err(|refusal| refused(&team.name, &refusal))?;
        let left = |in_flight: Vec<OpenTask>| {
            json!({
                "enqueued": false,
                "overlap_policy_applied": policy.as_str(),
                "in_flight": in_flight.iter().map(shown).collect::<Vec<_>>(),
            })
        };
        Ok(match submission {
            Submission::Enqueued { in_flight } => enqueued(&json!(id), policy, &in_flight, note),
            Submission::Skipped { in_flight } => answer::ok(left(in_flight)),
            Submission::NeedsConfirmation { in_flight, reason } => {
                let mut fields = left(in_flight);
                fields["requires_confirmation"] = true.into();
                if let Some(reason) = reason {
                    fields["reason"] = reason.into();
                }
                answer::ok(fields)
            }
        })
    }
}
