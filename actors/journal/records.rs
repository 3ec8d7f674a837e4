//! Records of journals: the events of sessions in pieces, and where a conversation begins.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::told::told;
use crate::{
    clock::Timestamp,
    history::HistoryEvent,
    ids::TaskId,
    search::{Entry, Part, Passage},
    storage::{Storage, StorageError},
    store::{
        reads::{get, parse},
        records::{Record, Writes},
        redact::{Owner, Texts},
    },
    task::{Lane, records::LaneKey},
};

pub const TEXTS: &[Texts] = &[Texts::of(
    Piece::KIND,
    Owner::Key,
    &[
        "*/text",
        "*/content",
        "*/args",
        "*/message",
        "*/block",
        "*/data/summary",
        "*/files/*/name",
        "*/files/*/path",
    ],
)];

crate::records! {
    Piece<'_>: "hist", (LaneKey, u64);
    Began: "began", String;
    Branch: "branch", String;
}

/// Events of a session, whose numbers go on from one another. Its key has the number of the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Piece<'a>(pub Cow<'a, [HistoryEvent]>);

/// When the conversation of a lane was begun anew, by the name of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Began(pub Timestamp);

/// Where the journal of a lane left another one, whose beginning it shares, by the name of its session. Its numbers go
/// on from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The other session.
    pub of: String,
    /// What came before this event of it is shared.
    pub before: u64,
    /// When it left.
    pub at: Timestamp,
}

impl Branch {
    /// The lane that it left.
    pub fn lane(&self) -> Option<LaneKey> {
        Lane::of_session(&self.of).map(|(lane, generation)| LaneKey { lane, generation })
    }

    /// The number of the last event that a lane shares with another; 0 if it is no branch.
    pub(super) fn last_shared(storage: &dyn Storage, lane: &LaneKey) -> Result<u64, StorageError> {
        let branch = get::<Self>(storage, &lane.session_id())?;
        Ok(branch.map_or(0, |branch| branch.before.saturating_sub(1)))
    }
}

impl Writes {
    /// Adds events of a session, whose numbers go on from one another.
    pub fn events(self, lane: &Lane, generation: u32, events: &[HistoryEvent]) -> Self {
        self.events_behind(0, lane, generation, events)
    }

    /// The same; of the first so many whoever watches was told when they happened.
    pub(crate) fn events_behind(
        self,
        told_before: usize,
        lane: &Lane,
        generation: u32,
        events: &[HistoryEvent],
    ) -> Self {
        let Some(first) = events.first() else { return self };
        let news = events.get(told_before..).unwrap_or_default();
        let told = told(lane, generation, self.task(), news);
        let key = (LaneKey::new(lane, generation), first.seq);
        self.put_at(&key, &Piece(events.into())).tell_all(told)
    }
}

/// What a search reads of an event: most of a piece is of no interest to it, and it reads each one.
#[derive(Deserialize)]
struct Searched<'a> {
    seq: u64,
    timestamp: Timestamp,
    #[serde(rename = "type")]
    kind: SearchedKind,
    #[serde(default)]
    task_ids: Vec<TaskId>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    args: Value,
    #[serde(borrow, default)]
    content: Cow<'a, str>,
}

/// The facts among the events that a search reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchedKind {
    TurnStart,
    AssistantText,
    ToolCall,
    ToolResult,
    TurnEnd,
    #[serde(other)]
    Other,
}

