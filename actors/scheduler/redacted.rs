//! Redaction of triggers: values in their words have become secrets, and the store holds them no more.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use futures_util::stream;

use super::{Scheduler, trigger::Trigger};
use crate::store::{
    reads::{Range, scan},
    records::Writes,
};

/// Records were redacted: what is known of triggers here may still hold what was taken out of theirs.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Redacted;

impl Trigger {
    /// Says what its record says.
    fn reword(&mut self, stored: Self) {
        self.definition = stored.definition;
        self.cursors = stored.cursors;
        self.disabled_reason = stored.disabled_reason;
        self.held = stored.held;
        self.quieted = stored.quieted;
    }
}

impl Scheduler {
    /// Reads again what it knows whenever records were redacted, and now if that was after it had been read.
    pub(super) fn follow_redactions(&self, ctx: &mut Context<Self>) {
        let mut redactions = self.to.store.watch_redactions();
        if *redactions.borrow_and_update() > 0 {
            ctx.notify(Redacted);
        }
        ctx.add_message_stream(stream::unfold(redactions, |mut redactions| async move {
            redactions.changed().await.ok()?;
            Some((Redacted, redactions))
        }));
    }

    /// Takes over the words of a trigger, unless it is another one than it was when its record was read.
    fn reword(&mut self, stored: Trigger, before: Option<&Trigger>) -> bool {
        let id = stored.id.clone();
        let Some(trigger) = self.triggers.get_mut(&id) else { return true };
        if Some(&*trigger) != before {
            return false;
        }
        trigger.reword(stored);
        self.message_triggers.attend(trigger, &*self.to.ports.expressions);
        self.to.ports.board.post(trigger, self.last.get(&id));
        true
    }
}

impl Handler<Redacted> for Scheduler {
    type Result = ();

    fn handle(&mut self, Redacted: Redacted, ctx: &mut Context<Self>) {
        let before = self.triggers.clone();
        // What was handed in before is in the records that are read.
        let (written, store) = (self.keep(Writes::new()), self.to.store.clone());
        let read = async move {
            written.await.ok()?;
            store.read(|storage| scan::<Trigger>(storage, Range::all())).await.ok()
        };
        ctx.spawn(read.into_actor(self).map(move |stored, scheduler, ctx| {
            let mut is_done = true;
            for stored in stored.into_iter().flatten() {
                let before = before.get(&stored.id);
                is_done &= scheduler.reword(stored, before);
            }
            // An expression without a part of it may be none any more.
            scheduler.revalidate();
            if !is_done {
                ctx.notify(Redacted);
            }
        }));
    }
}
