//! Sweeping: runs and reasons that need not be kept any longer.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Scheduler,
    records::{self, Known, REMEMBERED, TriggerRows},
};
use crate::store::records::Writes;

/// How often it is swept.
pub(super) const EVERY: Duration = Duration::from_secs(60 * 60);
/// Rows that are removed at a time, so that others come in between.
const MOST: usize = 1_000;

impl Scheduler {
    pub(super) fn sweep(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let old: Vec<Known> = self
            .known
            .iter()
            .filter(|(_, (_, at))| *at + REMEMBERED < now)
            .take(MOST)
            .map(|((trigger, key), (run, at))| Known {
                trigger: trigger.clone(),
                key: key.clone(),
                run: run.clone(),
                at: *at,
            })
            .collect();
        for known in &old {
            let key = (known.trigger.clone(), known.key.clone());
            self.known.remove(&key);
        }
        self.keep_quietly(Writes::new().forget_known(&old));
        let before = now - self.to.ports.retention;
        let store = self.to.store.clone();
        let read = async move {
            store
                .read(move |storage| records::old_runs(storage, before, MOST))
                .await
        };
        ctx.spawn(
            read.into_actor(self)
                .map(move |keys, scheduler, ctx| match keys {
                    Ok(keys) => {
                        let may_be_more = old.len() >= MOST || keys.len() >= MOST;
                        let dropped = scheduler.keep(Writes::new().drop_keys(keys));
                        let next = dropped.into_actor(scheduler);
                        ctx.spawn(next.map(move |dropped, scheduler, ctx| {
                            if may_be_more && dropped.is_ok() {
                                scheduler.sweep(ctx);
                            }
                        }));
                    }
                    Err(error) => tracing::warn!(%error, "old runs cannot be read"),
                }),
        );
    }
}
