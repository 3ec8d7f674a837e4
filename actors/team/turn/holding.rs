//! Holding: calls that wait for a person, and turns that are set aside.

use std::time::Duration;

use super::{
    CallState, Turn, Want,
    telling::{output, result},
};
use crate::{
    approvals::record::Execution,
    clock::Timestamp,
    engine::Block,
    event::{Progress, ProgressKind},
    history::{Fact, Meta},
    store::records::Writes,
    task::WaitReason,
    tool::{Args, Checked, Effect, ToolFault, ToolReply},
};

/// What became of a held call, as far as that is known when its turn goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nobody has decided.
    Wait,
    /// It may run, once.
    Run,
    /// It was about to run when the process stopped.
    Begun,
    /// It must not run: this is its result.
    Refuse(ToolReply),
}

/// Takes the secrets out of calls, wherever the turn keeps them. Returns what to store for that.
pub(super) fn redact(
    blocks: &mut [Block],
    checks: &[Result<Checked, ToolReply>],
) -> Option<Writes> {
    let calls = blocks.iter_mut().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        _ => None,
    });
    let mut stashed: Option<Writes> = None;
    for (call, verdict) in calls.zip(checks) {
        let Ok(checked) = verdict else { continue };
        if let Some(redacted) = &checked.redacted {
            call.args = Args::Json(redacted.clone());
        }
        if let Some(beside) = &checked.beside {
            stashed = Some(stashed.unwrap_or_default().and(beside.clone()));
        }
    }
    stashed
}

impl Turn {
    /// Sets the turn aside.
    pub(super) fn park(
        &mut self,
        reason: WaitReason,
        note: String,
        until: Option<Timestamp>,
    ) -> Vec<Want> {
        self.ended = true;
        let facts = vec![Fact::Meta(Meta::Parked(reason))];
        let frames = vec![Progress::new(ProgressKind::Note, note)];
        vec![Want::Park(facts, frames, reason, until)]
    }

    /// Nothing is left to do but to wait for a person.
    pub(super) fn waits_for_a_person(&self) -> bool {
        let held = |state: &CallState| *state == CallState::Held;
        let over = |state: &CallState| matches!(state, CallState::Held | CallState::Done(_));
        self.calls.iter().any(|slot| held(&slot.state))
            && self.calls.iter().all(|slot| over(&slot.state))
    }

    /// Sets the turn aside until somebody decides.
    pub(super) fn wait_for_a_person(&mut self) -> Vec<Want> {
        let waiting: Vec<&str> = self
            .calls
            .iter()
            .filter(|slot| slot.state == CallState::Held)
            .map(|slot| slot.call.name.as_str())
            .collect();
        let note = format!("Waiting for approval: {}.", waiting.join(", "));
        self.park(WaitReason::Approval, note, None)
    }

    /// Takes up a held call again when its turn goes on.
    pub(super) fn take_up(
        &mut self,
        place: usize,
        effect: Effect,
        decision: Decision,
        verdict: Result<Checked, ToolReply>,
        facts: &mut Vec<Fact>,
        frames: &mut Vec<Progress>,
    ) -> Option<Want> {
        let slot = &mut self.calls[place];
        let was_cut_off = slot.state == CallState::Waiting { rerun: true };
        let (refusal, mark) = match (decision, verdict) {
            (Decision::Wait, _) => {
                slot.state = CallState::Held;
                return None;
            }
            (Decision::Refuse(reply), _) => (reply, None),
            (Decision::Begun, _) if effect == Effect::Irreversible => {
                (unknown(), Some(Execution::Unknown))
            }
            // The rules may have changed since: what is forbidden now does not run.
            (Decision::Run | Decision::Begun, Err(refusal)) => (refusal, Some(Execution::Failed)),
            (decision, Ok(checked)) => {
                slot.checked = Some(checked);
                slot.state = CallState::Waiting {
                    rerun: was_cut_off || decision == Decision::Begun,
                };
                return None;
            }
        };
        let (fact, frame) = result(&slot.call, &refusal, Duration::ZERO);
        slot.state = CallState::Done(output(&slot.call, &refusal));
        facts.push(fact);
        frames.push(frame);
        Some(Want::Mark(slot.approval.clone()?, mark?))
    }
}

/// The result of a call that must not be made again though its own is not known.
pub(super) fn unknown() -> ToolReply {
    ToolReply::failed(
        ToolFault::UnknownOutcome,
        "outcome unknown: the process stopped during this call; check before repeating",
    )
}
