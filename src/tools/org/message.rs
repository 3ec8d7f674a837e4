//! `send_message`: words for a neighbour in the tree.

use hivewright_actors::{
    ids::{MessageId, TaskId, TeamName},
    inbox::InboxEvent,
    org::record::TeamState,
    queue::refusal::Refusal,
    store::records::Writes,
    task::{Kind, OnResult, records::LaneKey},
    tool::{Effect, records::Answer},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    LONGEST_ID, LONGEST_TEXT,
    outgoing_task::{enqueue, lane_of, outgoing_task},
    team_service::refused,
};
use crate::{
    teams::service::TeamService,
    tools::{
        about::About,
        answer,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
    },
};

pub(super) struct SendMessage(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    target: String,
    /// Complete in itself.
    #[schemars(length(min = 1, max = LONGEST_TEXT))]
    message: String,
    /// false: shown at its next turn. Left out: it gets a turn.
    #[serde(default = "yes")]
    wake: bool,
    /// Id of the message this answers.
    #[schemars(length(max = LONGEST_ID))]
    in_reply_to: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, Deserialize)]
struct Said {
    message_id: MessageId,
    task_id: Option<TaskId>,
}

impl Said {
    fn answer(&self, note: Option<String>) -> String {
        let mut fields = json!({ "message_id": self.message_id });
        if let Some(task) = &self.task_id {
            fields["task_id"] = json!(task);
        }
        answer::noted(fields, note)
    }
}

impl Tool for SendMessage {
    const ABOUT: About = About::new("send_message", "@org", "org.send_message", Effect::Idempotent)
        .speaks_to_teams();
    const DESCRIPTION: &'static str =
        "Tells your parent, a child or a sibling something, without giving it work.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("message", &args.message)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(said) = parts.earlier::<Said>(cx, "").await? {
            return Ok(said.answer(None));
        }
        let tree = parts.tree();
        let from = &cx.caller.team.name;
        let target = TeamName::from(args.target);
        let team = tree.as_neighbour(from, &target)?;
        let message_id = parts.ids.message();
        let reply = args.in_reply_to.as_ref().map(|id| format!(", in reply to {id}"));
        let reply = reply.unwrap_or_default();
        let body = format!("Message {message_id} from team {from}{reply}:\n\n{}", args.message);
        let note = parts.note(team).await;
        if !args.wake {
            if team.state == TeamState::Draining {
                return Err(refused(&target, &Refusal::TeamDraining));
            }
            let event = InboxEvent {
                id: message_id.to_string(),
                text: body,
                label: cx.label,
                at: parts.clock.now(),
                audience: Some(cx.caller.audience()),
            };
            let said = Said { message_id, task_id: None };
            let lane = lane_of(team, cx);
            let writes = Writes::new()
                .put_at(&(LaneKey::new(&lane, team.generation), parts.ids.arrival()), &event)
                .put_at(&cx.key, &Answer(&said));
            parts.commit(writes).await?;
            parts.work.told(lane, team.generation);
            return Ok(said.answer(note));
        }
        let mut task = outgoing_task(parts, cx, team, Kind::Message, body);
        // Nobody waits for what the team makes of it.
        task.reply_to = None;
        task.on_result = OnResult::Silent;
        let said = Said { message_id, task_id: Some(task.id.clone()) };
        let writes = Writes::new().put_at(&cx.key, &Answer(&said));
        enqueue(parts, cx, &args.message, task, writes).await?;
        Ok(said.answer(note))
    }
}
