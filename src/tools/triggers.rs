//! The trigger tools: how teams arrange for work that starts without a person typing.

use hivewright_actors::{
    policy::caution::Caution,
    queue::{causes::Giver, submit::Overlap},
    scheduler::{
        firing::{Answer, ByTurn},
        manage::{Change, Manage},
        requests::{ByHand, Fire},
        run::{Cause, Decision},
        trigger::{Trigger, Which},
    },
    tool::{Caller, Effect},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    about::About,
    answer,
    compact_schema::unsaid,
    contract::{Tool, ToolContext},
    error::ToolError,
    made::tools,
};
use crate::{
    api::{trigger_form::Fields, triggers::TriggerRow, when::date},
    settings::team::STEPS,
    triggers::admin::{Author, Parts, TriggerAdmin, TriggerError},
};

mod consent;
pub mod report;

use consent::Deed;

/// So many of the next times are shown to whoever made or changed a trigger.
const NEXT_SHOWN: usize = 3;

tools! {
    /// `report_run` is not among them: turns of triggers have it, whatever their team is allowed, and no others do.
    pub fn made(triggers: &TriggerAdmin) {
        CreateTrigger(triggers.clone()),
        DisableTrigger(triggers.clone()),
        EnableTrigger(triggers.clone()),
        ListTriggers(triggers.clone()),
        TestTrigger(triggers.clone()),
        UpdateTrigger(triggers.clone()),
    }
}

impl From<TriggerError> for ToolError {
    fn from(error: TriggerError) -> Self {
        answer::refuse_with(error.code, error.message, error.details.unwrap_or_default())
    }
}

fn author(cx: &ToolContext) -> Author<'_> {
    Author::Team(&cx.caller)
}

/// A trigger by its team and name.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Named {
    team: String,
    trigger_name: String,
}

impl Named {
    /// The trigger, if the caller may manage it.
    fn which(&self, parts: &Parts, cx: &ToolContext) -> Result<Which, ToolError> {
        let team = parts.team(&author(cx), &self.team)?;
        Ok(Which::Named { team, name: self.trigger_name.clone() })
    }
}

/// What the model reads of a trigger that it made or changed: with its next times, so that a wrong
/// pattern is seen at once.
fn told(parts: &Parts, trigger: &Trigger) -> String {
    let shown = TriggerRow::from(trigger);
    let mut fields = standing(parts, trigger);
    if let Some(path) = &shown.path {
        fields["path"] = json!(path);
    }
    fields["trigger"] = json!(shown);
    answer::ok(fields)
}

/// Whether a trigger fires, and when next.
fn standing(parts: &Parts, trigger: &Trigger) -> Value {
    let next_due_at = trigger.next_due_at.and_then(date);
    let mut fields = json!({ "next_due_at": next_due_at, "state": trigger.state });
    let next = parts.next_times(trigger, NEXT_SHOWN);
    if !next.is_empty() {
        fields["next_due"] = json!(next);
    }
    fields
}

pub(super) struct CreateTrigger(TriggerAdmin);

/// A new trigger. What its form may say is checked by `triggers::admin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct New {
    team: String,
    /// Left out: it waits for `enable_trigger`.
    enable: Option<bool>,
    #[serde(flatten)]
    #[schemars(with = "Fields<true, true>")]
    form: Map<String, Value>,
}

impl Tool for CreateTrigger {
    const ABOUT: About =
        About::new("create_trigger", "@triggers", "trigger.create_trigger", Effect::Idempotent)
            .structural();
    const DESCRIPTION: &'static str = "Makes a trigger: a task that a child team gets by itself at \
        certain times, on a fitting message, or when another program calls. The answer shows its \
        next times: check them.";
    type Args = New;

    fn caution(&self, New { team, form, .. }: &New, caller: &Caller) -> Option<Caution> {
        consent::caution(self.0.parts(), caller, team, &Deed::Make(form))
    }

    async fn call(&self, new: New, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let author = author(cx);
        let team = parts.team(&author, &new.team)?;
        let enable = new.enable.unwrap_or_default();
        let made = parts.create(&author, team, &new.form, enable, cx.rerun).await?;
        Ok(told(parts, &made))
    }
}

pub(super) struct UpdateTrigger(TriggerAdmin);

/// Changes to a trigger. What they may be is checked by `triggers::admin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct Changes {
    team: String,
    trigger_name: String,
    #[serde(flatten)]
    #[schemars(with = "Fields<false, true>")]
    form: Map<String, Value>,
}

impl Tool for UpdateTrigger {
    const ABOUT: About =
        About::new("update_trigger", "@triggers", "trigger.update_trigger", Effect::Idempotent)
            .structural();
    const DESCRIPTION: &'static str = "Changes a trigger, at once. Give any fields of \
        `create_trigger`: those left out stay, `config` is merged, null clears. Its type stays.";
    type Args = Changes;

