//! `create_trigger`: work that will start by itself.

use hivewright_actors::{
    policy::caution::Caution,
    tool::{Caller, Effect},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Desk, LIMITS, author,
    consent::{self, Deed},
    no, told,
};
use crate::{
    api::trigger_form::Fields,
    tools::{
        answer,
        contract::{Limits, Pool, Tool, ToolContext, ToolError},
    },
};

pub(super) struct CreateTrigger(pub(super) Desk);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct New {
    /// The team that does the work: a child of yours.
    team: String,
    /// It fires from the start. Left out: it waits for `enable_trigger`.
    enable: Option<bool>,
    #[serde(flatten)]
    #[schemars(with = "Fields<true, true>")]
    form: Map<String, Value>,
}

impl Tool for CreateTrigger {
    const NAME: &'static str = "create_trigger";
    const GROUP: &'static str = "@triggers";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Makes a trigger: a task that a team gets by itself, at certain times (`schedule`, \
        `window`), when a message fits (`keyword`, `message`) or when another program calls (`webhook`). It waits for \
        `enable_trigger` unless `enable` is set. The answer shows its next times: check that they are the ones you meant. \
        Only the team's direct parent may do this.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "trigger.create_trigger";
    type Args = New;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn caution(&self, New { team, form, .. }: &New, caller: &Caller) -> Option<Caution> {
        consent::caution(self.0.parts(), caller, team, &Deed::Make(form))
    }

    async fn call(&self, new: New, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let author = author(cx);
        let team = parts.team(&author, &new.team).map_err(no)?;
        let enable = new.enable.unwrap_or_default();
        let made = parts.create(&author, team, &new.form, enable, cx.rerun).await.map_err(no)?;
        Ok(answer::ok(told(parts, &made)))
    }
}
