//! Retention: once a day, what nobody needs any more is removed, a slice at a time; what somebody deleted, at once.

use std::{sync::Arc, time::Duration};

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture,
    WrapFuture,
};
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

use crate::{
    clock::{Clock, Timestamp},
    scheduler::{
        alarm::{Drain, SetZone},
        ports::Calendar,
    },
    storage::{Storage, StorageError},
    store::{StoreHandle, reads::get_readable, records::Writes},
};

mod erasure;
mod journals;
pub mod pass;
mod runs;
pub mod slice;
mod tasks;
pub mod terms;
#[cfg(test)]
mod tests;
mod walk;

use pass::{BrokenOff, Pass, Removed};
use terms::Keeping;

/// The minute of the day at which it is done, by the clock of the settings' zone: 04:10, when the
/// nightly cycles of teams are over.
const MINUTE_OF_DAY: u32 = 4 * 60 + 10;
/// A timer is never longer: a clock that was set must not delay it by more.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);
/// A process that begins does more urgent things first.
const START_DELAY: Duration = Duration::from_secs(60);
/// A slice looks at records for no longer than this.
const SLICE_TIME: Duration = Duration::from_millis(25);
/// Between two slices everybody else has the store for themselves.
const SLICE_PAUSE: Duration = Duration::from_millis(75);
/// What a team left behind when it was shut down is kept this long.
const TRASH_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// So often all tasks and journals are looked at: a journal that was brought back from its transcript may have no task to go
/// with.
const WHOLE_PASS_INTERVAL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The last time that it was done to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) at: Timestamp,
    removed: Removed,
}

crate::records! {
    Done: "edge\0retention", String;
}

/// The key of that row …
const DONE: &str = "done";
/// … and of that of the last time that all tasks and journals were looked at. It is there while no pass is under way or was
/// broken off and nothing was [taken over](look_at_all) since, and not in stores of former versions.
const WHOLE: &str = "whole";

/// Has the next pass look at all tasks and journals: for journals that are written without a task to go with.
pub fn look_at_all() -> Writes {
    Writes::new().delete::<Done>(WHOLE)
}

/// When it was last done, if ever.
pub(crate) fn last(storage: &dyn Storage) -> Result<Option<Done>, StorageError> {
    get_readable(storage, DONE)
}

/// Removes what is left of topics that were deleted. Answered when nothing is; what cannot be removed now is tried again
/// after the next start, and each night.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), BrokenOff>")]
pub struct EraseDeleted;

/// Sleeps until it is time, and removes what is old.
pub struct Retention {
    pub(crate) store: StoreHandle,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) calendar: Arc<dyn Calendar>,
    pub(crate) timezone: String,
    pub(crate) keeping: Arc<dyn Keeping>,
    /// When it was last done.
    pub(crate) last: Option<Timestamp>,
    /// What is under way.
    pub(crate) running: Option<AbortHandle>,
}

impl Retention {
    /// When it is due first: soon, if the last time fell into a pause of the service.
    fn first(&self) -> Timestamp {
        let now = self.clock.now();
        match self.last.map(|last| self.next(last)) {
            Some(due) if due > now => due,
            Some(_) => now + START_DELAY,
            None => self.next(now).min(now + LONGEST_SLEEP),
        }
    }

    fn next(&self, after: Timestamp) -> Timestamp {
        let next = self.calendar.next_minute_of_day(MINUTE_OF_DAY, &self.timezone, after);
        next.unwrap_or(after + Duration::from_secs(24 * 60 * 60))
    }

    fn sleep_until(&mut self, due: Timestamp, ctx: &mut Context<Self>) {
        ctx.run_later(due.since(self.clock.now()).min(LONGEST_SLEEP), move |retention, ctx| {
            if retention.clock.now() < due {
                retention.sleep_until(due, ctx);
            } else {
                retention.begin(ctx);
            }
        });
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        // On a task of its own: a panic in there costs one night's work, not this actor.
        let now = self.clock.now();
        let work = crate::spawn::local(retain(self.store.clone(), self.keeping.clone(), now));
        self.running = Some(work.abort_handle());
        ctx.spawn(work.into_actor(self).map(move |ended, retention, ctx| {
            retention.running = None;
            match ended {
                Ok(Ok(removed)) => tracing::info!(?removed, "old records are removed"),
                Ok(Err(error)) => tracing::warn!(%error, "old records are not all removed; the next run tries again"),
                Err(error) => tracing::error!(%error, "removing old records failed unexpectedly"),
            }
            retention.sleep_until(retention.next(retention.clock.now()), ctx);
        }));
    }
}

impl Actor for Retention {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.sleep_until(self.first(), ctx);
        // A former process may not have come to the end of it.
        ctx.notify(EraseDeleted);
    }
}

impl Handler<EraseDeleted> for Retention {
    type Result = ResponseFuture<Result<(), BrokenOff>>;

    fn handle(&mut self, EraseDeleted: EraseDeleted, _: &mut Self::Context) -> Self::Result {
        Box::pin(erasure::erase_all(self.store.clone(), self.keeping.clone()))
    }
}

impl Handler<Drain> for Retention {
    type Result = ();

    /// What is under way is broken off.
    fn handle(&mut self, Drain: Drain, ctx: &mut Self::Context) {
        if let Some(work) = self.running.take() {
            work.abort();
        }
        ctx.stop();
    }
}

impl Handler<SetZone> for Retention {
    type Result = ();

    fn handle(&mut self, SetZone { timezone }: SetZone, _: &mut Self::Context) {
        self.timezone = timezone;
    }
}

/// Removes what is old.
async fn retain(
    store: StoreHandle,
    keeping: Arc<dyn Keeping>,
    now: Timestamp,
) -> Result<Removed, BrokenOff> {
    // Of what stays there the operator was told; it keeps nothing else.
    let erased = erasure::erase_all(store.clone(), keeping.clone()).await;
    let settings = keeping.clone();
    let terms = store.read(move |_| Ok(settings.terms())).await?.map_err(BrokenOff::Settings)?;
    let whole = store.read(|storage| get_readable::<Done>(storage, WHOLE)).await?;
    if whole.is_some() {
        // Tasks go before their journals, of which nothing tells if this is broken off in between.
        store.commit(look_at_all()).await?;
    }
    let whole = whole.filter(|whole| now.since(whole.at) < WHOLE_PASS_INTERVAL);
    let mut pass = match whole {
        Some(_) => Pass::new(keeping.clone(), terms, now),
        None => Pass::whole(keeping.clone(), terms, now),
    };
    loop {
        let (walked, slice) = store
            .read(move |storage| {
                let began = std::time::Instant::now();
                let slice = pass.slice(storage, &mut || began.elapsed() >= SLICE_TIME)?;
                Ok((pass, slice))
            })
            .await?;
        pass = walked;
        if !slice.writes.is_empty() {
            store.commit(slice.writes).await?;
        }
        if slice.last {
            break;
        }
        tokio::time::sleep(SLICE_PAUSE).await;
    }
    let emptied = store.read(move |_| {
        keeping.empty_trash(now - TRASH_KEPT);
        Ok(())
    });
    emptied.await?;
    let done = Done { at: now, removed: pass.removed() };
    let writes = Writes::new().put_at(&DONE.to_owned(), &done);
    store.commit(writes.put_at(&WHOLE.to_owned(), &whole.unwrap_or(done))).await?;
    erased.map(|()| done.removed)
}
