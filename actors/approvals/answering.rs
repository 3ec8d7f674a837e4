//! Answers to questions: the first one counts, and goes to the lane that asked as a task.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, ResponseActFuture, WrapFuture};

use super::{
    Approvals, Ask, Reply, card,
    pending_requests::closed,
    ports::SecretText,
    question::{AnswerKind, Question},
    refusal::NotAnswered,
};
use crate::{
    channel::Deliver,
    ids::{ChannelId, QuestionId},
    queue::{refusal::Refusal, submit::Submit},
    store::{StoreError, reads::get, records::Writes},
};

/// News that found no room are tried again after this.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

type Answered = Result<Question, NotAnswered>;

impl Approvals {
    /// What the end of a question writes: its row, and a word for those who were shown it. Whoever answered in that very
    /// conversation hears of it there anyway.
    pub(super) fn closing(&self, question: &Question, answered_in: Option<&ChannelId>) -> Writes {
        let card = card::closed(question, self.to.clock.now());
        let (writes, source) = (Writes::new().put(question), question.source.as_ref());
        self.to.requests.shown(writes, source, answered_in, card)
    }

    /// Hands the end of a question to the queue, which stores it with the task that brings it.
    fn bring(
        &self,
        question: &Question,
        answered_in: Option<&ChannelId>,
        writes: Writes,
    ) -> impl Future<Output = Result<(), Refusal>> + use<> {
        let handed = self.to.queue.send(Submit {
            task: question.result(self.to.ids.task(), self.to.clock.now()),
            writes: writes.and(self.closing(question, answered_in)),
            overlap: None,
            giver: None,
        });
        async move { handed.await.unwrap_or(Err(Refusal::Stopping)).map(|_| ()) }
    }

    /// Nobody answered in time: the lane that asked is told.
    pub(super) fn tell_expired(&mut self, question: Question, ctx: &mut Context<Self>) {
        let brought = self.bring(&question, None, Writes::new());
        ctx.spawn(brought.into_actor(self).map(move |brought, _, ctx| {
            if let Err(refusal) = brought {
                tracing::warn!(question = %question.id, error = %refusal, "the team is not told yet that nobody answered its question");
                ctx.run_later(RETRY_PAUSE, move |this, ctx| this.tell_expired(question, ctx));
            }
        }));
    }

    /// The answer is good, and a secret is in the vault.
    fn answered(&mut self, reply: Reply) -> ResponseActFuture<Self, Answered> {
        let now = self.to.clock.now();
        let asked = self.pending.question(&reply.question).cloned();
        let answered = self.pending.answer(&reply.question, reply.answer, &reply.by, now);
        let (Some(asked), Some(question)) = (asked, answered) else {
            return done(Err(NotAnswered::NotFound));
        };
        let (by, id, channel) = (&reply.by, question.id.as_str(), reply.channel.as_ref());
        let audit = self.audit(by, "question.answer", id, channel, "answered");
        let brought = self.bring(&question, channel, Writes::new().put(&audit));
        Box::pin(brought.into_actor(self).map(move |brought, this, ctx| {
            brought.map(|()| question).map_err(|refusal| {
                // It is as if it had not been said.
                this.pending.ask(asked);
                this.ring(ctx);
                NotAnswered::Refused(refusal)
            })
        }))
    }

    fn keep_secret(
        &mut self,
        question: &Question,
        reply: Reply,
    ) -> ResponseActFuture<Self, Answered> {
        let Some(key) = question.key.clone() else {
            return done(Err(NotAnswered::Vault("the question names no key".to_owned())));
        };
        self.answering.insert(reply.question.clone());
        let secret = SecretText::new(reply.answer.text.clone());
        let kept = self.to.secrets.keep(question.team.clone(), key, secret, &reply.by);
        let kept = kept.into_actor(self).then(move |kept, this, _| {
            this.answering.remove(&reply.question);
            match kept {
                Ok(()) => this.answered(reply),
                Err(reason) => done(Err(NotAnswered::Vault(reason))),
            }
        });
        Box::pin(kept)
    }

    fn look_up_question(&mut self, id: QuestionId) -> ResponseActFuture<Self, Answered> {
        let store = self.to.store.clone();
        // What is on its way is stored by then.
        let barrier = store.commit(Writes::new());
        let read = async move {
            let _ = barrier.await;
            store.read(move |storage| get::<Question>(storage, &id)).await
        };
        Box::pin(read.into_actor(self).map(|row, _, _| {
            let row = row.map_err(|error| {
                tracing::error!(%error, "a question cannot be looked up");
                NotAnswered::Unreadable
            })?;
            Err(row.map_or(NotAnswered::NotFound, closed))
        }))
    }
}

fn done(answer: Answered) -> ResponseActFuture<Approvals, Answered> {
    Box::pin(actix::fut::ready(answer))
}

impl Handler<Ask> for Approvals {
    type Result = ResponseActFuture<Self, Result<(), StoreError>>;

    fn handle(&mut self, Ask(question): Ask, _: &mut Context<Self>) -> Self::Result {
        let store = self.to.store.clone();
        let id = question.id.clone();
        // The same call made again asks nothing new.
        let known = async move {
            let row = store.read(move |storage| get::<Question>(storage, &id)).await;
            matches!(row, Ok(Some(_)))
        };
        let asked = known.into_actor(self).then(move |known, this, _| {
            let mut writes = Writes::new();
            if !known {
                writes = writes.put(&question);
                let source = question.source.as_ref();
                writes = this.to.requests.shown(writes, source, None, card::question(&question));
            }
            let committed = this.to.store.commit(writes);
            committed.into_actor(this).map(move |result, this, ctx| {
                let frames = result?;
                if !known {
                    this.to.channel.do_send(Deliver { frames });
                    this.pending.ask(question);
                    this.ring(ctx);
                }
                Ok(())
            })
        });
        Box::pin(asked)
    }
}

impl Handler<Reply> for Approvals {
    type Result = ResponseActFuture<Self, Answered>;

    fn handle(&mut self, reply: Reply, ctx: &mut Context<Self>) -> Self::Result {
        self.ring(ctx);
        let Some(question) = self.pending.question(&reply.question).cloned() else {
            return self.look_up_question(reply.question);
        };
        if question.kind == AnswerKind::Secret && reply.channel.is_some() {
            return done(Err(NotAnswered::SecretInChat));
        }
        if let Err(unfit) = question.fits(&reply.answer) {
            return done(Err(unfit.into()));
        }
        match question.kind {
            AnswerKind::Text => self.answered(reply),
            AnswerKind::Secret if self.answering.contains(&reply.question) => {
                done(Err(NotAnswered::Busy))
            }
            AnswerKind::Secret => self.keep_secret(&question, reply),
        }
    }
}