/// What a search finds a piece by: what was done, and what the model said on the way. What was asked and answered is
/// with the task; reasoning is not searched.
pub fn index(key: &[u8], value: &[u8]) -> Option<Entry> {
    let (lane, _) = parse::<Piece<'_>>(key)?;
    let events: Vec<Searched<'_>> = serde_json::from_slice(value).ok()?;
    let is_end = |event: &&Searched<'_>| event.kind == SearchedKind::TurnEnd;
    let answer = events.iter().find(is_end).map(|event| event.text.clone());
    let is_answer = |text: &str| answer.as_ref().is_some_and(|answer| answer.contains(text));
    let (mut at, mut task, mut passages) = (None, None, Vec::new());
    for event in events {
        let (part, text) = match event.kind {
            SearchedKind::TurnStart => {
                task = event.task_ids.into_iter().next();
                continue;
            }
            SearchedKind::AssistantText if !is_answer(&event.text) => (Part::Said, event.text),
            SearchedKind::ToolCall => {
                let mut text = event.name.into_owned();
                write_words(&event.args, &mut text);
                (Part::Call, text.into())
            }
            SearchedKind::ToolResult => (Part::Result, event.content),
            _ => continue,
        };
        at.get_or_insert(event.timestamp);
        passages.push(Passage { part, seq: Some(event.seq), text: text.into_owned() });
    }
    let (team, session) = (lane.lane.team.clone(), Some(lane.session_id()));
    Entry { team, at: at?, task, session, passages }.bounded()
}

/// Adds names and values of arguments to a text, without what JSON puts around and into words.
fn write_words(value: &Value, text: &mut String) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => {
            text.push(' ');
            text.push_str(&value.to_string());
        }
        Value::String(words) => {
            text.push(' ');
            text.push_str(words);
        }
        Value::Array(items) => items.iter().for_each(|item| write_words(item, text)),
        Value::Object(fields) => {
            for (name, value) in fields {
                text.push(' ');
                text.push_str(name);
                text.push(':');
                write_words(value, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::keys::key_of;

    fn indexed(events: &Value) -> Option<Entry> {
        let lane = Lane { team: "ops".into(), topic: None };
        let key = key_of(Piece::KIND, &(LaneKey::new(&lane, 1), 7_u64));
        index(&key, events.to_string().as_bytes())
    }

    fn event(seq: u64, mut fact: Value) -> Value {
        fact["seq"] = json!(seq);
        fact["turn"] = json!("turn-1");
        fact["timestamp"] = json!(1_000 + seq);
        fact
    }

    fn end(text: &str) -> Value {
        json!({
            "type": "turn_end", "outcome": "done", "code": null, "message": null, "text": text,
            "steps": 1, "usage": crate::usage::Usage::default(), "duration_ms": 5,
        })
    }

    fn said(text: &str) -> Value {
        json!({"type": "assistant_text", "text": text, "step": 1})
    }

    #[test]
    fn a_plain_answer_is_found_by_its_task_alone() {
        let thought = json!({"type": "assistant_thinking", "text": "hm", "step": 1});
        let events = json!([event(7, thought), event(8, said("Hello.")), event(9, end("Hello."))]);

        assert_eq!(indexed(&events), None);
    }

    #[test]
    fn steps_are_found_by_what_was_called_returned_and_said_on_the_way() {
        let call = json!({
            "type": "tool_call", "id": "c-1", "name": "write_file", "step": 1, "effect": "pure",
            "idempotency_key": "k", "args": {"path": "a.txt", "lines": ["one\ntwo", 3]},
        });
        let result = json!({
            "type": "tool_result", "id": "c-1", "name": "write_file", "content": "5 bytes",
            "duration_ms": 1,
        });
        let events = json!([
            event(7, said("First I look.")),
            event(8, call),
            event(9, result),
            event(10, said("Done.")),
            event(11, end("Done.")),
        ]);

        let entry = indexed(&events).unwrap();

        let passage =
            |part, seq, text: &str| Passage { part, seq: Some(seq), text: text.to_owned() };
        assert_eq!(
            entry,
            Entry {
                team: "ops".into(),
                at: Timestamp(1_007),
                task: None,
                session: Some("ops:main".to_owned()),
                passages: vec![
                    passage(Part::Said, 7, "First I look."),
                    passage(Part::Call, 8, "write_file lines: one\ntwo 3 path: a.txt"),
                    passage(Part::Result, 9, "5 bytes"),
                ],
            }
        );
    }
}
