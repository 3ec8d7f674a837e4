//! What is printed of sessions and transcripts.

use hivewright_actors::clock::Timestamp;

use crate::{
    api::{
        sessions::SessionRow,
        transcript::{Block, Message},
    },
    cli::{
        screen::printable,
        table::{columns, moment},
    },
};

columns!(SessionRow {
    "ID" => |row| row.id.clone(),
    "TEAM" => |row| row.team.to_string(),
    "TOPIC" => |row| row.topic_id.as_ref().map_or("-".to_owned(), ToString::to_string),
    "EVENTS" => |row| row.events.to_string(),
    "LAST USED" => |row| moment(&row.updated_at),
});

/// One message: who and when, then what, further in.
pub(super) fn message(message: &Message) -> String {
    let mut text = format!("{}  {}\n", moment(&Timestamp(message.timestamp).date()), who(message));
    for block in &message.content {
        let words = match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { thinking } => format!("(thinks) {thinking}"),
            Block::ToolCall { name, arguments, .. } => format!("→ {name} {arguments}"),
        };
        for line in words.lines() {
            text += format!("  {line}").trim_end();
            text.push('\n');
        }
    }
    if message.answers.as_ref().is_some_and(|answers| answers.truncated) {
        text += "  (cut here)\n";
    }
    printable(&text)
}

fn who(message: &Message) -> String {
    match (&message.answers, &message.from) {
        (Some(answers), _) => {
            let failed = if answers.is_error { "failed, " } else { "" };
            format!("{} ({failed}{} ms)", answers.tool_name, answers.duration_ms)
        }
        (None, Some(from)) => format!("{} {from}", message.role),
        (None, None) => message.role.to_string(),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-79, OP-84
    #[test]
    fn sessions_are_listed_in_columns() {
        let rows = json!([
            {"id": "main:t-1", "team": "main", "generation": 1, "topic_id": "t-1", "events": 12,
             "created_at": "2026-11-14T23:40:00.000Z", "updated_at": "2026-11-14T23:46:40.000Z"},
            {"id": "ops:main", "team": "ops", "generation": 1, "events": 3,
             "created_at": "2026-11-14T23:40:00.000Z", "updated_at": "2026-11-14T23:41:00.000Z"},
        ]);
        let rows: Vec<SessionRow> = serde_json::from_value(rows).unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID        TEAM  TOPIC  EVENTS  LAST USED\n\
             main:t-1  main  t-1    12      2026-11-14 23:46 UTC\n\
             ops:main  ops   -      3       2026-11-14 23:41 UTC\n"
        );
    }

    /// OP-40
    #[test]
    fn a_transcript_says_who_said_what_and_when() {
        let at = 1_794_700_000_000_u64;
        let messages = json!([
            {"seq": 1, "turn": "t", "role": "user", "timestamp": at, "from": "ann",
             "content": [{"type": "text", "text": "Look\nin here."}]},
            {"seq": 3, "turn": "t", "role": "assistant", "timestamp": at, "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}},
            ]},
            {"seq": 4, "turn": "t", "role": "toolResult", "timestamp": at, "toolName": "bash",
             "toolCallId": "c", "isError": true, "durationMs": 12, "truncated": true,
             "content": [{"type": "text", "text": "no\u{1b}[2J such file"}]},
        ]);
        let messages: Vec<Message> = serde_json::from_value(messages).unwrap();

        let at = moment(&Timestamp(at).date());
        let expected = format!(
            "{at}  user ann\n  Look\n  in here.\n\
             {at}  assistant\n  (thinks) Hm.\n  → bash {{\"command\":\"ls\"}}\n\
             {at}  bash (failed, 12 ms)\n  no[2J such file\n  (cut here)\n"
        );
        assert_eq!(messages.iter().map(message).collect::<String>(), expected);
    }
}
