//! Proposals: requests for something that no turn waits for, made and taken back by the edges.

use actix::{ActorFutureExt, Context, Handler, ResponseActFuture, WrapFuture};

use super::{Approvals, Propose, Withdraw, record::Approval};
use crate::{channel::Deliver, store::StoreError};

impl Handler<Propose> for Approvals {
    type Result = ResponseActFuture<Self, Result<Approval, StoreError>>;

    fn handle(&mut self, Propose(proposal): Propose, _: &mut Context<Self>) -> Self::Result {
        let approval = self.to.requests.proposal(proposal, self.to.clock.now());
        let stored = self.to.store.commit(self.to.requests.opening(&approval));
        Box::pin(stored.into_actor(self).map(move |stored, this, ctx| {
            match stored {
                Ok(frames) => this.to.channel.do_send(Deliver { frames }),
                Err(error) => {
                    this.to.requests.release(&approval.short_id);
                    return Err(error);
                }
            }
            this.pending.open(approval.clone());
            this.ring(ctx);
            Ok(approval)
        }))
    }
}

impl Handler<Withdraw> for Approvals {
    type Result = ();

    fn handle(&mut self, Withdraw { approval }: Withdraw, ctx: &mut Context<Self>) {
        for approval in self.pending.cancel(&approval, self.to.clock.now()) {
            self.settle(approval, ctx);
        }
    }
}
