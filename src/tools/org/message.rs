//! `send_message`: words for a neighbour in the tree.

use std::time::Duration;

use hivewright_actors::{
    ids::{MessageId, TaskId, TeamName},
    inbox::InboxEvent,
    org::record::TeamState,
    queue::{refusal::Refusal, submit::Submission},
    store::records::Writes,
    task::{Kind, OnResult, records::LaneKey},
    tool::{Effect, records::Answer},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    check_length, check_text,
    errand::{errand, lane_of, submit},
    office::{Office, no, refused},
};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

/// The longest id of another message, in characters.
const LONGEST_ID: usize = 128;

pub(super) struct SendMessage(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Your parent, one of your children or one of your siblings.
    target: String,
    /// What to say, complete in itself. At most 100,000 characters.
    message: String,
    /// Whether it gets a turn of its own at once, or is shown at the team's next turn.
    #[serde(default = "yes")]
    wake: bool,
    /// The id of the message that this answers.
    #[serde(default)]
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
        if let Some(note) = note {
            fields["note"] = note.into();
        }
        answer::ok(fields)
    }
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    const GROUP: &'static str = "@org";
    const DESCRIPTION: &'static str = "Says something to your parent, a child or a sibling without asking for work. Nothing \
        comes back unless that team answers with a message of its own.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.send_message";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        check_text("message", &args.message)?;
        let reply = args.in_reply_to.as_deref().unwrap_or_default();
        check_length("in_reply_to", reply, LONGEST_ID)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(said) = parts.earlier::<Said>(cx, "").await? {
            return Ok(said.answer(None));
        }
        let tree = parts.tree();
        let from = &cx.caller.team.name;
        let target = TeamName::from(args.target);
        let team = tree.as_neighbour(from, &target).map_err(no)?;
        let message_id = parts.ids.message();
        let reply = match &args.in_reply_to {
            Some(id) => format!(", in reply to {id}"),
            None => String::new(),
        };
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
        let mut task = errand(parts, cx, team, Kind::Message, body);
        // Nobody waits for what the team makes of it.
        task.reply_to = None;
        task.on_result = OnResult::Silent;
        let said = Said { message_id, task_id: Some(task.id.clone()) };
        let writes = Writes::new().put_at(&cx.key, &Answer(&said));
        match submit(parts, cx, &args.message, task, writes, None).await {
            Ok(Submission::Enqueued { .. }) => Ok(said.answer(note)),
            Ok(_) => Err(answer::refuse("busy", format!("`{target}` is busy"))),
            Err(refusal) => Err(refused(&target, &refusal)),
        }
    }
}
