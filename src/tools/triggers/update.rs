//! `update_trigger`: another time, another task.

use hivewright_actors::{
    policy::caution::Caution,
    tool::{Caller, Effect},
};

use super::{
    Desk, Form, LIMITS, author,
    consent::{self, Deed},
    no,
    shape::Changes,
    told, which,
};
use crate::tools::{
    answer,
    contract::{Limits, Pool, Tool, ToolContext, ToolError},
};

pub(super) struct UpdateTrigger(pub(super) Desk);

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
    type Args = Form<Changes>;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn caution(&self, args: &Form<Changes>, caller: &Caller) -> Option<Caution> {
        let parts = self.0.parts();
        let mut form = args.fields.clone();
        let (team, name) = (form.remove("team")?, form.remove("trigger_name")?);
        consent::caution(parts, caller, team.as_str()?, &Deed::Change(name.as_str()?, &form))
    }

    async fn call(&self, mut args: Form<Changes>, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let (team, name) = (args.take("team")?, args.take("trigger_name")?);
        let which = which(parts, cx, &team, &name)?;
        let changed = parts.update(&author(cx), which, args.fields).await;
        Ok(answer::ok(told(parts, &changed.map_err(no)?)))
    }
}
