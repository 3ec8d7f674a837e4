//! Retention: once a day, what nobody needs any more is removed, a slice at a time.

use std::{sync::Arc, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use serde::{Deserialize, Serialize};

use super::Scheduler;
use crate::{
    clock::Timestamp,
    storage::{Storage, StorageError},
    store::{StoreError, StoreHandle, reads::get_readable, records::Writes},
};

mod journals;
pub mod keeping;
pub mod pass;
#[cfg(test)]
mod tests;

use keeping::Keeping;
use pass::{Pass, Removed};

/// The minute of the day at which it is done, by the clock of the settings' zone: 04:10, when the
/// nightly cycles of teams are over.
const MINUTE_OF_DAY: u32 = 4 * 60 + 10;
/// A timer is never longer: a clock that was set must not delay it by more.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);
/// A process that begins does more urgent things first.
const AFTER_START: Duration = Duration::from_secs(60);
/// A slice looks at records for no longer than this.
const SLICE: Duration = Duration::from_millis(25);
/// Between two slices everybody else has the store for themselves.
const PAUSE: Duration = Duration::from_millis(75);
/// What a team left behind when it was shut down is kept this long.
const TRASH: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The last time that it was done to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// When it was begun.
    pub at: Timestamp,
    /// What it removed.
    pub removed: Removed,
}

crate::records! {
    Done: "edge\0retention", String;
}

/// The key of the one row.
const DONE: &str = "done";

/// When it was last done, if ever.
pub fn last(storage: &dyn Storage) -> Result<Option<Done>, StorageError> {
    get_readable(storage, DONE)
}

/// Why it was broken off. What was removed so far stays removed, and the rest waits for the next time.
#[derive(Debug, thiserror::Error)]
enum BrokenOff {
    #[error("how long things are kept is not known: {0}")]
    Settings(String),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Scheduler {
    /// When it is due first: soon, if the last time fell into a pause of the service.
    pub(super) fn first_retention(&self, last: Option<Timestamp>) -> Timestamp {
        let now = self.now();
        match last.map(|last| self.retention_after(last)) {
            Some(due) if due > now => due,
            Some(_) => now + AFTER_START,
            None => self.retention_after(now).min(now + LONGEST_SLEEP),
        }
    }

    fn retention_after(&self, at: Timestamp) -> Timestamp {
        let ports = &self.to.ports;
        let next = ports.calendar.next_minute_of_day(MINUTE_OF_DAY, &ports.timezone, at);
        next.unwrap_or(at + Duration::from_secs(24 * 60 * 60))
    }

    /// Sets the timer for the next time.
    pub(super) fn await_retention(&mut self, due: Timestamp, ctx: &mut Context<Self>) {
        let pause = due.since(self.now()).min(LONGEST_SLEEP);
        ctx.run_later(pause, move |scheduler, ctx| {
            if scheduler.now() < due {
                scheduler.await_retention(due, ctx)
            } else {
                scheduler.retain(ctx)
            };
        });
    }

    fn retain(&mut self, ctx: &mut Context<Self>) {
        if self.draining {
            return;
        }
        let now = self.now();
        let keeping = self.to.ports.retention.clone();
        // On a task of its own: a panic in there costs one night's work, not the scheduler.
        let work = actix::spawn(retain(self.to.store.clone(), keeping, now));
        self.retaining = Some(work.abort_handle());
        ctx.spawn(work.into_actor(self).map(move |ended, scheduler, ctx| {
            scheduler.retaining = None;
            match ended {
                Ok(Ok(removed)) => tracing::info!(?removed, "old records are removed"),
                Ok(Err(error)) => tracing::warn!(%error, "old records are not all removed"),
                Err(error) => tracing::error!(%error, "removing old records failed unexpectedly"),
            }
            let next = scheduler.retention_after(scheduler.now());
            scheduler.await_retention(next, ctx);
        }));
    }
}

/// Removes what is old, from the first record to the last.
async fn retain(
    store: StoreHandle,
    keeping: Arc<dyn Keeping>,
    now: Timestamp,
) -> Result<Removed, BrokenOff> {
    let (terms, edges) = (keeping.clone(), keeping.clone());
    let terms = store.read(move |_| Ok(terms.terms())).await?;
    let terms = terms.map_err(BrokenOff::Settings)?;
    let mut pass = Pass::new(edges, terms, now);
    loop {
        let (walked, slice) = store
            .read(move |storage| {
                let began = std::time::Instant::now();
                let slice = pass.slice(storage, &mut || began.elapsed() >= SLICE)?;
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
        tokio::time::sleep(PAUSE).await;
    }
    let emptied = store.read(move |_| {
        keeping.empty_trash(now - TRASH);
        Ok(())
    });
    emptied.await?;
    let done = Done { at: now, removed: pass.removed() };
    store.commit(Writes::new().put_at(&DONE.to_owned(), &done)).await?;
    Ok(done.removed)
}
