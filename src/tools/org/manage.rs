//! `update_team`, `control_team` and `shutdown_team`: a team below takes on other things, rests, or goes with all it has.

use std::time::Duration;

use hivewright_actors::{
    ids::TeamName,
    org::{
        Pause, Removed, Shutdown, Update,
        record::{TeamRecord, TeamState},
    },
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::outgoing_task::by;
use crate::{
    settings::team::LONGEST_DESCRIPTION,
    teams::service::{Parts, TeamService},
    tools::{
        about::About,
        answer,
        compact_schema::unsaid,
        contract::{LONGEST, Tool, ToolContext},
        error::ToolError,
    },
};

pub(super) struct UpdateTeam(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Changes {
    team: String,
    #[serde(default)]
    scope_add: Vec<String>,
    #[serde(default)]
    scope_remove: Vec<String>,
    #[schemars(length(max = LONGEST_DESCRIPTION))]
    description: Option<String>,
}

async fn updated(parts: &Parts, team: &TeamRecord) -> String {
    let file = parts.live.team(&team.name).await;
    let description = file.map(|file| file.description.clone());
    answer::ok(json!({
        "team": team.name,
        "scope": team.scope,
        "description": description.unwrap_or_default(),
    }))
}

impl Tool for UpdateTeam {
    const ABOUT: About =
        About::new("update_team", "@org", "org.update_team", Effect::Idempotent).structural();
    const DESCRIPTION: &'static str = "Changes a child team's scope words or description.";
    type Args = Changes;

    fn accept(args: &Changes) -> Result<(), String> {
        let Changes { scope_add, scope_remove, description, .. } = args;
        if scope_add.is_empty() && scope_remove.is_empty() && description.is_none() {
            return Err("give `scope_add`, `scope_remove` or `description`".to_owned());
        }
        Ok(())
    }

    async fn call(&self, args: Changes, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(team) = parts.earlier::<TeamRecord>(cx, "").await? {
            return Ok(updated(parts, &team).await);
        }
        let update = Update {
            name: TeamName::from(args.team),
            by: by(cx),
            add: args.scope_add,
            remove: args.scope_remove,
            description: args.description,
            capabilities: None,
            call: Some(cx.key.clone()),
        };
        let team = parts.ask(update).await?;
        Ok(updated(parts, &team).await)
    }
}

pub(super) struct ControlTeam(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Control {
    team: String,
    #[schemars(transform = unsaid)]
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Pause,
    Resume,
    Restart,
}

impl Tool for ControlTeam {
    const ABOUT: About =
        About::new("control_team", "@org", "org.control_team", Effect::Idempotent).structural();
    const DESCRIPTION: &'static str = "Pauses a team below you (what it does stops and waits), \
        resumes it, or lets it begin what it does again. Not what an operator paused.";
    type Args = Control;

    async fn call(
        &self,
        Control { team, action }: Control,
        cx: &ToolContext,
    ) -> Result<String, ToolError> {
        let team = TeamName::from(team);
        let paused = action == Action::Pause;
        let now = action != Action::Resume;
        let pause = Pause { team: Some(team.clone()), paused, now, by: by(cx) };
        self.0.parts().ask(pause).await?;
        let state = if paused { TeamState::Paused } else { TeamState::Active };
        Ok(answer::ok(json!({ "team": team, "state": state })))
    }
}

pub(super) struct ShutdownTeam(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Ending {
    name: String,
    /// Also all below it.
    #[serde(default)]
    cascade: bool,
}

impl Tool for ShutdownTeam {
    const ABOUT: About =
        About::new("shutdown_team", "@org", "org.shutdown_team", Effect::Idempotent)
            .structural()
            .within(Duration::from_secs(300), LONGEST);
    const DESCRIPTION: &'static str =
        "Ends a child team for good: its tasks, memory, triggers and secrets go.";
    type Args = Ending;

    async fn call(&self, args: Ending, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let removed = match parts.earlier::<Removed>(cx, "").await? {
            Some(removed) => removed,
            None => {
                let (name, call) = (TeamName::from(args.name), Some(cx.key.clone()));
                parts.ask(Shutdown { name, cascade: args.cascade, by: by(cx), call }).await?
            }
        };
        Ok(answer::ok(json!(removed)))
    }
}
