//! `create_trigger`: work that will start by itself.

use hivewright_actors::{
    policy::caution::Caution,
    tool::{Caller, Effect},
};

use super::{
    Desk, Form, LIMITS, author,
    consent::{self, Deed},
    no,
    shape::New,
    told,
};
use crate::tools::{
    answer,
    contract::{Limits, Pool, Tool, ToolContext, ToolError},
};

pub(super) struct CreateTrigger(pub(super) Desk);

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
    type Args = Form<New>;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn caution(&self, args: &Form<New>, caller: &Caller) -> Option<Caution> {
        let parts = self.0.parts();
        let mut form = args.fields.clone();
        form.remove("enable");
        let team = form.remove("team")?;
        consent::caution(parts, caller, team.as_str()?, &Deed::Make(&form))
    }

    async fn call(&self, mut args: Form<New>, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let team = args.take("team")?;
        let enable = args.take_flag("enable")?;
        let author = author(cx);
        let team = parts.team(&author, &team).map_err(no)?;
        let made = parts.create(&author, team, &args.fields, enable, cx.rerun).await.map_err(no)?;
        Ok(answer::ok(told(parts, &made)))
    }
}
