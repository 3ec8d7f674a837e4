//! The request: the conversation in Anthropic's words, with its cache markers.

use std::sync::Arc;

use hivewright_actors::{
    engine::{Block, Message, ToolOutput},
    tool::ToolSpec,
};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::providers::{
    Ask, OptionalField, Outgoing, endpoint, fault::Fault, key, parts, sent_arguments, written,
};

const API: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<Turn>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Turn {
    role: &'static str,
    content: Vec<Value>,
}

pub(in crate::providers) fn build(ask: &Ask<'_>) -> Result<Outgoing, Fault> {
    let base = ask.profile.api_url.as_deref().unwrap_or(API);
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("anthropic-version", VERSION.to_owned()),
        ("x-api-key", key(ask)?.to_owned()),
    ];
    let tools = tools(ask)?;
    Outgoing::new(endpoint(base, "messages"), headers, &body(ask, tools.as_deref()))
}

/// The definitions of the tools, the last with a marker: what stands before it is kept by the server.
fn tools(ask: &Ask<'_>) -> Result<Option<Arc<RawValue>>, Fault> {
    let marked = !ask.without.has(OptionalField::CacheMarkers);
    let format = if marked { "anthropic, marked" } else { "anthropic" };
    written(ask, format, |specs| {
        let mut tools: Vec<Value> = specs.iter().map(tool).collect();
        if marked {
            tools.last_mut().map(mark);
        }
        to_raw_value(&tools)
    })
}

/// The same conversation gives the same bytes.
fn body<'a>(ask: &Ask<'a>, tools: Option<&'a RawValue>) -> Body<'a> {
    let mut system: Vec<Value> = parts(ask.system).map(text).collect();
    let mut messages = conversation(ask.messages);
    if !ask.without.has(OptionalField::CacheMarkers) {
        // The part of the turn is the last, and changes each time.
        let lasting = if ask.system.turn.is_empty() { system.len() } else { system.len() - 1 };
        system[..lasting].iter_mut().for_each(mark);
        messages
            .last_mut()
            .and_then(|turn| turn.content.last_mut())
            .filter(|block| takes_marker(block))
            .map(mark);
    }
    let max_tokens = ask.max_output_tokens;
    Body { model: ask.model, max_tokens, stream: true, tools, system, messages }
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({ "type": "ephemeral" });
}

fn takes_marker(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("text" | "tool_use" | "tool_result"))
}

fn tool(spec: &ToolSpec) -> Value {
    json!({ "name": spec.name, "description": spec.description, "input_schema": spec.schema })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Roles alternate: what follows in the same role joins the message before it.
fn conversation(messages: &[Message]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        let (role, content): (_, Vec<Value>) = match message {
            Message::User(words) => ("user", words_block(words).into_iter().collect()),
            Message::Assistant(blocks) => {
                ("assistant", blocks.iter().filter_map(assistant_block).collect())
            }
            Message::ToolResults(results) => ("user", results.iter().map(result_block).collect()),
        };
        match turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(Turn { role, content }),
        }
    }
    turns
}

fn assistant_block(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text } => words_block(text),
        // A block of another provider means nothing here.
        Block::Thinking { block, .. } => block.clone(),
        Block::Call(call) => Some(json!({
            "type": "tool_use",
            "id": wire_id(call.id.as_str()),
            "name": call.name,
            "input": sent_arguments(&call.args),
        })),
    }
}

fn result_block(result: &ToolOutput) -> Value {
    json!({
        "type": "tool_result",
        "tool_use_id": wire_id(result.id.as_str()),
        "content": result.content,
        "is_error": result.fault.is_some(),
    })
}

/// Text without a visible character is rejected.
fn words_block(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}

/// Another provider may have named a call with characters that are rejected here.
fn wire_id(id: &str) -> String {
    id.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'), "_")
}

#[cfg(test)]
mod tests {

