//! Session files of Pi, versions 1 to 3: a tree of entries, of which the branch with the newest one is read.

use std::collections::HashMap;

use hivewright_actors::{history::SUMMARY, usage::Usage};
use serde_json::{Value, json};

use super::lines::{Item, MessageLine};
use crate::{
    api::transcript::{Block, Meta, Role},
    time,
};

/// Newer versions may mean something else by the same words.
const NEWEST: u64 = 3;

/// Whether a file begins like one of Pi.
pub(super) fn is_header(first: &Value) -> bool {
    first["type"] == "session"
}

/// What a file says, from its root to its newest entry; none if it is of a version that is not known.
pub(super) fn items(values: Vec<Option<Value>>, skipped: &mut usize) -> Option<Vec<Item>> {
    let mut entries: Vec<Value> = Vec::new();
    let mut version = 1;
    for (place, value) in values.into_iter().enumerate() {
        match value {
            Some(header) if place == 0 => version = header["version"].as_u64().unwrap_or(1),
            Some(entry) => entries.push(entry),
            None => *skipped += 1,
        }
    }
    if version > NEWEST {
        return None;
    }
    let branch = if version == 1 { (0..entries.len()).collect() } else { branch(&entries) };
    *skipped += entries.len() - branch.len();
    let mut items = Vec::new();
    for place in branch {
        let lines = entries.get(place).map(lines).unwrap_or_default();
        *skipped += usize::from(lines.is_empty());
        items.extend(lines.into_iter().map(Item::Message));
    }
    Some(items)
}

/// The entries from the root to the newest, by their places.
fn branch(entries: &[Value]) -> Vec<usize> {
    let id = |entry: &Value| entry["id"].as_str().map(str::to_owned);
    let places: HashMap<String, usize> =
        entries.iter().enumerate().filter_map(|(place, entry)| Some((id(entry)?, place))).collect();
    let mut branch = Vec::new();
    let mut next = entries.iter().rposition(|entry| entry["id"].is_string());
    while let Some(place) = next {
        branch.push(place);
        let parent = entries.get(place).and_then(|entry| entry["parentId"].as_str());
        // A parent stands before its child: so a file that is wrong has no circle either.
        next = parent.and_then(|id| places.get(id).copied()).filter(|parent| *parent < place);
    }
    branch.reverse();
    branch
}

/// What an entry says: a message, or a call with its result; nothing if it is of another kind.
fn lines(entry: &Value) -> Vec<MessageLine> {
    let said_at = |message: &Value| {
        let inner = message["timestamp"].as_u64();
        inner.or_else(|| time::parse(entry["timestamp"].as_str()?).map(|at| at.0))
    };
    match entry["type"].as_str() {
        Some("message") => {
            let message = &entry["message"];
            let Some(at) = said_at(message) else { return Vec::new() };
            of_message(message, at)
        }
        Some("compaction" | "branch_summary") => {
            let summary = entry["summary"].as_str().zip(said_at(entry));
            let line = |(summary, at)| {
                let text = format!("{SUMMARY}\n{summary}");
                MessageLine { content: vec![Block::Text { text }], ..blank(Role::System, at) }
            };
            summary.map(line).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn of_message(message: &Value, at: u64) -> Vec<MessageLine> {
    let line = |role| MessageLine { content: blocks(&message["content"]), ..blank(role, at) };
    let text = |name: &str| message[name].as_str().map(str::to_owned);
    match message["role"].as_str() {
        Some("user") => vec![line(Role::User)],
        Some("assistant") => {
            let said = MessageLine { meta: Some(meta(message)), ..line(Role::Assistant) };
            if said.content.is_empty() { Vec::new() } else { vec![said] }
        }
        Some("toolResult") => vec![MessageLine {
            tool_call_id: Some(text("toolCallId").unwrap_or_default().into()),
            tool_name: text("toolName"),
            is_error: Some(message["isError"] == true),
            ..line(Role::ToolResult)
        }],
        Some("bashExecution") => bash(message, at),
        _ => Vec::new(),
    }
}

/// A command of the person: a call and its result.
fn bash(message: &Value, at: u64) -> Vec<MessageLine> {
    let id = format!("bash-{at}");
    let arguments = json!({ "command": message["command"] });
    let call = Block::ToolCall { id: id.clone().into(), name: "bash".to_owned(), arguments };
    let output = message["output"].as_str().unwrap_or_default().to_owned();
    let failed = message["cancelled"] == true || message["exitCode"].as_i64() != Some(0);
    vec![
        MessageLine { content: vec![call], ..blank(Role::Assistant, at) },
        MessageLine {
            tool_call_id: Some(id.into()),
            tool_name: Some("bash".to_owned()),
            is_error: Some(failed),
            content: vec![Block::Text { text: output }],
            ..blank(Role::ToolResult, at)
        },
    ]
}

fn blank(role: Role, timestamp: u64) -> MessageLine {
    MessageLine {
        agent_id: String::new(),
        session_id: String::new(),
        timestamp,
        role,
        tool_call_id: None,
        tool_name: None,
        content: Vec::new(),
        is_error: None,
        meta: None,
    }
}

fn blocks(content: &Value) -> Vec<Block> {
    let block = |block: &Value| {
        let text = |name: &str| block[name].as_str().map(str::to_owned);
        match block["type"].as_str()? {
            "text" => Some(Block::Text { text: text("text")? }),
            "thinking" => Some(Block::Thinking { thinking: text("thinking")? }),
            "toolCall" => Some(Block::ToolCall {
                id: text("id")?.into(),
                name: text("name")?,
                arguments: block["arguments"].clone(),
            }),
            "image" => {
                let bytes = text("data").unwrap_or_default().len() / 4 * 3;
                let kind = text("mimeType").unwrap_or_default();
                Some(Block::Text { text: format!("[image: {kind}, about {bytes} bytes]") })
            }
            _ => None,
        }
    };
    match content {
        Value::String(text) => vec![Block::Text { text: text.clone() }],
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        _ => Vec::new(),
    }
}

fn meta(message: &Value) -> Meta {
    let text = |name: &str| message[name].as_str().map(str::to_owned);
    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    Meta {
        provider: text("provider"),
        model: text("model"),
        usage: usage.is_object().then(|| Usage {
            input: count("input"),
            output: count("output"),
            cache_read: count("cacheRead"),
            cache_write: count("cacheWrite"),
            cost_usd: usage["cost"]["total"].as_f64(),
            estimated: false,
        }),
        stop_reason: text("stopReason"),
    }
}
