//! `escalate`: a problem goes up, and an answer comes back.

use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    frame::{Notification, NotificationKind},
    ids::{TaskId, TeamKey, TeamName},
    notice::{Notice, NoticeKind},
    retention::terms::Lot,
    store::{reads::get, records::Writes},
    task::{Kind, OnResult, Priority, Task, outcome::Ending, records as tasks},
    tool::{Caller, Effect, records::Answer},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    LONGEST_ID, LONGEST_TEXT,
    outgoing_task::{enqueue, notify, outgoing_task},
};
use crate::{
    teams::service::{Parts, TeamService},
    tools::{
        about::About,
        answer,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
    },
};

/// Where an escalation of the main team goes.
const OPERATOR: &str = "operator";

pub(super) struct Escalate(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// What is needed, complete in itself.
    #[schemars(length(min = 1, max = LONGEST_TEXT))]
    message: String,
    /// Why you cannot go on.
    #[schemars(length(max = 2_000))]
    reason: Option<String>,
    /// Links it to an earlier one of yours.
    #[schemars(length(min = 1, max = LONGEST_ID))]
    correlation_id: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Escalated {
    correlation_id: String,
    delivered_to: String,
    /// What became of the one before it under the same id.
    earlier: Option<State>,
}

/// An escalation that was made, by its correlation id.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Escalation {
    /// The task of the team above; none went to the operator.
    task: Option<TaskId>,
    /// When. Unknown in rows of old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
}

/// Escalations from before a moment: nobody links to one whose task is gone.
pub(crate) fn before(cut: Timestamp) -> Lot {
    Lot::old(move |_, row: &Escalation| row.at.is_some_and(|at| at < cut))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Open,
    Answered,
    /// It ended without an answer.
    Closed,
    Expired,
}

/// What the task of an escalation says about it. One that went to the operator, or whose task is
/// gone, is with people.
fn state_of(row: &Escalation, task: Option<&Task>) -> State {
    match task.map(|task| &task.outcome) {
        None if row.task.is_some() => State::Closed,
        None | Some(None) => State::Open,
        Some(Some(outcome)) => match outcome.ending {
            Ending::Done => State::Answered,
            Ending::Expired => State::Expired,
            Ending::Failed | Ending::Cancelled | Ending::Dead => State::Closed,
        },
    }
}

hivewright_actors::records! {
    Escalation: "edge\0escalation", String;
}

fn key_of(team: &TeamKey, correlation: &str) -> String {
    format!("{team}/{correlation}")
}

async fn earlier(
    parts: &Parts,
    team: &TeamKey,
    correlation: &str,
) -> Result<Option<State>, ToolError> {
    let key = key_of(team, correlation);
    let read = parts.store.read(move |storage| {
        let Some(row) = get::<Escalation>(storage, &key)? else {
            return Ok(None);
        };
        let task = match &row.task {
            Some(task) => tasks::find(storage, task)?,
            None => None,
        };
        Ok(Some(state_of(&row, task.as_ref())))
    });
    Ok(read.await?)
}

impl Escalate {
    /// To the team above, whose answer comes back as a turn.
    async fn to_parent(
        &self,
        parent: TeamName,
        args: &Args,
        escalated: &Escalated,
        cx: &ToolContext,
    ) -> Result<Option<String>, ToolError> {
        let parts = self.0.parts();
        let tree = parts.tree();
        let team = tree.known(&parent)?;
        let note = parts.note(team).await;
        let reason = args.reason.as_ref().map(|reason| format!("\n\nReason: {reason}"));
        let body = format!(
            "Escalation {} from team {}. Your answer goes back to it.{}\n\n{}",
            escalated.correlation_id,
            cx.caller.team.name,
            reason.unwrap_or_default(),
            args.message
        );
        let mut task = outgoing_task(parts, cx, team, Kind::Escalation, body);
        task.priority = Priority::High;
        task.on_result = OnResult::Wake;
        let row = Escalation { task: Some(task.id.clone()), at: Some(task.created_at) };
        let writes = Writes::new()
            .put_at(&cx.key, &Answer(escalated))
            .put_at(&key_of(&cx.caller.team, &escalated.correlation_id), &row);
        enqueue(parts, cx, &args.message, task, writes).await?;
        Ok(note)
    }

    /// From the main team: a notice for the operator, and a word to the person.
    async fn to_operator(
        &self,
        args: &Args,
        escalated: &Escalated,
        cx: &ToolContext,
    ) -> Result<Option<String>, ToolError> {
        let parts = self.0.parts();
        let now = parts.clock.now();
        let team = &cx.caller.team;
        let reason = args.reason.as_ref().map(|reason| format!(" ({reason})"));
        let text = format!("{}{}", args.message, reason.unwrap_or_default());
        let row = Escalation { task: None, at: Some(now) };
        let refs = vec![cx.caller.task.to_string(), escalated.correlation_id.clone()];
        let kind = NoticeKind::Escalation;
        let notice = Notice::of_team(&parts.ids, kind, &team.name, text.clone(), refs, now);
        let mut writes = Writes::new()
            .put_at(&cx.key, &Answer(escalated))
            .put_at(&key_of(team, &escalated.correlation_id), &row)
            .put(&notice);
        if let Some(source) = &cx.caller.source {
            let notification = Notification {
                task_id: Some(cx.caller.task.clone()),
                status: "open".to_owned(),
                ref_id: Some(escalated.correlation_id.clone()),
                ..Notification::new(
                    NotificationKind::Escalation,
                    team.name.clone(),
                    format!("[{}] {text}", team.name),
                    &excerpt::of_task(&cx.caller.task),
                )
            };
            writes = notify(writes, source, now, notification);
        }
        parts.commit(writes).await?;
        Ok(None)
    }
}

impl Tool for Escalate {
    const ABOUT: About =
        About::new("escalate", "@org", "org.escalate", Effect::Idempotent).speaks_to_teams();
    const DESCRIPTION: &'static str = "Hands a problem you cannot solve to the team above, from \
        the main team to the operator; the answer comes back as a turn.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("message", &args.message)?;
        args.correlation_id.iter().try_for_each(|id| not_blank("correlation_id", id))
    }

    fn recipient(&self, caller: &Caller) -> Option<TeamName> {
        self.0.parts().parent_of(&caller.team.name)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        let answered = |escalated: &Escalated, note: Option<String>| {
            let mut fields = json!({
                "correlation_id": escalated.correlation_id,
                "delivered_to": escalated.delivered_to,
                "state": State::Open,
            });
            if let Some(earlier) = escalated.earlier {
                fields["earlier"] = json!({ "state": earlier });
            }
            answer::noted(fields, note)
        };
        if let Some(escalated) = parts.earlier::<Escalated>(cx, "").await? {
            return Ok(answered(&escalated, None));
        }
        let team = &cx.caller.team;
        let before = match &args.correlation_id {
            Some(id) => earlier(parts, team, id).await?,
            None => None,
        };
        let tree = parts.tree();
        let parent = tree.known(&team.name)?.parent.clone();
        let escalated = Escalated {
            correlation_id: args
                .correlation_id
                .clone()
                .unwrap_or_else(|| format!("esc-{:016x}", parts.ids.bits())),
            delivered_to: parent.as_ref().map_or(OPERATOR.to_owned(), TeamName::to_string),
            earlier: before,
        };
        let note = match parent {
            Some(parent) => self.to_parent(parent, &args, &escalated, cx).await?,
            None => self.to_operator(&args, &escalated, cx).await?,
        };
        Ok(answered(&escalated, note))
    }
}
