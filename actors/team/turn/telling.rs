//! Facts and frames of a turn: what happens in it, as the journal and the person are told.

use std::time::Duration;

use serde_json::Value;

use super::{CallState, Slot};
use crate::{
    clock::millis,
    engine::{Block, ToolOutput},
    excerpt,
    file::FileRef,
    frame::{PREVIEW, Progress, ProgressKind},
    history::{Fact, Origin},
    ids::CallId,
    task::Task,
    tool::{Args, REPORT_RUN, ToolCall, ToolFault, ToolReply},
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

impl Slot {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, CallState::Done(_))
    }

    /// The result of the call, with what decided on it.
    pub(super) fn result(&self, reply: &ToolReply, took: Duration) -> (Fact, Progress) {
        let (id, name) = (self.call.id.clone(), self.call.name.clone());
        let frame = Progress {
            tool: Some(name.clone()),
            call_id: Some(id.clone()),
            ok: Some(reply.fault.is_none()),
            denied: reply.fault.is_some_and(ToolFault::is_denial),
            duration_ms: Some(millis(took)),
            preview: Some(excerpt::line(&reply.content, PREVIEW)),
            untrusted: reply.taints,
            files: reply.files.clone(),
            ..Progress::new(ProgressKind::ToolResult, format!("Used {name}"))
        };
        let checked = self.checked.as_ref();
        let fact = Fact::ToolResult {
            id,
            name,
            content: reply.content.clone(),
            fault: reply.fault,
            duration_ms: millis(took),
            truncated: reply.truncated,
            taints: reply.taints,
            rule: reply.rule.clone().or_else(|| checked?.rule.clone()),
            approved: self.approval.is_some(),
            files: reply.files.clone(),
            pictures: reply.pictures.clone(),
        };
        (fact, frame)
    }

    pub(super) fn finish(&mut self, reply: &ToolReply, took: Duration) -> (Fact, Progress) {
        let told = self.result(reply, took);
        self.put_result(reply.content.clone(), reply.fault, reply.pictures.clone());
        told
    }

    pub(super) fn put_result(
        &mut self,
        content: String,
        fault: Option<ToolFault>,
        pictures: Vec<FileRef>,
    ) {
        let (id, name) = (self.call.id.clone(), self.call.name.clone());
        self.state = CallState::Done(ToolOutput { id, name, content, fault, pictures });
    }

    /// What the call reports about the run of a trigger, once it has succeeded.
    pub(super) fn report(&self, fault: Option<ToolFault>) -> Option<Value> {
        match &self.call.args {
            Args::Json(args) if self.call.name == REPORT_RUN && fault.is_none() => {
                Some(args.clone())
            }
            _ => None,
        }
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
