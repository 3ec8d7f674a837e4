//! `update_trigger`: another time, another task.

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
    no, told, which,
};
use crate::{
    api::trigger_form::Fields,
    tools::{
        answer,
        contract::{Limits, Pool, Tool, ToolContext, ToolError},
    },
};

pub(super) struct UpdateTrigger(pub(super) Desk);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Changes {
    /// The team it belongs to.
    team: String,
    /// Its name. Another one is `name`.
    trigger_name: String,
    #[serde(flatten)]
    #[schemars(with = "Fields<false, true>")]
    form: Map<String, Value>,
}

impl Tool for UpdateTrigger {
    const NAME: &'static str = "update_trigger";
    const GROUP: &'static str = "@triggers";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Changes a trigger. Fields that are left out stay as they are, `config` is merged \
        field by field, and null clears a field. Its type cannot change. Takes effect at once.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "trigger.update_trigger";
    type Args = Changes;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn caution(&self, changes: &Changes, caller: &Caller) -> Option<Caution> {
        let Changes { team, trigger_name, form } = changes;
        consent::caution(self.0.parts(), caller, team, &Deed::Change(trigger_name, form))
    }

    async fn call(&self, changes: Changes, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let which = which(parts, cx, &changes.team, &changes.trigger_name)?;
        let changed = parts.update(&author(cx), which, changes.form).await;
        Ok(answer::ok(told(parts, &changed.map_err(no)?)))
    }
}
