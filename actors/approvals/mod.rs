//! Approvals: the actor that holds what waits for a person. Decisions and answers are stored, then told.

use std::{collections::HashSet, sync::Arc, time::Duration};

use crate::{
    audit::Audit,
    budget::{Days, Ledger},
    channel::{Channel, Deliver},
    clock::{Clock, Timestamp, pause_until},
    ids::{ApprovalId, ChannelId, Ids, QuestionId, TeamKey},
    queue::{Ended, submit::Submit},
    store::{Numbered, StoreError, StoreHandle, records::Writes},
};
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, MessageResult, Recipient,
    SpawnHandle, WrapFuture,
};

mod answering;
pub mod canonical;
pub mod card;
mod deciding;
pub mod grants;
pub mod lists;
mod pending_requests;
pub mod ports;
mod proposing;
pub mod query;
pub mod question;
pub mod record;
pub mod records;
pub mod refusal;
pub mod requests;
#[cfg(test)]
mod tests;

use grants::Grants;
use pending_requests::PendingRequests;
use ports::{Deciders, SecretSink};
use question::{Answer, Question};
use record::{Approval, Decider, Resolved, Status, Word};
use records::Recovered;
use refusal::{NotAnswered, NotDecided};
use requests::{Proposal, RequestBuilder};

/// A request is stored: somebody may decide on it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Opened(pub Approval);

/// Asks a person for something that no turn waits for. The answer comes once the request is stored; whoever proposes
/// carries it out.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Approval, StoreError>")]
pub struct Propose(pub Proposal);

/// Takes back what was proposed, unless somebody has decided.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Withdraw {
    pub approval: ApprovalId,
}

/// A team is gone, with all that it waited for.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Disbanded {
    pub team: TeamKey,
}

/// Decides on an approval. The answer comes once the decision is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Approval, NotDecided>")]
pub struct Decide {
    pub word: Word,
    /// The conversation they say it in.
    pub channel: Option<ChannelId>,
}

/// Takes back a grant at once. The answer comes once this is stored: whether there was one.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<bool, StoreError>")]
pub struct Revoke {
    pub grant: String,
    pub by: Decider,
}

/// Asks the operator. The answer comes once the question is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), StoreError>")]
pub struct Ask(pub Question);

/// Answers a question. The answer comes once this is stored.
#[derive(Clone, Message)]
#[rtype(result = "Result<Question, NotAnswered>")]
pub struct Reply {
    pub question: QuestionId,
    /// The answer. It may be a secret.
    pub answer: Answer,
    pub by: Decider,
    pub channel: Option<ChannelId>,
}

/// What waits for a decision, and what for an answer, oldest first.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "(Vec<Approval>, Vec<Question>)")]
pub struct List;

/// Ends what has run out. Once it is answered, the store is given what that writes.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct EndOverdue;

/// Requests wait this long from now on.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct SetTtl(pub Duration);

/// What waits for a person is shown in these channels too from now on.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ShowIn(pub Vec<ChannelId>);

/// Everything that the approvals talk to.
pub(crate) struct Neighbours {
    pub(crate) store: StoreHandle,
    pub(crate) channel: Addr<Channel>,
    /// Where answers become work.
    pub(crate) queue: Recipient<Submit>,
    /// Who is told of decisions.
    pub(crate) resolved: Recipient<Resolved>,
    pub(crate) secrets: Arc<dyn SecretSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
    pub(crate) requests: RequestBuilder,
    pub(crate) grants: Grants,
    pub(crate) deciders: Deciders,
    pub(crate) ledger: Ledger,
    pub(crate) days: Arc<dyn Days>,
}

/// What waits for a person. Whoever decides first decides, once it is stored.
pub struct Approvals {
    to: Neighbours,
    pending: PendingRequests,
    /// Secrets that are on their way into the vault.
    answering: HashSet<QuestionId>,
    alarm: Option<(Timestamp, SpawnHandle)>,
    /// To be seen to at the start.
    recovered: Recovered,
}

impl Approvals {
    /// The approvals that go on where the last process stopped.
    pub(crate) fn new(to: Neighbours, recovered: Recovered) -> Self {
        let mut pending = PendingRequests::default();
        for approval in &recovered.approvals {
            to.requests.take(&approval.short_id);
            pending.open(approval.clone());
        }
        for question in &recovered.questions {
            pending.ask(question.clone());
        }
        Self { to, pending, answering: HashSet::new(), alarm: None, recovered }
    }

    /// What the end of an approval writes: its row, and a word for those who were shown it. Whoever
    /// decided in that very conversation hears of it there anyway.
    fn ending(&self, approval: &Approval, decided_in: Option<&ChannelId>) -> Writes {
        let writes = Writes::new().put(approval);
        let card = card::resolved(approval, self.to.clock.now());
        self.to.requests.shown(writes, approval.source.as_ref(), decided_in, card)
    }

    /// Stores the end of an approval; then the waiting turn is told.
    fn settle(&mut self, approval: Approval, ctx: &mut Context<Self>) {
        self.to.requests.release(&approval.short_id);
        let committed = self.to.store.commit(self.ending(&approval, None));
        ctx.spawn(committed.into_actor(self).map(move |result, this, _| {
            this.settled(result, approval);
        }));
    }