    fn caution(&self, changes: &Changes, caller: &Caller) -> Option<Caution> {
        let Changes { team, trigger_name, form } = changes;
        consent::caution(self.0.parts(), caller, team, &Deed::Change(trigger_name, form))
    }

    async fn call(&self, changes: Changes, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let Changes { team, trigger_name, form } = changes;
        let which = Named { team, trigger_name }.which(parts, cx)?;
        Ok(told(parts, &parts.update(&author(cx), which, form).await?))
    }
}

pub(super) struct EnableTrigger(TriggerAdmin);

impl Tool for EnableTrigger {
    const ABOUT: About =
        About::new("enable_trigger", "@triggers", "trigger.enable_trigger", Effect::Idempotent)
            .structural();
    const DESCRIPTION: &'static str =
        "Lets a trigger fire from now on; its failures are forgotten.";
    type Args = Named;

    fn caution(&self, args: &Named, caller: &Caller) -> Option<Caution> {
        let deed = Deed::Enable(&args.trigger_name);
        consent::caution(self.0.parts(), caller, &args.team, &deed)
    }

    async fn call(&self, args: Named, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let trigger = parts.enable(args.which(parts, cx)?).await?;
        Ok(answer::ok(standing(parts, &trigger)))
    }
}

pub(super) struct DisableTrigger(TriggerAdmin);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Off {
    #[serde(flatten)]
    trigger: Named,
    #[schemars(length(max = 2_000))]
    reason: Option<String>,
    /// Also stop the task it started last.
    #[serde(default)]
    cancel_running: bool,
}

impl Tool for DisableTrigger {
    const ABOUT: About =
        About::new("disable_trigger", "@triggers", "trigger.disable_trigger", Effect::Idempotent)
            .structural();
    const DESCRIPTION: &'static str = "Stops a trigger from firing.";
    type Args = Off;

    async fn call(&self, args: Off, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let by = || format!("disabled by team {}", cx.caller.team.name);
        let which = args.trigger.which(parts, cx)?;
        let reason = args.reason.unwrap_or_else(by);
        let change = Change::Disable { reason, cancel_running: args.cancel_running };
        let trigger = parts.ask(Manage { which, change }).await?;
        Ok(answer::ok(json!({ "state": trigger.state })))
    }
}

pub(super) struct ListTriggers(TriggerAdmin);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Listing {
    /// Left out: your own.
    team: Option<String>,
}

impl Tool for ListTriggers {
    const ABOUT: About =
        About::new("list_triggers", "@triggers", "trigger.list_triggers", Effect::Pure);
    const DESCRIPTION: &'static str = "Triggers of your team or a child: next time, last run.";
    type Args = Listing;

    async fn call(&self, args: Listing, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let name = args.team.unwrap_or_else(|| cx.caller.team.name.to_string());
        let team = parts.team_to_see(&author(cx), &name)?;
        let listed = parts.list(Some(team)).await?;
        let triggers: Vec<TriggerRow> = listed.iter().map(TriggerRow::from).collect();
        Ok(answer::ok(json!({ "triggers": triggers })))
    }
}

pub(super) struct TestTrigger(TriggerAdmin);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Test {
    #[serde(flatten)]
    trigger: Named,
    // A try takes as many as a firing would.
    #[schemars(range(min = *STEPS.start(), max = *STEPS.end()), extend("x-untold" = true))]
    max_steps: Option<u32>,
    #[serde(default)]
    #[schemars(transform = unsaid)]
    overlap_policy: Overlap,
    /// A message or body, as it would have come.
    #[schemars(length(max = 20_000))]
    sample: Option<String>,
}

impl Tool for TestTrigger {
    const ABOUT: About =
        About::new("test_trigger", "@triggers", "trigger.test_trigger", Effect::Idempotent)
            .speaks_to_teams();
    const DESCRIPTION: &'static str =
        "Starts a run of a trigger now, whatever its state; its schedule stays as it is.";
    type Args = Test;

    async fn call(&self, args: Test, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let sample = args.sample.as_deref().unwrap_or_default();
        let words = format!("{} {sample}", args.trigger.trigger_name);
        let fired = parts.ask(Fire {
            which: args.trigger.which(parts, cx)?,
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
        let applied = args.overlap_policy;
        Ok(answer::ok(match fired.await? {
            ByHand::NeedsConfirmation(task) => json!({
                "enqueued": false,
                "requires_confirmation": true,
                "overlap_policy_applied": applied,
                "in_flight": [{ "task_id": task }],
            }),
            ByHand::Fired(answer) => {
                let Answer { run, first } = *answer;
                // A call that took effect before a crash is answered as it would have been.
                let (run_id, task_id, decision, reason) = match first {
                    Some(first) => (first.run, first.task, Decision::Enqueued, None),
                    None => (run.id, run.task_id, run.decision, run.reason),
                };
                json!({
                    "run_id": run_id,
                    "task_id": task_id,
                    "enqueued": decision.made_a_task(),
                    "decision": decision.as_str(),
                    "reason": reason,
                    "overlap_policy_applied": applied,
                })
            }
        }))
    }
}
