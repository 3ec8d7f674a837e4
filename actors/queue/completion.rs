//! Completion: turns and requests that wait until a task, or all work of a team, has ended.

use actix::{Context, Handler, Message, ResponseFuture};
use tokio::sync::oneshot;

use super::{Queue, Waiter};
use crate::{
    ids::{TaskId, TeamName},
    task::{Lane, outcome::Outcome, records as tasks},
};

/// Waits for the end of a task. Nothing is answered if there is no such task.
///
/// The turn that waits lends its slot to others meanwhile.
#[derive(Debug, Message)]
#[rtype(result = "Option<Outcome>")]
pub struct AwaitCompletion {
    pub task: TaskId,
    /// The lane whose turn waits; none is someone outside.
    pub waiter: Option<Lane>,
}

/// Ends all work of a team. Answers how many tasks that were, once the last has its end.
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub(crate) struct CancelTeam {
    pub(crate) team: TeamName,
    pub(crate) reason: String,
}

impl Queue {
    /// Those who waited for a task hear that it has ended.
    pub(super) fn tell_waiters(&mut self, task: &TaskId, team: &TeamName) {
        if let Some(waiters) = self.waiters.remove(task) {
            self.returning.extend(waiters);
            self.give_slots_back();
        }
        if self.team_waiters.iter().any(|(of, ..)| of == team)
            && self.tasks.of_team(team).next().is_none()
        {
            for (_, count, tell) in self.team_waiters.extract_if(.., |(of, ..)| of == team) {
                let _ = tell.send(count);
            }
        }
    }

    /// Turns that waited go on, before others begin, as far as there are slots.
    pub(super) fn give_slots_back(&mut self) {
        for waiter in std::mem::take(&mut self.returning) {
            // Someone outside needs no slot, and is not held up by turns that do.
            if let Some(lane) = &waiter.lane
                && !self.schedule.reclaim(lane)
            {
                self.returning.push_back(waiter);
                continue;
            }
            // Whoever waited may have been stopped meanwhile.
            let _ = waiter.tell.send(());
        }
    }
}

impl Handler<AwaitCompletion> for Queue {
    type Result = ResponseFuture<Option<Outcome>>;

    fn handle(
        &mut self,
        AwaitCompletion { task, waiter }: AwaitCompletion,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        let ended = self.tasks.contains(&task).then(|| {
            if let Some(lane) = &waiter {
                self.schedule.lend(lane);
            }
            let (tell, ended) = oneshot::channel();
            let waiter = Waiter { lane: waiter, tell };
            self.waiters.entry(task.clone()).or_default().push(waiter);
            ended
        });
        self.dispatch(ctx);
        let store = self.store.clone();
        Box::pin(async move {
            if let Some(ended) = ended {
                ended.await.ok()?;
            }
            let row = store.read(move |storage| tasks::find(storage, &task)).await;
            row.ok()??.outcome
        })
    }
}

impl Handler<CancelTeam> for Queue {
    type Result = ResponseFuture<usize>;

    fn handle(&mut self, message: CancelTeam, ctx: &mut Context<Self>) -> Self::Result {
        let CancelTeam { team, reason } = message;
        let open = self.tasks.ids_of_team(&team);
        for id in &open {
            self.cancel_task(id, &reason, ctx);
        }
        self.dispatch(ctx);
        let count = open.len();
        if self.tasks.of_team(&team).next().is_none() {
            return Box::pin(std::future::ready(count));
        }
        let (tell, ended) = oneshot::channel();
        self.team_waiters.push((team, count, tell));
        Box::pin(async move { ended.await.unwrap_or(count) })
    }
}
