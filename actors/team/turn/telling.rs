//! What happens in a turn, as the journal and the person are told of it.

use std::time::Duration;

use crate::{
    clock::millis,
    engine::{Block, ToolOutput},
    event::{Progress, ProgressKind},
    excerpt,
    history::{Fact, Origin},
    task::Task,
    tool::{Args, ToolCall, ToolReply},
};

/// Progress frames show this many characters of arguments and results.
const PREVIEW: usize = 500;

pub(super) fn user(task: &Task, origin: Origin) -> Fact {
    Fact::User {
        text: task.body.clone(),
        from: task.from.clone(),
        origin,
        label: task.label,
        task_id: task.id.clone(),
    }
}

pub(super) fn text_of(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

pub(super) fn output(call: &ToolCall, reply: &ToolReply) -> ToolOutput {
    ToolOutput {
        id: call.id.clone(),
        name: call.name.clone(),
        content: reply.content.clone(),
        fault: reply.fault,
    }
}

pub(super) fn call_frame(call: &ToolCall) -> Progress {
    let args = match &call.args {
        Args::Json(args) => args.to_string(),
        Args::Unreadable { unreadable, .. } => unreadable.clone(),
    };
    Progress {
        tool: Some(call.name.clone()),
        call_id: Some(call.id.clone()),
        preview: Some(preview(&args)),
        ..Progress::new(ProgressKind::ToolCall, format!("Using {}", call.name))
    }
}

pub(super) fn result(call: &ToolCall, reply: &ToolReply, took: Duration) -> (Fact, Progress) {
    let fact = Fact::ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: reply.content.clone(),
        fault: reply.fault,
        duration_ms: millis(took),
        truncated: reply.truncated,
        taints: reply.taints,
    };
    let frame = Progress {
        tool: Some(call.name.clone()),
        call_id: Some(call.id.clone()),
        ok: Some(reply.fault.is_none()),
        duration_ms: Some(millis(took)),
        preview: Some(preview(&reply.content)),
        ..Progress::new(ProgressKind::ToolResult, format!("Used {}", call.name))
    };
    (fact, frame)
}

fn preview(text: &str) -> String {
    excerpt::line(text, PREVIEW)
}
