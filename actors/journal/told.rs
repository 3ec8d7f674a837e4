//! Live events of a journal: what watchers are told of a piece of it.

use std::iter;

use serde_json::{Value, json};

use crate::{
    excerpt,
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::TaskId,
    live::event::{DoneMeta, Event, Kind, Moment, SAID, Stream},
    task::{
        Lane,
        outcome::{Code, Ending},
    },
};

/// So much of the arguments and the result of a call, in characters.
const MAX_CHARACTERS: usize = 4_000;

/// What a piece of a session's journal says of its turn.
pub(crate) fn told(
    lane: &Lane,
    generation: u32,
    task: Option<&TaskId>,
    events: &[HistoryEvent],
) -> Vec<Event> {
    let mut told = Vec::new();
    for event in events {
        let topic = lane.topic.as_ref();
        if let Fact::TurnStart { sdk, provider, model, attempt, redelivered, .. } = &event.fact {
            let (from, body) = first_words(events);
            let start = Moment::TurnStart {
                session_id: lane.session_id(generation),
                from,
                body,
                sdk: sdk.clone(),
                provider: provider.clone(),
                model: model.clone(),
                attempt: *attempt,
                redelivered: *redelivered,
            };
            told.push(Event::turn(&lane.team, topic, task, &event.turn, start));
        }
        let moments = moments(&event.fact).into_iter();
        told.extend(moments.map(|it| Event::turn(&lane.team, topic, task, &event.turn, it)));
        if let Fact::TurnSuspended { code: Code::Stalled, message } = &event.fact {
            let stalled = Event::new(Kind::TaskStalled, json!({ "id": task, "text": message }));
            told.push(stalled.of_team(&lane.team).of_topic(topic).of_task(task));
        }
    }
    told
}

/// What a fact says by itself.
fn moments(fact: &Fact) -> Vec<Moment> {
    match fact {
        Fact::ToolCall { id, name, args, .. } => vec![stream(Stream::ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: bounded(args),
        })],
        Fact::ToolResult { id, name, content, fault, duration_ms, truncated, files, .. } => {
            let shown = excerpt::line(content, MAX_CHARACTERS);
            let result = Stream::ToolResult {
                id: id.clone(),
                name: name.clone(),
                truncated: *truncated || shown != *content,
                content: shown,
                is_error: fault.is_some(),
                duration_ms: *duration_ms,
            };
            let files = files.iter().map(|file| Stream::FileOutput {
                file_id: file.id.clone(),
                filename: file.name.clone(),
                mime_type: file.mime.clone(),
                size: file.size,
            });
            iter::once(result).chain(files).map(stream).collect()
        }
        Fact::Meta(meta) => remark(meta).into_iter().collect(),
        Fact::TurnEnd { outcome, code, message, steps, usage, duration_ms, .. } => vec![
            stream(last(*outcome, *code, message.as_deref(), *duration_ms)),
            Moment::TurnEnd {
                ok: *outcome == Ending::Done,
                outcome: *outcome,
                code: *code,
                note: message.clone(),
                usage: *usage,
                duration_ms: *duration_ms,
                steps: *steps,
            },
        ],
        Fact::TurnSuspended { code, message } => vec![
            Moment::Note { text: message.clone(), level: "warn" },
            state("stopped", code.as_str()),
        ],
        Fact::TurnStart { .. }
        | Fact::User { .. }
        | Fact::AssistantText { .. }
        | Fact::AssistantThinking { .. } => Vec::new(),
    }
}

fn stream(value: Stream) -> Moment {
    Moment::Stream { value }
}

fn state(state: &'static str, reason: &'static str) -> Moment {
    Moment::State { state, reason: Some(reason), step: None, usage: None }
}

/// Whose words a turn begins with, and what they are. They stand behind its start.
fn first_words(events: &[HistoryEvent]) -> (String, String) {
    let words = events.iter().find_map(|event| match &event.fact {
        Fact::User { text, from, origin, .. } if *origin != Origin::System => {
            Some((from.clone(), excerpt::line(text, SAID)))
        }
        _ => None,
    });
    words.unwrap_or_default()
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
        Meta::Parked(reason) => state("waiting", reason.as_str()),
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
    if length(value) <= MAX_CHARACTERS {
        return value.clone();
    }
    Value::String(excerpt::line(&value.to_string(), MAX_CHARACTERS))
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
mod tests {
    use super::*;

    /// EN-119
    #[test]
    fn a_file_that_a_tool_gives_is_told_behind_its_result() {
        let event = json!({
            "seq": 1, "turn": "turn-1", "timestamp": 0, "type": "tool_result", "id": "c-1",
            "name": "send_file", "content": "Sent.", "duration_ms": 1, "files": [{
                "id": "file-1", "name": "a.png", "mime": "image/png", "size": 7, "digest": "00",
            }],
        });
        let event: HistoryEvent = serde_json::from_value(event).expect("an event");
        let lane = Lane { team: "main".into(), topic: None };

        let told = told(&lane, 1, None, &[event]);

        let values: Vec<_> = told.iter().map(|event| json!(event.data)["value"].clone()).collect();
        let file = json!({
            "type": "file_output", "fileId": "file-1", "filename": "a.png",
            "mimeType": "image/png", "size": 7,
        });
        assert_eq!((values.len(), &values[0]["type"]), (2, &json!("tool_result")));
        assert_eq!(values[1], file);
    }
}
