//! Granting: an operator who agrees to more money has said all that is needed. Nobody carries it out.

use super::{
    Approvals,
    record::{Approval, Execution, Status},
};
use crate::{
    budget::{
        Request,
        records::{DayKey, Raised},
    },
    ids::TeamKey,
    policy::caution::Kind,
    store::{keys::Life, records::Writes},
};

impl Approval {
    /// What it asks for, if that is money.
    pub fn budget_request(&self) -> Option<Request> {
        match self.kind {
            Kind::Budget => serde_json::from_value(self.arguments.clone()).ok(),
            _ => None,
        }
    }
}

impl Approvals {
    /// Allows what an approval asks for. What this writes belongs into the commit of the decision.
    pub(super) fn grant(&self, approval: &mut Approval) -> Writes {
        let request = approval.budget_request();
        let Some(request) = request.filter(|_| approval.status == Status::Approved) else {
            return Writes::new();
        };
        approval.execution = Execution::Done;
        let day = self.to.days.day_of(self.to.clock.now());
        let times = self.to.ledger.raise(&request, day);
        // What was allowed for a task is known by the approval itself.
        if request.task.is_some() || request.day != day.number {
            return Writes::new();
        }
        let team = TeamKey { name: request.team, generation: request.generation };
        Writes::new().put_at(&(DayKey(day.number), Life(team)), &Raised(times))
    }

    /// Whether an end leaves others waiting for the same money: nobody has said no.
    pub(super) fn may_be_asked_again(&self, approval: &Approval) -> bool {
        let request = approval.budget_request();
        let undecided = matches!(approval.status, Status::Cancelled | Status::Expired);
        match request.filter(|_| undecided) {
            Some(request) => {
                self.to.ledger.unask(&request);
                true
            }
            None => false,
        }
    }
}
