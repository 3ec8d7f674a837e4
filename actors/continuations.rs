//! Continuations: what an actor does once futures have come to their end.
//!
//! actix polls all that an actor has spawned whenever one thing wakes it, and all of it again for each that is spawned or
//! cancelled meanwhile. An actor that waits for hundreds of things at once has these instead: they are spawned as one, of which
//! only those are polled that were woken.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{self, Poll},
    time::Duration,
};

use actix::{Actor, ActorFuture, AsyncContext, Context, SpawnHandle, fut};
use futures_util::{
    future::{AbortHandle, FutureExt, LocalBoxFuture, abortable},
    stream::{FuturesUnordered, StreamExt},
};

/// What is done then; none if it was cancelled.
type Then<A> = Option<Box<dyn FnOnce(&mut A, &mut Context<A>)>>;

/// What one actor waits for. Clones are one; all of it ends with the actor.
pub(crate) struct Continuations<A: Actor<Context = Context<A>>>(Rc<Shared<A>>);

struct Shared<A: Actor<Context = Context<A>>> {
    waiting: RefCell<FuturesUnordered<LocalBoxFuture<'static, Then<A>>>>,
    /// What they are spawned as, if they are: else the next one has to be.
    spawned: Cell<Option<SpawnHandle>>,
}

/// A timer that was set. Nothing happens to it when this is dropped.
#[derive(Debug)]
pub(crate) struct Timer(AbortHandle);

impl Timer {
    pub(crate) fn cancel(self) {
        self.0.abort();
    }
}

impl<A: Actor<Context = Context<A>>> Continuations<A> {
    /// Goes on with what a future comes to.
    pub(crate) fn after<F: Future + 'static>(
        &self,
        future: F,
        ctx: &mut Context<A>,
        then: impl FnOnce(&mut A, F::Output, &mut Context<A>) + 'static,
    ) {
        let next = future
            .map(|output| -> Then<A> { Some(Box::new(|actor, ctx| then(actor, output, ctx))) });
        self.add(next.boxed_local(), ctx);
    }

    /// Goes on after a pause, unless the timer is cancelled before.
    pub(crate) fn later(
        &self,
        pause: Duration,
        ctx: &mut Context<A>,
        then: impl FnOnce(&mut A, &mut Context<A>) + 'static,
    ) -> Timer {
        let (over, timer) = abortable(tokio::time::sleep(pause));
        let next = over.map(|over| -> Then<A> {
            over.ok()?;
            Some(Box::new(then))
        });
        self.add(next.boxed_local(), ctx);
        Timer(timer)
    }

    fn add(&self, next: LocalBoxFuture<'static, Then<A>>, ctx: &mut Context<A>) {
        // Nothing that is polled adds anything: that is done when its end is known.
        self.0.waiting.borrow().push(next);
        let Some(spawned) = self.0.spawned.get() else {
            self.0.spawned.set(Some(ctx.spawn(self.clone())));
            return;
        };
        // What else the actor has spawned adds this, and these may have been polled before it: all are polled once more when
        // something new is spawned. Messages are handled before any of them.
        let adding = ctx.handle();
        if adding != spawned && adding != SpawnHandle::default() {
            ctx.spawn(fut::ready(()));
        }
    }
}

impl<A: Actor<Context = Context<A>>> ActorFuture<A> for Continuations<A> {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        ctx: &mut Context<A>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        loop {
            let next = self.0.waiting.borrow_mut().poll_next_unpin(task);
            match next {
                Poll::Ready(Some(then)) => {
                    if let Some(then) = then {
                        then(actor, ctx);
                    }
                }
                Poll::Ready(None) => {
                    self.0.spawned.set(None);
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<A: Actor<Context = Context<A>>> Clone for Continuations<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Actor<Context = Context<A>>> Default for Continuations<A> {
    fn default() -> Self {
        Self(Rc::new(Shared { waiting: RefCell::default(), spawned: Cell::default() }))
    }
}

#[cfg(test)]
mod tests {
    use actix::{Handler, Message, MessageResult};
    use futures_util::future;

    use super::*;

    #[derive(Default)]
    struct Patient {
        continuations: Continuations<Self>,
        polls: Rc<Cell<usize>>,
        heard: Vec<&'static str>,
    }

    impl Actor for Patient {
        type Context = Context<Self>;
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Begin;

    /// What was heard, and how often the future was polled that does not end.
    #[derive(Message)]
    #[rtype(result = "(Vec<&'static str>, usize)")]
    struct Heard;

    impl Handler<Begin> for Patient {
        type Result = ();

        fn handle(&mut self, Begin: Begin, ctx: &mut Self::Context) {
            ctx.run_later(Duration::from_secs(7), |patient, ctx| {
                let heard = future::ready("of a timer");
                let push =
                    |patient: &mut Self, heard, _: &mut Context<Self>| patient.heard.push(heard);
                patient.continuations.after(heard, ctx, push);
            });
            let polls = self.polls.clone();
            let endless = future::poll_fn(move |_| {
                polls.set(polls.get() + 1);
                Poll::<()>::Pending
            });
            let later = self.continuations.clone();
            self.continuations.after(endless, ctx, |_, (), _| {});
            self.continuations.after(future::ready("at once"), ctx, move |patient, heard, ctx| {
                patient.heard.push(heard);
                let next = |patient: &mut Self, _: &mut Context<Self>| patient.heard.push("later");
                later.later(Duration::from_secs(5), ctx, next);
                let never = |patient: &mut Self, _: &mut Context<Self>| patient.heard.push("never");
                later.later(Duration::from_secs(1), ctx, never).cancel();
            });
        }
    }

    impl Handler<Heard> for Patient {
        type Result = MessageResult<Heard>;

        fn handle(&mut self, Heard: Heard, _: &mut Self::Context) -> Self::Result {
            MessageResult((self.heard.clone(), self.polls.get()))
        }
    }

    #[actix::test]
    async fn what_is_not_woken_is_not_polled() {
        tokio::time::pause();
        let patient = Patient::default().start();
        patient.send(Begin).await.unwrap();
        for _ in 0..100 {
            patient.send(Heard).await.unwrap();
        }
        let first = patient.send(Heard).await.unwrap();
        tokio::time::sleep(Duration::from_secs(9)).await;

        assert_eq!(first, (vec!["at once"], 1));
        let heard = vec!["at once", "later", "of a timer"];
        assert_eq!(patient.send(Heard).await.unwrap(), (heard, 1));
    }
}
