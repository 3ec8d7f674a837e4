//! Sweeping: reasons to fire that need not be remembered any longer.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Scheduler, records::Known};
use crate::{
    repeats::is_known,
    store::records::{Keyed, Writes},
};

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
            .filter(|(_, (_, at))| !is_known(*at, now))
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
        let may_be_more = old.len() >= MOST;
        let dropped = self.keep(
            old.iter().fold(Writes::new(), |writes, known| writes.delete::<Known>(&known.key())),
        );
        ctx.spawn(dropped.into_actor(self).map(move |dropped, scheduler, ctx| {
            if may_be_more && dropped.is_ok() {
                scheduler.sweep(ctx);
            }
        }));
    }
}
