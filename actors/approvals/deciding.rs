//! Decisions on approvals: the first one counts, once it is stored.

use actix::{ActorFutureExt, Context, Handler, ResponseActFuture, ResponseFuture, WrapFuture};

use super::{
    Approvals, Decide, Revoke,
    grants::NotGrantable,
    pending_requests::{Decided, repeated},
    record::{Approval, Execution, Resolution, Status},
    refusal::NotDecided,
};
use crate::{
    approvals::records,
    budget::records::{DayKey, Raised},
    ids::TeamKey,
    store::{StoreError, keys::Life, records::Writes},
};

type Answer = Result<Approval, NotDecided>;

impl Approvals {
    fn decided(
        &mut self,
        said: Result<Decided, NotDecided>,
        decide: &Decide,
    ) -> ResponseActFuture<Self, Answer> {
        let mut approval = match said {
            Ok(Decided::New(approval)) => approval,
            // What is told of an earlier decision is stored by then.
            earlier => {
                let barrier = self.to.store.commit(Writes::new());
                return Box::pin(barrier.into_actor(self).map(move |safe, _, _| {
                    safe?;
                    match earlier? {
                        Decided::New(approval) | Decided::Again(approval) => Ok(approval),
                    }
                }));
            }
        };
        self.to.requests.release(&approval.short_id);
        let granted = self.grant(&mut approval);
        let standing = self.to.grants.make(&approval, &self.to.ids, self.to.clock.now());
        let (grant, kept) = standing.unzip();
        let (by, channel) = (&decide.word.by, decide.channel.as_ref());
        let (id, status) = (approval.id.as_str(), approval.status.as_str());
        let outcome = if approval.alone { format!("{status} alone") } else { status.to_owned() };
        let audit = self.audit(by, "approval.decide", id, channel, &outcome);
        let ending = self.ending(&approval, channel).and(granted).and(kept.unwrap_or_default());
        let committed = self.to.store.commit(ending.put(&audit));
        Box::pin(committed.into_actor(self).map(move |result, this, _| {
            if let Err(error) = result {
                return Err(error.into());
            }
            let (by, status) = (approval.resolved_by.as_deref(), approval.status.as_str());
            tracing::info!(approval = %approval.id, team = %approval.team.name, by, status, "approval decided");
            if let Some(grant) = grant {
                this.to.grants.keep(grant);
            }
            this.settled(result, approval.clone());
            Ok(approval)
        }))
    }

    /// It is not among what waits: it may be older than this process, or so new that its turn has not
    /// yet said so.
    fn look_up(&mut self, decide: Decide) -> ResponseActFuture<Self, Answer> {
        let store = self.to.store.clone();
        let which = decide.word.which.clone();
        let read = async move { store.read(move |storage| records::called(storage, &which)).await };
        let found = read.into_actor(self).then(move |row, this, _| {
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    tracing::error!(%error, "an approval cannot be looked up");
                    return this.decided(Err(NotDecided::Unreadable), &decide);
                }
            };
            let Some(row) = row else { return this.decided(Err(NotDecided::NotFound), &decide) };
            if row.status != Status::Pending {
                return this.decided(repeated(&row, &decide.word), &decide);
            }
            if !this.pending.knows(&row.id) {
                this.to.requests.take(&row.short_id);
                this.pending.open(row);
            }
            let said = this.say(&decide).unwrap_or(Err(NotDecided::NotFound));
            this.decided(said, &decide)
        });
        Box::pin(found)
    }

    fn say(&mut self, decide: &Decide) -> Option<Result<Decided, NotDecided>> {
        let digester = self.to.requests.digester();
        let now = self.to.clock.now();
        let asks_for_more = !matches!(decide.word.resolution, Resolution::Once);
        if asks_for_more && self.to.grants.is_full(now) {
            return Some(Err(NotGrantable::TooMany.into()));
        }
        let (deciders, who) = (&self.to.deciders, &decide.word.by.principal);
        let is_alone = |approval: &Approval| deciders.is_alone(who, &approval.team.name);
        self.pending.decide(&decide.word, digester, &is_alone, now)
    }

    /// Allows the money that an approval asks for: an operator who agrees to more has said all that is
    /// needed, and nobody carries it out. What this writes belongs into the commit of the decision.
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

impl Handler<Decide> for Approvals {
    type Result = ResponseActFuture<Self, Answer>;

    fn handle(&mut self, decide: Decide, ctx: &mut Context<Self>) -> Self::Result {
        self.ring(ctx);
        match self.say(&decide) {
            Some(said) => self.decided(said, &decide),
            None => self.look_up(decide),
        }
    }
}

impl Handler<Revoke> for Approvals {
    type Result = ResponseFuture<Result<bool, StoreError>>;

    fn handle(&mut self, Revoke { grant, by }: Revoke, _: &mut Context<Self>) -> Self::Result {
        let Some(writes) = self.to.grants.revoke(&grant) else {
            return Box::pin(std::future::ready(Ok(false)));
        };
        let audit = self.audit(&by, "grant.revoke", &grant, None, "revoked");
        let committed = self.to.store.commit(writes.put(&audit));
        Box::pin(async move { committed.await.map(|_| true) })
    }
}
