//! What a commit leads to: the events that are true once it is durable.

use serde_json::{Value, json};

use super::event::{Data, DoneMeta, Event, Kind, Moment, Said, Stream, TaskChange};
use crate::{
    approvals::{question::Question, record::Approval},
    budget::{Day, Spent},
    event::{Body, Frame},
    excerpt,
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::{ChannelId, MAIN, TaskId, TeamName},
    notice::Notice,
    org::record::TeamRecord,
    router::topics::Topic,
    scheduler::{run::Run, trigger::Trigger},
    task::{Code, Ending, Lane, Task},
};

/// So much of what was asked is shown with a task, in characters.
const ASKED: usize = 200;
/// So much of what was said in a channel, in characters.
const SAID: usize = 2_000;
/// So much of the arguments and the result of a call, in characters.
const SHOWN: usize = 4_000;

/// A task as it is now.
pub fn task(task: &Task) -> Event {
    let source = task.source.as_ref();
    Event {
        kind: Kind::TaskChanged,
        team: Some(task.lane.team.clone()),
        topic: source.and_then(|source| source.topic.as_ref()).map(|topic| topic.id.clone()),
        task: Some(task.id.clone()),
        data: Data::Task(Box::new(TaskChange {
            id: task.id.clone(),
            kind: task.kind,
            priority: task.priority,
            state: task.state(),
            wait_reason: task.parked.as_ref().map(|parked| parked.reason),
            body: excerpt::line(&task.body, ASKED),
            created_by: task.from.clone(),
            created_at: task.created_at,
            attempts: task.attempts,
            root: task.root().clone(),
            parent: task.lineage.as_ref().and_then(|line| line.parent()).cloned(),
            source_channel_id: source.map(|source| source.channel.clone()),
            code: task.outcome.as_ref().and_then(|outcome| outcome.code),
        })),
    }
}

/// A message of a person, which became this task.
pub fn heard(task: &Task) -> Option<Event> {
    let source = task.source.as_ref()?;
    let said = Said {
        direction: "inbound",
        channel_id: source.channel.clone(),
        message_id: source.message.clone(),
        from: task.from.clone(),
        kind: "message",
        text: excerpt::line(&task.body, SAID),
        length: task.body.len(),
    };
    Some(Event {
        kind: Kind::Message,
        team: Some(task.lane.team.clone()),
        topic: source.topic.as_ref().map(|topic| topic.id.clone()),
        task: Some(task.id.clone()),
        data: Data::Message(Box::new(said)),
    })
}

/// What a frame says to a person, if it is an end of something.
pub fn frame(channel: &ChannelId, frame: &Frame) -> Option<Event> {
    let (kind, text, from, task, message) = match &frame.body {
        Body::Response(body) => {
            ("response", &body.content, None, body.task_id.as_ref(), Some(&body.message_id))
        }
        Body::Notification(body) => {
            ("notification", &body.content, Some(&body.team), body.task_id.as_ref(), None)
        }
        Body::Error(body) => {
            ("error", &body.error, None, Some(body.task_id.as_ref()?), body.message_id.as_ref())
        }
        Body::Ack(_) | Body::Progress(_) | Body::TopicList { .. } => return None,
    };
    // Answers come from the team that people talk to.
    let team = from.cloned().unwrap_or_else(|| MAIN.into());
    let said = Said {
        direction: "outbound",
        channel_id: channel.clone(),
        message_id: message.cloned(),
        from: team.to_string(),
        kind,
        text: excerpt::line(text, SAID),
        length: text.len(),
    };
    Some(Event {
        kind: Kind::Message,
        team: Some(team),
        topic: frame.topic.as_ref().map(|topic| topic.id.clone()),
        task: task.cloned(),
        data: Data::Message(Box::new(said)),
    })
}

/// A topic as it is now.
pub fn topic(channel: &ChannelId, topic: &Topic) -> Event {
    let state = if topic.closed { "done" } else { "active" };
    let data = json!({
        "id": topic.id,
        "channel_id": channel,
        "name": topic.name,
        "state": state,
        "last_activity": topic.last_activity.date(),
    });
    Event::new(Kind::TopicChanged, data).of_topic(Some(&topic.id))
}