    use hivewright_actors::{
        engine::SystemPrompt,
        tool::{Args, ToolCall, ToolFault},
    };

    use super::*;
    use crate::{
        providers::LeftOut,
        settings::providers::{Profile, Provider},
    };

    fn call(id: &str, args: Args) -> Block {
        Block::Call(ToolCall { id: id.into(), name: "read".into(), args })
    }

    fn messages() -> Vec<Message> {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let output = |id: &str, fault| ToolOutput {
            id: id.into(),
            name: "read".into(),
            content: format!("content of {id}"),
            fault,
        };
        vec![
            Message::User("go".into()),
            Message::Assistant(vec![
                Block::Thinking { text: "hm".into(), block: Some(thinking) },
                Block::Text { text: " ".into() },
                call("a", Args::Json(json!({"path": "x"}))),
                call("b:1", Args::Unreadable { unreadable: "{".into(), reason: "EOF".into() }),
            ]),
            Message::ToolResults(vec![
                output("a", None),
                output("b:1", Some(ToolFault::InvalidArguments)),
            ]),
            Message::User("and be quick".into()),
        ]
    }

    fn sent(messages: &[Message], without: LeftOut) -> Vec<u8> {
        let profile = Profile::new("default", Provider::Anthropic);
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "d".into(),
            schema: json!({"type": "object"}),
        };
        let system =
            SystemPrompt { shared: "shared".into(), team: "team".into(), turn: "turn".into() };
        let specs = [tool("read"), tool("write")].into_iter().collect();
        let ask = Ask {
            profile: &profile,
            model: "m",
            max_output_tokens: 100,
            step: 2,
            system: &system,
            tools: &specs,
            messages,
            without,
        };
        serde_json::to_vec(&body(&ask, tools(&ask).unwrap().as_deref())).unwrap()
    }

    /// SE-44, SE-115: four markers; the results of a step and what was said after them are one
    /// message; thinking goes back as it came.
    #[test]
    fn the_request_has_its_markers_and_one_message_for_the_results() {
        let body: Value = serde_json::from_slice(&sent(&messages(), LeftOut::default())).unwrap();

        let mark = json!({"type": "ephemeral"});
        assert_eq!(
            body,
            json!({
                "model": "m",
                "max_tokens": 100,
                "stream": true,
                "tools": [
                    {"name": "read", "description": "d", "input_schema": {"type": "object"}},
                    {"name": "write", "description": "d", "input_schema": {"type": "object"}, "cache_control": mark},
                ],
                "system": [
                    {"type": "text", "text": "shared", "cache_control": mark},
                    {"type": "text", "text": "team", "cache_control": mark},
                    {"type": "text", "text": "turn"},
                ],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "go"}]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                        {"type": "tool_use", "id": "b_1", "name": "read", "input": {"unreadable": "{"}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "a", "content": "content of a", "is_error": false},
                        {"type": "tool_result", "tool_use_id": "b_1", "content": "content of b:1", "is_error": true},
                        {"type": "text", "text": "and be quick", "cache_control": mark},
                    ]},
                ],
            })
        );
    }

    /// SE-31: and what was sent before is the beginning of what is sent next, up to the marker.
    #[test]
    fn the_same_conversation_gives_the_same_bytes() {
        assert_eq!(sent(&messages(), LeftOut::default()), sent(&messages(), LeftOut::default()));

        let without = LeftOut::default().with(OptionalField::CacheMarkers);
        let (short, long) = (sent(&messages()[..1], without), sent(&messages(), without));
        let shared = short.strip_suffix(b"]}").unwrap();
        assert!(long.starts_with(shared));
    }

    /// SE-117
    #[test]
    fn markers_are_left_out_where_they_are_refused() {
        let without = LeftOut::default().with(OptionalField::CacheMarkers);

        let body = String::from_utf8(sent(&messages(), without)).unwrap();

        assert!(!body.contains("cache_control"));
    }
}
