//! Held calls: those that wait for a person. Requesting the decision, and holding the call to it.

use super::turn::slot::Decision;
use crate::{
    approvals::{
        record::{Approval, Intended, NotPermitted, Status},
        requests::RequestBuilder,
    },
    history::{Fact, Meta},
    ids::CallId,
    store::records::Writes,
    tool::{Args, Caller, Checked, ToolCall, ToolFault, ToolReply, Verdict},
};

/// Requests for approval in the making. They count once they are stored.
#[derive(Default)]
pub(super) struct ApprovalRequests {
    pub(super) facts: Vec<Fact>,
    pub(super) writes: Writes,
    pub(super) opened: Vec<Approval>,
}

impl ApprovalRequests {
    pub(super) fn add(&mut self, requests: &RequestBuilder, call: CallId, approval: Approval) {
        let id = approval.id.clone();
        self.facts.push(Fact::Meta(Meta::Approval { call, approval: id }));
        self.writes = std::mem::take(&mut self.writes).and(requests.opening(&approval));
        self.opened.push(approval);
    }
}

/// What was decided on a held call, and whether it is still what was decided on: `now` is what is known
/// of the call at this moment.
pub(super) fn decision(
    requests: &RequestBuilder,
    approval: Option<&Approval>,
    call: &ToolCall,
    caller: &Caller,
    now: Option<&Checked>,
) -> Decision {
    let refuse = |fault, message: String| Decision::Refuse(ToolReply::failed(fault, message));
    let Some(approval) = approval else {
        return refuse(
            ToolFault::ApprovalDenied,
            "the request for approval is lost; ask again".to_owned(),
        );
    };
    match approval.status {
        Status::Pending => return Decision::Wait,
        Status::Expired => return refuse(ToolFault::ApprovalExpired, approval.denial()),
        Status::Denied | Status::Cancelled => {
            return refuse(ToolFault::ApprovalDenied, approval.denial());
        }
        Status::Approved => {}
    }
    let Some(intended) = intended(approval, call, caller, now) else {
        let why = NotPermitted::DigestMismatch;
        return refuse(ToolFault::ApprovalDenied, why.to_string());
    };
    match approval.permits(requests.digester(), intended) {
        Ok(()) => Decision::Run,
        Err(NotPermitted::Used) => Decision::Begun,
        Err(why) => refuse(ToolFault::ApprovalDenied, why.to_string()),
    }
}

/// The refusal of an approved call that is about to begin and is not what was approved any more.
pub(super) fn mismatch(
    requests: &RequestBuilder,
    approval: &Approval,
    call: &ToolCall,
    caller: &Caller,
    now: Result<Checked, ToolReply>,
) -> Option<ToolReply> {
    let checked = match now {
        Ok(checked) => checked,
        Err(refusal) => return Some(refusal),
    };
    let covered = match intended(approval, call, caller, Some(&checked)) {
        Some(intended) => approval.covers(requests.digester(), intended),
        None => Err(NotPermitted::DigestMismatch),
    };
    let why = covered.err()?;
    Some(ToolReply::failed(ToolFault::ApprovalDenied, why.to_string()))
}

/// What a held call would do now.
fn intended<'a>(
    approval: &'a Approval,
    call: &'a ToolCall,
    caller: &'a Caller,
    now: Option<&'a Checked>,
) -> Option<Intended<'a>> {
    let Args::Json(arguments) = &call.args else { return None };
    // Without a rule that asks any more, there is nothing else to compare with.
    let (cwd, secrets) = match now.map(|checked| &checked.verdict) {
        Some(Verdict::Ask(asking)) => (&asking.cwd, &asking.secrets),
        _ => (&approval.cwd, &approval.secrets),
    };
    Some(Intended { team: &caller.team, tool: &call.name, arguments, cwd: cwd.as_deref(), secrets })
}