    fn settled(&self, result: Result<Vec<Numbered>, StoreError>, approval: Approval) {
        match result {
            Ok(frames) => {
                self.to.channel.do_send(Deliver { frames });
                // What was cancelled has nobody left who waits, unless others wait for the same.
                if self.may_be_asked_again(&approval) || approval.status != Status::Cancelled {
                    self.to.resolved.do_send(Resolved(approval));
                }
            }
            Err(error) => {
                tracing::error!(approval = %approval.id, team = %approval.team.name, %error, "the end of an approval cannot be stored; after a restart it waits again")
            }
        }
    }

    /// That somebody did something, in a conversation or by the API.
    fn audit(
        &self,
        by: &Decider,
        action: &str,
        target: &str,
        channel: Option<&ChannelId>,
        outcome: &str,
    ) -> Audit {
        let from = channel.map(ChannelId::as_str).or(by.from.as_deref()).unwrap_or("api");
        let (ids, now) = (&self.to.ids, self.to.clock.now());
        Audit::new(ids, now, &by.principal, action, target, from, outcome)
    }

    /// Ends what has run out: with the alarm, and before anyone looks.
    fn ring(&mut self, ctx: &mut Context<Self>) {
        let (approvals, questions) = self.pending.expire(self.to.clock.now());
        for approval in approvals {
            tracing::info!(approval = %approval.id, team = %approval.team.name, "an approval expired");
            self.settle(approval, ctx);
        }
        for question in questions {
            self.tell_expired(question, ctx);
        }
        self.arm(ctx);
    }

    /// Sets the alarm for what runs out next.
    fn arm(&mut self, ctx: &mut Context<Self>) {
        let Some(next) = self.pending.next_due() else { return };
        if self.alarm.is_some_and(|(at, _)| at <= next) {
            return;
        }
        if let Some((_, handle)) = self.alarm.take() {
            ctx.cancel_future(handle);
        }
        let pause = pause_until(next, self.to.clock.now());
        let handle = ctx.run_later(pause, |this, ctx| {
            this.alarm = None;
            this.ring(ctx);
        });
        self.alarm = Some((next, handle));
    }
}

impl Actor for Approvals {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let recovered = std::mem::take(&mut self.recovered);
        let gone = recovered.approvals.iter().filter_map(|row| row.task.as_ref());
        for task in gone.filter(|task| !recovered.open.contains(*task)) {
            for approval in self.pending.cancel_task(task, self.to.clock.now()) {
                self.settle(approval, ctx);
            }
        }
        for approval in recovered.decided {
            self.to.resolved.do_send(Resolved(approval));
        }
        self.ring(ctx);
    }
}

impl Handler<Opened> for Approvals {
    type Result = ();

    fn handle(&mut self, Opened(approval): Opened, ctx: &mut Self::Context) {
        // Somebody may have decided before this arrived.
        if !self.pending.knows(&approval.id) {
            self.to.requests.take(&approval.short_id);
            self.pending.open(approval);
            self.ring(ctx);
        }
    }
}

impl Handler<Ended> for Approvals {
    type Result = ();

    fn handle(&mut self, Ended { task, .. }: Ended, ctx: &mut Self::Context) {
        self.to.secrets.release(&task);
        for approval in self.pending.cancel_task(&task, self.to.clock.now()) {
            self.settle(approval, ctx);
        }
    }
}

impl Handler<Disbanded> for Approvals {
    type Result = ();

    fn handle(&mut self, Disbanded { team }: Disbanded, ctx: &mut Self::Context) {
        let (approvals, questions) = self.pending.cancel_team(&team, self.to.clock.now());
        for approval in approvals {
            self.settle(approval, ctx);
        }
        let writes =
            questions.iter().fold(self.to.grants.revoke_team(&team), |writes, question| {
                writes.and(self.closing(question, None))
            });
        if !writes.is_empty() {
            let committed = self.to.store.commit(writes);
            ctx.spawn(committed.into_actor(self).map(|result, this, _| {
                if let Ok(frames) = result {
                    this.to.channel.do_send(Deliver { frames });
                }
            }));
        }
    }
}

impl Handler<SetTtl> for Approvals {
    type Result = ();

    fn handle(&mut self, SetTtl(ttl): SetTtl, _: &mut Self::Context) {
        self.to.requests.set_ttl(ttl);
    }
}

impl Handler<ShowIn> for Approvals {
    type Result = ();

    fn handle(&mut self, ShowIn(channels): ShowIn, _: &mut Self::Context) {
        self.to.requests.show_in(channels);
    }
}

impl Handler<List> for Approvals {
    type Result = MessageResult<List>;

    fn handle(&mut self, List: List, ctx: &mut Self::Context) -> Self::Result {
        self.ring(ctx);
        MessageResult(self.pending.waiting())
    }
}

impl Handler<EndOverdue> for Approvals {
    type Result = ();

    fn handle(&mut self, EndOverdue: EndOverdue, ctx: &mut Self::Context) {
        self.ring(ctx);
    }
}
