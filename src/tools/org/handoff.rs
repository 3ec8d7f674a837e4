//! `enqueue_parent_task`: work goes up.

use std::time::Duration;

use hivewright_actors::{
    channel::Recheck,
    clock::{Timestamp, millis},
    excerpt,
    frame::{Notification, NotificationKind},
    ids::{TaskId, TeamKey, TeamName},
    sliding_window::SlidingWindow,
    store::{reads::get, records::Writes},
    task::{Kind, Priority},
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
    teams::service::TeamService,
    tools::{
        about::About,
        answer,
        compact_schema::unsaid,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
    },
};

/// A team may hand up this much …
const MOST: usize = 5;
/// … in this time.
const PERIOD: Duration = Duration::from_secs(60);
/// A correlation id may not come again within this time.
const REMEMBERED: Duration = Duration::from_secs(5 * 60);

pub(super) struct EnqueueParentTask(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// Complete in itself.
    #[schemars(length(min = 1, max = LONGEST_TEXT))]
    task: String,
    #[serde(default)]
    #[schemars(transform = unsaid)]
    priority: Priority,
    /// What you found, and where things are.
    #[schemars(length(max = LONGEST_TEXT))]
    context: Option<String>,
    /// What the person is told now.
    #[schemars(length(max = LONGEST_TEXT))]
    message_for_user: Option<String>,
    /// Your name for it; refused again for five minutes.
    #[schemars(length(min = 1, max = LONGEST_ID))]
    correlation_id: Option<String>,
}

/// What a team has handed up lately.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lately(Vec<Entry>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    at: Timestamp,
    correlation_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Handed {
    task_id: TaskId,
    correlation_id: String,
}

impl Lately {
    /// With one more, or why not.
    fn with(mut self, correlation_id: &str, now: Timestamp) -> Result<Self, ToolError> {
        self.0.retain(|entry| now.since(entry.at) < REMEMBERED);
        if self.0.iter().any(|entry| entry.correlation_id == correlation_id) {
            return Err(answer::refuse(
                "duplicate_correlation_id",
                format!("`correlation_id`: `{correlation_id}` was used within the last 5 minutes"),
            ));
        }
        let mut recent = SlidingWindow::new(PERIOD);
        self.0.iter().for_each(|entry| recent.push(entry.at));
        if let Some(free) = recent.full_until(MOST, now) {
            return Err(answer::refuse_with(
                "rate_limited",
                format!(
                    "{MOST} tasks were handed up within {} s; that is the most",
                    PERIOD.as_secs()
                ),
                json!({ "retry_after_ms": millis(free.since(now)) }),
            ));
        }
        self.0.push(Entry { at: now, correlation_id: correlation_id.to_owned() });
        Ok(self)
    }
}

hivewright_actors::records! {
    Lately: "edge\0handoffs", TeamKey;
}

/// What the parent reads: who, what, and the rest under names of its own.
fn body(args: &Args, cx: &ToolContext, correlation_id: &str) -> String {
    let mut text = format!(
        "Handed up by team {} ({correlation_id}).\n\nTask: {}",
        cx.caller.team.name, args.task
    );
    if let Some(context) = &args.context {
        text += &format!("\n\nContext: {context}");
    }
    if let Some(message) = &args.message_for_user {
        text += &format!("\n\nThe person was told: {message}");
    }
    text
}

impl Tool for EnqueueParentTask {
    const ABOUT: About =
        About::new("enqueue_parent_task", "@org", "org.enqueue_parent_task", Effect::Idempotent)
            .exclusive()
            .speaks_to_teams()
            .for_teams_below();
    const DESCRIPTION: &'static str = "Hands your parent work that is not yours to do, without \
        waiting; at most five a minute. To get an answer use `escalate`.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("task", &args.task)?;
        args.correlation_id.iter().try_for_each(|id| not_blank("correlation_id", id))
    }

    fn recipient(&self, caller: &Caller) -> Option<TeamName> {
        self.0.parts().parent_of(&caller.team.name)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(handed) = parts.earlier::<Handed>(cx, "").await? {
            return Ok(answer::ok(json!(handed)));
        }
        let caller = &cx.caller.team;
        let tree = parts.tree();
        let Some(parent) = tree.known(&caller.name)?.parent.clone() else {
            let name = &caller.name;
            let message =
                format!("`{name}` has no team above it; use `escalate` to reach the operator");
            return Err(answer::refuse("no_parent", message));
        };
        let team = tree.known(&parent)?;
        let correlation_id = args
            .correlation_id
            .clone()
            .unwrap_or_else(|| format!("hand-{:016x}", parts.ids.bits()));
        let now = parts.clock.now();
        let team_key = caller.clone();
        let lately = parts.store.read(move |storage| get::<Lately>(storage, &team_key)).await?;
        let lately = lately.unwrap_or_default().with(&correlation_id, now)?;
        let note = parts.note(team).await;
        let mut task =
            outgoing_task(parts, cx, team, Kind::Handoff, body(&args, cx, &correlation_id));
        task.priority = args.priority;
        let handed = Handed { task_id: task.id.clone(), correlation_id };
        let mut writes = Writes::new().put_at(&cx.key, &Answer(&handed)).put_at(caller, &lately);
        let told = args.message_for_user.as_ref().zip(cx.caller.source.as_ref());
        if let Some((message, source)) = told {
            let notification = Notification {
                task_id: Some(handed.task_id.clone()),
                status: "accepted".to_owned(),
                ref_id: Some(handed.correlation_id.clone()),
                ..Notification::new(
                    NotificationKind::Task,
                    caller.name.clone(),
                    format!("[{}] {message}", caller.name),
                    &excerpt::of_task(&handed.task_id),
                )
            };
            writes = notify(writes, source, now, notification);
        }
        enqueue(parts, cx, &args.task, task, writes).await?;
        if let Some((_, source)) = told {
            parts.channel.do_send(Recheck { channel: source.channel.clone() });
        }
        Ok(answer::noted(json!(handed), note))
    }
}
