//! `test_trigger`: a run right now, which the trigger does not remember.

use hivewright_actors::{
    queue::causes::Giver,
    scheduler::{
        firing::ByTurn,
        requests::{ByHand, Fire, Overlap},
        run::Cause,
    },
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Desk, LIMITS, no, which};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

/// The longest sample, in characters.
const LONGEST_SAMPLE: usize = 20_000;

pub(super) struct TestTrigger(pub(super) Desk);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The team it belongs to.
    team: String,
    /// Its name.
    trigger_name: String,
    /// The most model calls of this run, 1 to 500.
    #[serde(default)]
    max_steps: Option<u32>,
    /// What to do if the trigger's last task is unfinished.
    #[serde(default)]
    overlap_policy: Overlap,
    /// For `keyword` and `message` a message, for `webhook` a body, as it would have come.
    #[serde(default)]
    sample: Option<String>,
}

impl Tool for TestTrigger {
    const NAME: &'static str = "test_trigger";
    const GROUP: &'static str = "@triggers";
    const DESCRIPTION: &'static str = "Starts a run of a trigger right now, whatever its state, to see whether it does what \
        it should. Its schedule, its failures and its cursors stay as they are.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "trigger.test_trigger";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        if args.max_steps.is_some_and(|steps| !(1..=500).contains(&steps)) {
            return Err("`max_steps`: expected a number from 1 to 500".to_owned());
        }
        match &args.sample {
            Some(sample) if sample.chars().count() > LONGEST_SAMPLE => {
                Err(format!("`sample`: at most {LONGEST_SAMPLE} characters are allowed"))
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let which = which(parts, cx, &args.team, &args.trigger_name)?;
        let sample = args.sample.as_deref().unwrap_or_default();
        let words = format!("{} {sample}", args.trigger_name);
        let fired = parts.ask(Fire {
            which,
            cause: Cause::Test,
            key: cx.key.clone(),
            max_steps: args.max_steps,
            overlap: args.overlap_policy,
            sample: args.sample,
            principal: cx.caller.cause.clone(),
            source: cx.caller.source.clone(),
            turn: Some(ByTurn {
                label: cx.label,
                lineage: cx.caller.lineage.clone(),
                deadline_at: cx.caller.deadline_at,
                giver: Giver { task: cx.caller.task.clone(), step: cx.step, words },
            }),
        });
        let applied = args.overlap_policy.as_str();
        Ok(answer::ok(match fired.await.map_err(no)? {
            ByHand::NeedsConfirmation(task) => json!({
                "enqueued": false,
                "requires_confirmation": true,
                "overlap_policy_applied": applied,
                "in_flight": [{ "task_id": task }],
            }),
            ByHand::Fired(answer) => {
                let run = answer.run;
                json!({
                    "run_id": answer.first.unwrap_or(run.id),
                    "task_id": run.task_id,
                    "enqueued": run.decision.made_a_task(),
                    "decision": run.decision.as_str(),
                    "reason": run.reason,
                    "overlap_policy_applied": applied,
                })
            }
        }))
    }
}
