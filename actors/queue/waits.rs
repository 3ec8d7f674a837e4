//! Waits: turns and requests that wait for the end of a task.

use std::collections::{HashMap, VecDeque};

use actix::{Context, Handler, Message, ResponseFuture};
use tokio::sync::oneshot;

use super::Queue;
use crate::{
    ids::{TaskId, TeamName},
    task::{Lane, outcome::Outcome, records as tasks},
};

/// Waits for the end of a task. Nothing is answered if there is no such task.
///
/// The turn that waits lends its slot to others meanwhile.
#[derive(Debug, Message)]
#[rtype(result = "Option<Outcome>")]
pub struct Wait {
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

#[derive(Debug, Default)]
pub(super) struct Waits {
    for_task: HashMap<TaskId, Vec<Waiter>>,
    for_team: Vec<(TeamName, usize, oneshot::Sender<usize>)>,
    /// Turns that could go on and have no slot yet: they come before new ones.
    returning: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    lane: Option<Lane>,
    tell: oneshot::Sender<()>,
}

impl Queue {
    /// Those who waited for a task hear that it has ended.
    pub(super) fn tell_waiters(&mut self, task: &TaskId, team: &TeamName) {
        if let Some(waiters) = self.waits.for_task.remove(task) {
            self.waits.returning.extend(waiters);
            self.give_slots_back();
        }
        if self.waits.for_team.iter().any(|(of, ..)| of == team)
            && self.tasks.of_team(team).next().is_none()
        {
            for (_, count, tell) in self.waits.for_team.extract_if(.., |(of, ..)| of == team) {
                let _ = tell.send(count);
            }
        }
    }

    /// Turns that waited go on, before others begin, as far as there are slots.
    pub(super) fn give_slots_back(&mut self) {
        for waiter in std::mem::take(&mut self.waits.returning) {
            // Someone outside needs no slot, and is not held up by turns that do.
            if let Some(lane) = &waiter.lane
                && !self.schedule.reclaim(lane)
            {
                self.waits.returning.push_back(waiter);
                continue;
            }
            // Whoever waited may have been stopped meanwhile.
            let _ = waiter.tell.send(());
        }
    }
}

impl Handler<Wait> for Queue {
    type Result = ResponseFuture<Option<Outcome>>;

    fn handle(&mut self, Wait { task, waiter }: Wait, ctx: &mut Context<Self>) -> Self::Result {
        let ended = self.tasks.contains(&task).then(|| {
            if let Some(lane) = &waiter {
                self.schedule.lend(lane);
            }
            let (tell, ended) = oneshot::channel();
            let waiter = Waiter { lane: waiter, tell };
            self.waits.for_task.entry(task.clone()).or_default().push(waiter);
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
        self.waits.for_team.push((team, count, tell));
        Box::pin(async move { ended.await.unwrap_or(count) })
    }
}
