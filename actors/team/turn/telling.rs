//! Facts and frames of a turn: what happens in it, as the journal and the person are told.

use std::time::Duration;

use crate::{
    clock::millis,
    engine::Block,
    excerpt,
    file::FileRef,
    frame::{PREVIEW, Progress, ProgressKind},
    history::{Fact, Origin},
    ids::CallId,
    task::Task,
    tool::{ToolCall, ToolReply},
};

pub(super) fn user(task: &Task, origin: Origin, files: Vec<FileRef>) -> Fact {
    Fact::User {
        text: task.body.clone(),
        from: task.from.clone(),
        origin,
        label: task.label,
        task_id: task.id.clone(),
        files,
    }
}

pub(in crate::team) fn text_of(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

pub(super) fn call_frame(call: &ToolCall) -> Progress {
    Progress {
        tool: Some(call.name.clone()),
        call_id: Some(call.id.clone()),
        preview: Some(excerpt::line(&call.args.to_string(), PREVIEW)),
        ..Progress::new(ProgressKind::ToolCall, format!("Using {}", call.name))
    }
}

/// Puts what a tool said after its turn was stopped in the place of what was written for it.
pub(super) fn hear_late(facts: &mut [Fact], call: &CallId, reply: &ToolReply, took: Duration) {
    for fact in facts {
        if let Fact::ToolResult {
            id,
            content,
            fault,
            duration_ms,
            truncated,
            taints,
            files,
            pictures,
            ..
        } = fact
            && id == call
        {
            files.clone_from(&reply.files);
            pictures.clone_from(&reply.pictures);
            content.clone_from(&reply.content);
            *fault = reply.fault;
            *duration_ms = millis(took);
            (*truncated, *taints) = (reply.truncated, reply.taints);
        }
    }
}
