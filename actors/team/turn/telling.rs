//! Facts and frames of a turn: what happens in it, as the journal and the person are told.

use std::time::Duration;

use super::Slot;
use crate::{
    clock::millis,
    engine::{Block, ToolOutput},
    event::{Progress, ProgressKind},
    excerpt,
    history::{Fact, Origin},
    ids::CallId,
    task::Task,
    tool::{ToolCall, ToolReply},
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

pub(super) fn output(call: &ToolCall, reply: &ToolReply) -> ToolOutput {
    ToolOutput {
        id: call.id.clone(),
        name: call.name.clone(),
        content: reply.content.clone(),
        fault: reply.fault,
    }
}

pub(super) fn call_frame(call: &ToolCall) -> Progress {
    let args = call.args.to_string();
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
        rule: reply.rule.clone(),
        approved: false,
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

impl Slot {
    /// The same of a call that was looked at: with what decided on it.
    pub(super) fn result(&self, reply: &ToolReply, took: Duration) -> (Fact, Progress) {
        let (mut fact, frame) = result(&self.call, reply, took);
        if let Fact::ToolResult { rule, approved, .. } = &mut fact {
            let checked = self.checked.as_ref();
            *rule = rule.take().or_else(|| checked?.rule.clone());
            *approved = self.approval.is_some();
        }
        (fact, frame)
    }
}

/// Puts what a tool said after its turn was stopped in the place of what was written for it.
pub(super) fn hear_late(facts: &mut [Fact], call: &CallId, reply: &ToolReply, took: Duration) {
    for fact in facts {
        if let Fact::ToolResult { id, content, fault, duration_ms, truncated, taints, .. } = fact
            && id == call
        {
            content.clone_from(&reply.content);
            *fault = reply.fault;
            *duration_ms = millis(took);
            (*truncated, *taints) = (reply.truncated, reply.taints);
        }
    }
}

fn preview(text: &str) -> String {
    excerpt::line(text, PREVIEW)
}