/// A team as it is now.
pub fn team(team: &TeamRecord) -> Event {
    let data = json!({
        "name": team.name,
        "generation": team.generation,
        "parent": team.parent,
        "state": team.state,
        "phase": team.phase,
    });
    Event::new(Kind::TeamChanged, data).of_team(&team.name)
}

/// An approval as it is now.
pub fn approval(approval: &Approval) -> Event {
    let data = json!({
        "id": approval.id,
        "short_id": approval.short_id,
        "status": approval.status,
        "kind": approval.kind,
        "tool": approval.tool,
        "summary": excerpt::line(&approval.summary, SAID),
        "expires_at": approval.expires_at.date(),
        "resolved_by": approval.resolved_by,
        "execution": approval.execution,
    });
    let topic = approval.lane.as_ref().and_then(|lane| lane.topic.as_ref());
    Event::new(Kind::ApprovalChanged, data)
        .of_team(&approval.team.name)
        .of_topic(topic)
        .of_task(approval.task.as_ref())
}

/// A question as it is now. The answer is not in it: it may be a secret.
pub fn question(question: &Question) -> Event {
    let data = json!({
        "id": question.id,
        "status": question.status,
        "kind": question.kind,
        "question": excerpt::line(&question.question, SAID),
    });
    Event::new(Kind::QuestionChanged, data)
        .of_team(&question.team.name)
        .of_topic(question.lane.topic.as_ref())
        .of_task(Some(&question.task))
}

/// Something in the operator's inbox.
pub fn notice(notice: &Notice) -> Event {
    let data = json!({
        "id": notice.id,
        "kind": notice.kind,
        "text": excerpt::line(&notice.text, SAID),
        "read": notice.read,
    });
    let event = Event::new(Kind::InboxChanged, data);
    match &notice.team {
        Some(team) => event.of_team(team),
        None => event,
    }
}

/// What a team itself has spent on a day.
pub fn spent(day: Day, team: &TeamName, spent: &Spent) -> Event {
    let data = json!({ "day": day.date(), "usd": spent.usd, "tokens": spent.tokens });
    Event::new(Kind::UsageChanged, data).of_team(team)
}

/// A trigger as it is now; `state` is `removed` if it is no more.
pub fn trigger(trigger: &Trigger, state: Value) -> Event {
    let data = json!({ "id": trigger.id, "name": trigger.definition.name, "state": state });
    Event::new(Kind::TriggerChanged, data).of_team(&trigger.team.name)
}

/// A run of a trigger as it is now.
pub fn run(run: &Run) -> Event {
    let data = json!({
        "id": run.id,
        "trigger_id": run.trigger,
        "decision": run.decision,
        "outcome": run.outcome,
    });
    Event::new(Kind::TriggerRun, data).of_team(&run.team.name).of_task(run.task_id.as_ref())
}

