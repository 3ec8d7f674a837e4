//! `whoami`: the calling turn, as the service knows it.

use hivewright_actors::{org::record::Capability, task::TaskState, text::Words, tool::Effect};
use serde_json::json;

use crate::{
    teams::service::TeamService,
    tools::{
        about::About,
        answer,
        contract::{NoArgs, Tool, ToolContext},
        error::ToolError,
    },
};

pub(super) struct Whoami(pub(super) TeamService);

impl Tool for Whoami {
    const ABOUT: About = About::new("whoami", "@org", "org.whoami", Effect::Pure);
    const DESCRIPTION: &'static str =
        "Your team, parent, task, deadline, capabilities, budget, and how many tasks wait.";
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let (tree, caller) = (parts.tree(), &cx.caller);
        let name = &caller.team.name;
        let own = tree.known(name)?;
        // The main team need not be given any.
        let capabilities = match own.parent {
            None => Capability::WORDS.to_vec(),
            Some(_) => own.capabilities.iter().map(|one| one.as_str()).collect(),
        };
        let open = parts.work.open(Some(name.clone())).await;
        let waiting = open.iter().filter(|task| task.state == TaskState::Accepted).count();
        let limit = parts.live.team(name).await.map(|file| file.budgets);
        Ok(answer::ok(json!({
            "team": name,
            "parent": own.parent,
            "session_id": caller.lane.session_id(caller.team.generation),
            "topic_id": caller.lane.topic,
            "turn": cx.turn,
            "task_id": caller.task,
            "deadline": caller.deadline_at.date(),
            "capabilities": capabilities,
            "waiting": waiting,
            "budget": { "spent": (parts.spent)(name), "limit": limit.ok() },
        })))
    }
}
