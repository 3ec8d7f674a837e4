//! Holds: calls of a turn that wait for a person, and turns that are set aside.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Team, commits::After, turn::Held};
use crate::{
    approvals::{
        Opened,
        desk::{Desk, Wish},
        record::{Approval, Execution, Intended, NotPermitted, Status},
    },
    event::Progress,
    history::{Fact, Meta},
    ids::{ApprovalId, TopicId, TurnId},
    notice::{Notice, NoticeKind},
    store::records::Writes,
    task::Wait,
    team::turn::Decision,
    tool::{Args, Caller, Checked, Stow, ToolCall, ToolFault, ToolReply, Verdict},
};

impl Team {
    /// Makes facts durable together with the requests for those calls that a person decides on.
    pub(super) fn hold(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        mut facts: Vec<Fact>,
        frames: Vec<Progress>,
        held: Vec<Held>,
        ctx: &mut Context<Self>,
    ) {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let mut openings = Writes::new();
        let mut opened = Vec::new();
        for held in held {
            let Args::Json(arguments) = &held.call.args else {
                continue;
            };
            let wish = Wish {
                caller: &running.caller,
                turn,
                label: running.turn.label(),
                call: &held.key,
                tool: &held.call.name,
                arguments,
                asking: &held.asking,
            };
            let approval = self.recipe.desk.request(wish, now);
            facts.push(Fact::Meta(Meta::Approval {
                call: held.call.id,
                approval: approval.id.clone(),
            }));
            openings = openings.and(Desk::opening(&approval));
            opened.push(approval);
        }
        let writes = self.journal(topic, turn, facts);
        let writes = self.tell(topic, turn, frames, writes).and(openings);
        self.commit(topic, turn, writes, After::Opened(opened), ctx);
    }

    /// The requests are stored: somebody may decide.
    pub(super) fn opened(&self, approvals: Vec<Approval>) {
        for approval in approvals {
            self.recipe.approvals.do_send(Opened(approval));
        }
    }

    /// Notes what becomes of an approved call.
    pub(super) fn mark(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        approval: &ApprovalId,
        execution: Execution,
        ctx: &mut Context<Self>,
    ) {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let Some(approval) = running.approvals.get_mut(approval) else {
            return;
        };
        approval.execution = execution;
        let mut writes =
            Writes::new().under_lease(&running.charge.task.id, &running.charge.lease).put(approval);
        if execution == Execution::Unknown {
            writes = writes.put(&Notice {
                id: self.recipe.ids.notice(),
                kind: NoticeKind::UnknownOutcome,
                team: Some(approval.team.name.clone()),
                text: format!(
                    "The process stopped while an approved call of `{}` ran ({}). It is not repeated; check what it did.",
                    approval.tool.as_deref().unwrap_or_default(),
                    approval.short_id
                ),
                refs: vec![approval.id.to_string()],
                at: now,
                read: false,
            });
        }
        self.commit(topic, turn, writes, After::GoOn, ctx);
    }

    /// Keeps secrets that were taken out of calls, one call after the other, before what follows.
    pub(super) fn stash(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        stows: Vec<Stow>,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.committing = true;
        let guard = Writes::new().under_lease(&running.charge.task.id, &running.charge.lease);
        let store = self.recipe.store.clone();
        let kept = async move {
            for stow in stows {
                match stow.keep().await {
                    Ok(alongside) => {
                        store.commit(guard.clone().and(alongside.writes)).await?;
                        alongside.then.await;
                    }
                    // The call says so when it runs.
                    Err(error) => tracing::error!(error, "secrets of a call cannot be kept"),
                }
            }
            Ok(Vec::new())
        };
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(kept.into_actor(self).map(move |result, team, ctx| {
            team.committed(&topic, &turn, result, After::GoOn, ctx);
        }));
    }

    /// Sets a turn aside until something outside has happened.
    pub(super) fn park(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        facts: Vec<Fact>,
        frames: Vec<Progress>,
        wait: Wait,
        ctx: &mut Context<Self>,
    ) {
        let mut facts = facts;
        let (asking, opened) = self.ask_for_money(topic, turn, &mut facts);
        let writes = self.journal(topic, turn, facts);
        let writes = self.tell(topic, turn, frames, writes).and(asking);
        self.commit(topic, turn, writes, After::Parked(wait, opened), ctx);
    }
}

/// What was decided on a held call, and whether it is still what was decided on: `now` is what is known
/// of the call at this moment.
pub(super) fn decision(
    desk: &Desk,
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
    match approval.permits(desk.digester(), intended) {
        Ok(()) => Decision::Run,
        Err(NotPermitted::Used) => Decision::Begun,
        Err(why) => refuse(ToolFault::ApprovalDenied, why.to_string()),
    }
}

/// The refusal of an approved call that is about to begin and is not what was approved any more.
pub(super) fn mismatch(
    desk: &Desk,
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
        Some(intended) => approval.covers(desk.digester(), intended),
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
    let Args::Json(arguments) = &call.args else {
        return None;
    };
    // Without a rule that asks any more, there is nothing else to compare with.
    let (cwd, secrets) = match now.map(|checked| &checked.verdict) {
        Some(Verdict::Ask(asking)) => (&asking.cwd, &asking.secrets),
        _ => (&approval.cwd, &approval.secrets),
    };
    Some(Intended { team: &caller.team, tool: &call.name, arguments, cwd: cwd.as_deref(), secrets })
}
