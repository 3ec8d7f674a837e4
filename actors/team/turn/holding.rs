//! Parking of a turn: it is set aside while its calls wait for a person, or for what they lack.

use std::time::Duration;

use super::{
    Turn, Want,
    slot::{CallState, Decision, Slot},
    stepping::Opening,
};
use crate::{
    approvals::record::Execution,
    frame::{Progress, ProgressKind},
    history::{Fact, Meta},
    task::{Wait, WaitReason},
    tool::{Checked, Effect, ToolFault, ToolReply},
};

impl Turn {
    /// Sets the turn aside. `said` is whether the present step has said something, which is void.
    pub(super) fn park(&mut self, wait: Wait, said: bool) -> Vec<Want> {
        self.ended = true;
        // The person is told once; who decides on what may change from wait to wait.
        let told = self.times_waited(wait.reason) > 0 && wait.reason != WaitReason::Approval;
        self.waits_for(wait.reason);
        let mut facts: Vec<Fact> = self.not_begun().collect();
        facts.push(Fact::Meta(Meta::Parked(wait.reason)));
        let mut frames = Vec::new();
        if !told || said {
            let mut note = Progress::new(ProgressKind::Note, wait.note.clone());
            note.reset = said;
            note.waits = true;
            note.wait_reason = Some(wait.reason);
            frames.push(note);
        }
        vec![Want::Park(facts, frames, wait)]
    }

    /// How often it has waited for this since the model last answered.
    pub(super) fn times_waited(&self, reason: WaitReason) -> u32 {
        match self.waited {
            Some((of, times)) if of == reason => times,
            _ => 0,
        }
    }

    pub(super) fn waits_for(&mut self, reason: WaitReason) {
        self.waited = Some((reason, self.times_waited(reason) + 1));
    }

    /// It has waited, and the model has not answered since.
    pub(in crate::team) fn has_waited(&self) -> bool {
        self.waited.is_some()
    }

    /// Nothing is left to do but to wait for a person.
    pub(super) fn waits_for_a_person(&self) -> bool {
        let held = |slot: &Slot| slot.state == CallState::Held;
        let idle = |slot: &Slot| {
            matches!(slot.state, CallState::Held | CallState::Done(_)) || slot.lacks().is_some()
        };
        self.calls.iter().any(held) && self.calls.iter().all(idle)
    }

    /// Sets the turn aside until there is what its calls need. They have not begun.
    pub(super) fn wait_for_what_lacks(&mut self) -> Vec<Want> {
        let Some(lacks) = self.calls.iter().find_map(|slot| slot.lacks()) else {
            return Vec::new();
        };
        let wait = Wait { reason: WaitReason::Config, note: lacks.to_owned(), until: None };
        self.park(wait, false)
    }

    /// The calls that wait and have not begun, for the journal of a turn that is set aside.
    fn not_begun(&self) -> impl Iterator<Item = Fact> {
        let lacking = self.calls.iter().filter(|slot| slot.lacks().is_some());
        lacking.map(|slot| Fact::Meta(Meta::NotBegun(slot.call.id.clone())))
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
        let wait = Wait { reason: WaitReason::Approval, note, until: None };
        self.park(wait, false)
    }

    /// Takes up a held call again when its turn goes on.
    pub(super) fn take_up(
        &mut self,
        place: usize,
        effect: Effect,
        decision: Decision,
        verdict: Result<Checked, ToolReply>,
        opening: &mut Opening,
    ) {
        let slot = &mut self.calls[place];
        let was_cut_off = slot.state == CallState::Waiting { rerun: true };
        let (refusal, mark) = match (decision, verdict) {
            (Decision::Wait, _) => {
                slot.state = CallState::Held;
                return;
            }
            (Decision::Refuse(reply), _) => (reply, None),
            (Decision::Begun, _) if effect == Effect::Irreversible => {
                (unknown(), Some(Execution::Unknown))
            }
            // The rules may have changed since: what is forbidden now does not run.
            (Decision::Run | Decision::Begun, Err(refusal)) => (refusal, Some(Execution::Failed)),
            (decision, Ok(checked)) => {
                slot.checked = Some(checked);
                slot.state =
                    CallState::Waiting { rerun: was_cut_off || decision == Decision::Begun };
                return;
            }
        };
        opening.tell(slot.finish(&refusal, Duration::ZERO));
        let mark = slot.approval.clone().zip(mark);
        opening.marks.extend(mark.map(|(approval, execution)| Want::Mark(approval, execution)));
    }
}

/// The result of a call that must not be made again though its own is not known.
pub(super) fn unknown() -> ToolReply {
    ToolReply::failed(
        ToolFault::UnknownOutcome,
        "outcome unknown: the process stopped during this call; check before repeating",
    )
}
