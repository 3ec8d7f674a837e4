//! What is printed of sessions and transcripts.

use hivewright_actors::clock::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::{
    failure::Failure,
    screen::printable,
    table::{moment, table},
};

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::system("the service's answer cannot be read", error)
}

#[derive(Debug, Deserialize)]
struct Session {
    id: String,
    team: String,
    topic_id: Option<String>,
    updated_at: String,
    events: u64,
}

/// Sessions in columns.
pub(super) fn sessions(answer: &Value) -> Result<String, Failure> {
    let rows = Vec::<Session>::deserialize(&answer["data"]).map_err(unreadable)?;
    let rows = rows.into_iter().map(|row| {
        [
            row.id,
            row.team,
            row.topic_id.unwrap_or_else(|| "-".to_owned()),
            row.events.to_string(),
            moment(&row.updated_at),
        ]
    });
    Ok(table(["ID", "TEAM", "TOPIC", "EVENTS", "LAST USED"], rows))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    role: String,
    timestamp: u64,
    content: Vec<Block>,
    from: Option<String>,
    tool_name: Option<String>,
    is_error: Option<bool>,
    duration_ms: Option<u64>,
    truncated: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolCall {
        name: String,
        arguments: Value,
    },
    #[serde(other)]
    Unknown,
}

/// All messages of an answer.
pub(super) fn transcript(answer: &Value) -> Result<String, Failure> {
    let messages = answer["data"].as_array().into_iter().flatten();
    messages.map(message).collect()
}

/// One message: who and when, then what, further in.
pub(super) fn message(row: &Value) -> Result<String, Failure> {
    let said = Said::deserialize(row).map_err(unreadable)?;
    let mut text = format!("{}  {}\n", moment(&Timestamp(said.timestamp).date()), who(&said));
    for block in &said.content {
        let words = match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { thinking } => format!("(thinks) {thinking}"),
            Block::ToolCall { name, arguments } => format!("→ {name} {arguments}"),
            Block::Unknown => continue,
        };
        for line in words.lines() {
            text += format!("  {line}").trim_end();
            text.push('\n');
        }
    }
    if said.truncated == Some(true) {
        text += "  (cut here)\n";
    }
    Ok(printable(&text))
}

fn who(said: &Said) -> String {
    let outcome = match (said.is_error, said.duration_ms) {
        (Some(true), Some(took)) => format!(" (failed, {took} ms)"),
        (_, Some(took)) => format!(" ({took} ms)"),
        (Some(true), None) => " (failed)".to_owned(),
        (_, None) => String::new(),
    };
    match (said.role.as_str(), &said.tool_name, &said.from) {
        (_, Some(tool), _) => format!("{tool}{outcome}"),
        (role, None, Some(from)) => format!("{role} {from}"),
        (role, None, None) => role.to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// OP-79, OP-84
    #[test]
    fn sessions_are_listed_in_columns() {
        let answer = json!({"data": [
            {"id": "main:t-1", "team": "main", "generation": 1, "topic_id": "t-1", "events": 12,
             "created_at": "2026-11-14T23:40:00.000Z", "updated_at": "2026-11-14T23:46:40.000Z"},
            {"id": "ops:main", "team": "ops", "generation": 1, "events": 3,
             "created_at": "2026-11-14T23:40:00.000Z", "updated_at": "2026-11-14T23:41:00.000Z"},
        ]});

        assert_eq!(
            sessions(&answer).unwrap(),
            "ID        TEAM  TOPIC  EVENTS  LAST USED\n\
             main:t-1  main  t-1    12      2026-11-14 23:46 UTC\n\
             ops:main  ops   -      3       2026-11-14 23:41 UTC\n"
        );
    }

    /// OP-40
    #[test]
    fn a_transcript_says_who_said_what_and_when() {
        let at = 1_794_700_000_000_u64;
        let answer = json!({"data": [
            {"seq": 1, "turn": "t", "role": "user", "timestamp": at, "from": "ann",
             "content": [{"type": "text", "text": "Look\nin here."}]},
            {"seq": 3, "turn": "t", "role": "assistant", "timestamp": at, "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}},
            ]},
            {"seq": 4, "turn": "t", "role": "toolResult", "timestamp": at, "toolName": "bash",
             "isError": true, "durationMs": 12, "truncated": true,
             "content": [{"type": "text", "text": "no\u{1b}[2J such file"}]},
        ]});

        let at = moment(&Timestamp(at).date());
        let expected = format!(
            "{at}  user ann\n  Look\n  in here.\n\
             {at}  assistant\n  (thinks) Hm.\n  → bash {{\"command\":\"ls\"}}\n\
             {at}  bash (failed, 12 ms)\n  no[2J such file\n  (cut here)\n"
        );
        assert_eq!(transcript(&answer).unwrap(), expected);
    }
}
