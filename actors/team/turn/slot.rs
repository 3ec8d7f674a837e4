//! Slots: the calls of a step, each with how far it has come.

use std::time::Duration;

use serde_json::Value;

use crate::{
    clock::millis,
    engine::ToolOutput,
    excerpt,
    file::FileRef,
    frame::{PREVIEW, Progress, ProgressKind},
    history::Fact,
    ids::ApprovalId,
    tool::{Args, Asking, Checked, REPORT_RUN, ToolCall, ToolFault, ToolReply, Verdict},
};

/// A call of the present step.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) call: ToolCall,
    pub(super) checked: Option<Checked>,
    /// The decision that lets it run.
    pub(super) approval: Option<ApprovalId>,
    pub(super) state: CallState,
}

#[derive(Debug, PartialEq)]
pub(super) enum CallState {
    Waiting { rerun: bool },
    Held,
    Running,
    Done(ToolOutput),
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::team) struct Held {
    pub(in crate::team) call: ToolCall,
    /// The same for every try of it.
    pub(in crate::team) key: String,
    pub(in crate::team) asking: Asking,
}

/// What became of a held call, as far as that is known when its turn goes on.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::team) enum Decision {
    Wait,
    /// It may run, once.
    Run,
    /// It was about to run when the process stopped.
    Begun,
    /// It must not run: this is its result.
    Refuse(ToolReply),
}

impl Slot {
    /// A call that the rules let run waits for its turn, or for a person if they say so.
    pub(super) fn admit(&mut self, checked: Checked, key: String, rerun: bool) -> Option<Held> {
        let held = match &checked.verdict {
            Verdict::Ask(asking) => {
                Some(Held { call: self.call.clone(), key, asking: asking.clone() })
            }
            Verdict::Allow => None,
        };
        self.state = match held {
            Some(_) => CallState::Held,
            None => CallState::Waiting { rerun },
        };
        self.checked = Some(checked);
        held
    }

    /// What the call needs and cannot have now. It has not begun.
    pub(super) fn lacks(&self) -> Option<&str> {
        match (&self.state, &self.checked) {
            (CallState::Waiting { .. }, Some(checked)) => checked.lacks.as_deref(),
            _ => None,
        }
    }

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