/// What a piece of a session's journal says of its turn.
pub fn journal(
    lane: &Lane,
    generation: u32,
    task: Option<&TaskId>,
    events: &[HistoryEvent],
) -> Vec<Event> {
    let mut told = Vec::new();
    for event in events {
        let mut tell = |moment| {
            let topic = lane.topic.as_ref();
            told.push(Event::turn(&lane.team, topic, task, &event.turn, moment));
        };
        match &event.fact {
            Fact::TurnStart { .. } => tell(start(lane, generation, &event.fact, events)),
            Fact::ToolCall { id, name, args, .. } => tell(stream(Stream::ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: bounded(args),
            })),
            Fact::ToolResult { id, name, content, fault, duration_ms, truncated, .. } => {
                let shown = excerpt::line(content, SHOWN);
                tell(stream(Stream::ToolResult {
                    id: id.clone(),
                    name: name.clone(),
                    truncated: *truncated || shown != *content,
                    content: shown,
                    is_error: fault.is_some(),
                    duration_ms: *duration_ms,
                }));
            }
            Fact::Meta(meta) => {
                if let Some(moment) = remark(meta) {
                    tell(moment);
                }
            }
            Fact::TurnEnd { outcome, code, message, steps, usage, duration_ms, .. } => {
                tell(stream(last(*outcome, *code, message.as_deref(), *duration_ms)));
                tell(Moment::TurnEnd {
                    ok: *outcome == Ending::Done,
                    outcome: *outcome,
                    code: *code,
                    note: message.clone(),
                    usage: *usage,
                    duration_ms: *duration_ms,
                    steps: *steps,
                });
            }
            Fact::TurnSuspended { code, message } => {
                tell(Moment::Note { text: message.clone(), level: "warn" });
                tell(Moment::State {
                    state: "stopped",
                    reason: Some(code.as_str()),
                    step: None,
                    usage: None,
                });
                if *code == Code::Stalled {
                    let data = json!({ "id": task, "text": message });
                    let stalled = Event::new(Kind::TaskStalled, data)
                        .of_team(&lane.team)
                        .of_topic(lane.topic.as_ref())
                        .of_task(task);
                    told.push(stalled);
                }
            }
            Fact::User { .. } | Fact::AssistantText { .. } | Fact::AssistantThinking { .. } => {}
        }
    }
    told
}

fn stream(value: Stream) -> Moment {
    Moment::Stream { value }
}

/// The words that a turn begins with stand behind its start.
fn start(lane: &Lane, generation: u32, start: &Fact, events: &[HistoryEvent]) -> Moment {
    let words = events.iter().find_map(|event| match &event.fact {
        Fact::User { text, from, origin, .. } if *origin != Origin::System => {
            Some((from.clone(), excerpt::line(text, SAID)))
        }
        _ => None,
    });
    let (from, body) = words.unwrap_or_default();
    let session_id = lane.session_id(generation);
    match start {
        Fact::TurnStart { sdk, provider, model, attempt, redelivered, .. } => Moment::TurnStart {
            session_id,
            from,
            body,
            sdk: sdk.clone(),
            provider: provider.clone(),
            model: model.clone(),
            attempt: *attempt,
            redelivered: *redelivered,
        },
        _ => Moment::State { state: "running", reason: None, step: None, usage: None },
    }
}

fn remark(meta: &Meta) -> Option<Moment> {
    let note = |text: &str, level| Moment::Note { text: excerpt::line(text, SAID), level };
    Some(match meta {
        Meta::Usage { step, usage, .. } => {
            Moment::State { state: "running", reason: None, step: Some(*step), usage: Some(*usage) }
        }
        Meta::Retry(text) | Meta::Fallback(text) => note(text, "warn"),
        Meta::Cancel(text) => note(text, "info"),
        Meta::Compaction(compaction) => note(&compaction.words(), "info"),
        Meta::Parked(reason) => Moment::State {
            state: "waiting",
            reason: Some(reason.as_str()),
            step: None,
            usage: None,
        },
        // Told when it happened; told by the approval itself; told with the next call.
        Meta::Reset | Meta::Approval { .. } | Meta::Spent { .. } | Meta::NotBegun(_) => {
            return None;
        }
    })
}

fn last(ending: Ending, code: Option<Code>, message: Option<&str>, duration_ms: u64) -> Stream {
    match ending {
        Ending::Done | Ending::Cancelled => {
            Stream::Done { meta: DoneMeta { duration_ms, aborted: ending == Ending::Cancelled } }
        }
        Ending::Failed | Ending::Expired | Ending::Dead => Stream::Error {
            message: excerpt::line(message.unwrap_or("the turn failed"), SAID),
            code,
        },
    }
}

/// A value, or its beginning as text if it is long.
fn bounded(value: &Value) -> Value {
    if length(value) <= SHOWN {
        return value.clone();
    }
    Value::String(excerpt::line(&value.to_string(), SHOWN))
}

/// Roughly the length of a value as text.
fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => values.iter().map(|value| length(value) + 1).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + length(value) + 4).sum()
        }
    }
}

#[cfg(test)]
mod tests;
