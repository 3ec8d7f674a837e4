//! Shutdown of teams: the deepest go first. Each step is durable, so that a restart goes on with it.

use actix::{
    ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture,
};
use tokio::sync::oneshot;

use super::{
    Org, OrgError, Parts, Removed, Shutdown,
    record::{Closing, TeamRecord, TeamState},
};
use crate::{
    ids::TeamName,
    store::{Numbered, StoreError, records::Writes},
    task::records::TeamError,
    tool::records::Answer,
};

/// A step is durable.
#[derive(Message)]
#[rtype(result = "()")]
struct Stepped {
    record: TeamRecord,
}

impl Org {
    /// Goes on with what a former process had begun.
    pub(super) fn go_on_closing(&mut self, ctx: &mut Context<Self>) {
        let draining: Vec<TeamRecord> =
            self.tree.iter().filter(|team| team.state == TeamState::Draining).cloned().collect();
        for team in draining {
            self.parts.work.set_state(&team.name, TeamState::Draining);
            let top = team.closing.map_or(team.name, |closing| closing.top);
            self.close(&top, self.parts.store.commit(Writes::new()), ctx);
        }
    }

    /// Sees to it that a team and all below it go, once it is durable that they are to. Harmless if
    /// that is under way.
    fn close(
        &mut self,
        top: &TeamName,
        begun: impl Future<Output = Result<Vec<Numbered>, StoreError>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        if self.closing.contains_key(top) {
            return;
        }
        let going: Vec<TeamRecord> = {
            let mut going: Vec<_> = self.tree.subtree(top.as_str());
            going.reverse();
            going.into_iter().cloned().collect()
        };
        self.closing.insert(top.clone(), Vec::new());
        let job = Job { parts: self.parts.clone(), org: ctx.address() };
        let settled = self.is_settled();
        let closed = crate::spawn::local(async move {
            settled.await;
            begun.await.map_err(|_| OrgError::Stopping)?;
            job.run(going).await
        });
        let top = top.clone();
        ctx.spawn(closed.into_actor(self).map(move |joined, org, _| {
            let result = joined.unwrap_or(Err(OrgError::Stopping));
            if let Err(error) = &result {
                tracing::error!(team = %top, %error, "the shutdown stopped halfway; repeat it, or restart the service");
            }
            for waiter in org.closing.remove(&top).into_iter().flatten() {
                // Whoever asked may have gone.
                let _gone = waiter.send(result.clone());
            }
        }));
    }

    fn begin_shutdown(&mut self, shutdown: &Shutdown) -> Result<Option<Vec<TeamRecord>>, OrgError> {
        let going = self.tree.check_shutdown(&shutdown.by, &shutdown.name, shutdown.cascade)?;
        let in_the_way = |team: &TeamRecord| self.making.values().any(|above| *above == team.name);
        if let Some(team) = going.iter().find(|team| in_the_way(team)) {
            return Err(OrgError::Busy(team.name.clone()));
        }
        if going.last().is_some_and(|team| team.state == TeamState::Draining) {
            return Ok(None);
        }
        // One below it that is going by itself has a caller of its own, who is to hear of its end.
        let goes_alone = |team: &TeamRecord| {
            let closing = team.closing.as_ref();
            closing.is_some_and(|closing| self.closing.contains_key(&closing.top))
        };
        if let Some(team) = going.iter().find(|team| goes_alone(team)) {
            return Err(OrgError::Busy(team.name.clone()));
        }
        let drained = going.into_iter().map(|team| TeamRecord {
            closing: Some(Closing {
                top: shutdown.name.clone(),
                call: shutdown.call.clone().filter(|_| team.name == shutdown.name),
                removed: Vec::new(),
                cancelled: 0,
            }),
            state: TeamState::Draining,
            ..team
        });
        Ok(Some(drained.collect()))
    }
}

/// A shutdown at work, on a task of its own.
struct Job {
    parts: Parts,
    org: Addr<Org>,
}

impl Job {
    async fn run(self, going: Vec<TeamRecord>) -> Result<Removed, OrgError> {
        let Some(mut top) = going.last().cloned() else { return Ok(Removed::default()) };
        let mut done = Removed::default();
        for team in going {
            let closing = top.closing.get_or_insert_with(|| Closing {
                top: top.name.clone(),
                call: None,
                removed: Vec::new(),
                cancelled: 0,
            });
            let (cancelled, trash) = self.clear(&team).await?;
            closing.cancelled += cancelled;
            closing.removed.push(team.name.clone());
            done = Removed {
                removed: closing.removed.clone(),
                cancelled_tasks: closing.cancelled,
                trash,
            };
            let is_top = team.name == top.name;
            let mut writes = Writes::new();
            let gone = TeamRecord { state: TeamState::Removed, closing: None, ..team };
            writes = writes.put(&gone).delete::<TeamError>(&gone.key());
            if !is_top {
                writes = writes.put(&top);
            } else if let Some(call) = &closing.call {
                writes = writes.put_at(call, &Answer(&done));
            }
            self.parts.store.commit(writes).await.map_err(|_| OrgError::Stopping)?;
            tracing::info!(team = %gone.name, "team shut down");
            // Its name is free again, also for the queue.
            self.parts.work.set_state(&gone.name, TeamState::Active);
            self.org.do_send(Stepped { record: gone });
            if !is_top {
                self.org.do_send(Stepped { record: top.clone() });
            }
        }
        Ok(done)
    }

    /// Ends the work of a team, and takes away what it had. May be repeated.
    async fn clear(&self, team: &TeamRecord) -> Result<(u64, Option<String>), OrgError> {
        let key = team.key();
        let reason = format!("team `{}` was shut down", team.name);
        let cancelled = self.parts.work.cancel_team(team.name.clone(), reason).await;
        self.parts.work.dismiss(&team.name);
        for belonging in self.parts.belongings.iter() {
            for writes in belonging.forget(&key).await {
                self.parts.store.commit(writes).await.map_err(|_| OrgError::Stopping)?;
            }
        }
        let trash =
            self.parts.folders.bury(key, self.parts.clock.now()).await.map_err(|error| {
                OrgError::Folder(format!("the folder of `{}` stays: {error}", team.name))
            })?;
        Ok((u64::try_from(cancelled).unwrap_or(u64::MAX), trash))
    }
}

impl Handler<Stepped> for Org {
    type Result = ();

    fn handle(&mut self, Stepped { record }: Stepped, _: &mut Self::Context) {
        self.put(record);
    }
}

impl Handler<Shutdown> for Org {
    type Result = ResponseFuture<Result<Removed, OrgError>>;

    fn handle(&mut self, shutdown: Shutdown, ctx: &mut Self::Context) -> Self::Result {
        let drained = match self.begin_shutdown(&shutdown) {
            Ok(drained) => drained,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let mut top = shutdown.name;
        let mut writes = Writes::new();
        match drained {
            Some(drained) => {
                for team in drained {
                    writes = writes.put(&team);
                    self.parts.work.set_state(&team.name, TeamState::Draining);
                    self.put(team);
                }
            }
            // It is going already, maybe along with one above it.
            None => {
                let closing = self.tree.get(top.as_str());
                if let Some(closing) = closing.and_then(|team| team.closing.as_ref()) {
                    top = closing.top.clone();
                }
            }
        }
        self.close(&top, self.parts.store.commit(writes), ctx);
        let (tell, told) = oneshot::channel();
        if let Some(waiters) = self.closing.get_mut(&top) {
            waiters.push(tell);
        }
        Box::pin(async move { told.await.unwrap_or(Err(OrgError::Stopping)) })
    }
}
