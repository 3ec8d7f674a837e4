//! Lines: the form in which a transcript leaves, one JSON object each.

use serde_json::json;

use crate::api::transcript::{Message, Role};

/// A message as a line, without its end.
pub fn line(team: &str, session: &str, message: &Message) -> String {
    let mut line = json!({
        "type": "history",
        "agentId": team,
        "sessionId": session,
        "timestamp": message.timestamp,
        "role": message.role,
        "content": message.content,
    });
    if message.role == Role::Assistant {
        line["meta"] = json!(message.meta);
    }
    if let Some(answers) = &message.answers {
        line["toolCallId"] = json!(answers.tool_call_id);
        line["toolName"] = json!(answers.tool_name);
        line["isError"] = json!(answers.is_error);
    }
    line.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::api::transcript::{Answers, Block, Meta};

    fn message(role: Role) -> Message {
        Message {
            first: 1,
            seq: 2,
            turn: "turn-1".into(),
            task_id: None,
            role,
            timestamp: 7,
            content: vec![Block::Text { text: "a\nb".to_owned() }],
            from: None,
            pending: false,
            meta: None,
            answers: None,
        }
    }

    /// EN-48
    #[test]
    fn a_line_has_the_canonical_form() {
        let said = line("main", "main:t-1", &message(Role::User));
        let answered = line(
            "main",
            "main:t-1",
            &Message {
                meta: Some(Meta { model: Some("m".to_owned()), ..Meta::default() }),
                ..message(Role::Assistant)
            },
        );
        let result = line(
            "main",
            "main:t-1",
            &Message {
                answers: Some(Answers {
                    tool_call_id: "c".into(),
                    tool_name: "read".to_owned(),
                    is_error: false,
                    duration_ms: 1,
                    truncated: false,
                }),
                ..message(Role::ToolResult)
            },
        );

        assert!(!said.contains('\n'));
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        assert_eq!(
            parsed(&said),
            json!({"type": "history", "agentId": "main", "sessionId": "main:t-1", "timestamp": 7,
                "role": "user", "content": [{"type": "text", "text": "a\nb"}]})
        );
        assert_eq!(parsed(&answered)["meta"], json!({"model": "m"}));
        let result = parsed(&result);
        assert_eq!(
            (&result["role"], &result["toolCallId"], &result["isError"]),
            (&json!("toolResult"), &json!("c"), &json!(false))
        );
    }
}
