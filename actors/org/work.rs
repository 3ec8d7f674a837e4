//! Port to the queue: what the organisation and its tools ask of it. The one place that knows how.
#![warn(missing_docs)]

use actix::Addr;
use futures_util::future::BoxFuture;

use super::record::TeamState;
use crate::{
    ids::{TaskId, TeamName},
    queue::{
        Dismiss, Queue, Told,
        completion::{AwaitCompletion, CancelTeam},
        parking::{SetState, UnparkAll},
        refusal::Refusal,
        submit::{CancelTask, OpenTask, OpenTasks, Submission, Submit},
    },
    task::{Lane, WaitReason, outcome::Outcome, records::LaneKey},
};

/// The queue, as the organisation sees it.
pub trait Work: Send + Sync + 'static {
    /// Stores a task, unless something speaks against it. Answered when it is durable.
    fn submit(&self, submit: Submit) -> BoxFuture<'static, Result<Submission, Refusal>>;

    /// Waits for the end of a task. A turn that waits lends its slot meanwhile.
    fn wait(&self, task: TaskId, waiter: Option<Lane>) -> BoxFuture<'static, Option<Outcome>>;

    /// Ends a task. Answers whether it was open.
    fn cancel(&self, task: TaskId, reason: String) -> BoxFuture<'static, bool>;

    /// The same, without waiting for an answer.
    fn cancel_soon(&self, task: TaskId, reason: String);

    /// Ends all work of a team. Answers how much that was, once all of it has ended.
    fn cancel_team(&self, team: TeamName, reason: String) -> BoxFuture<'static, usize>;

    /// Tasks without an end: of a team, or of all.
    fn open(&self, team: Option<TeamName>) -> BoxFuture<'static, Vec<OpenTask>>;

    /// Whether a team starts turns and takes work.
    fn set_state(&self, team: &TeamName, state: TeamState);

    /// Stops all that runs for a team, at once. Its tasks wait again.
    fn dismiss(&self, team: &TeamName);

    /// What a team waits for may be there now: its tasks try again.
    fn retry(&self, team: &TeamName);

    /// Something was put into a lane's inbox.
    fn told(&self, lane: Lane, generation: u32);
}

impl Work for Addr<Queue> {
    fn submit(&self, submit: Submit) -> BoxFuture<'static, Result<Submission, Refusal>> {
        let asked = self.send(submit);
        Box::pin(async move { asked.await.unwrap_or(Err(Refusal::Stopping)) })
    }

    fn wait(&self, task: TaskId, waiter: Option<Lane>) -> BoxFuture<'static, Option<Outcome>> {
        let asked = self.send(AwaitCompletion { task, waiter });
        Box::pin(async move { asked.await.ok().flatten() })
    }

    fn cancel(&self, task: TaskId, reason: String) -> BoxFuture<'static, bool> {
        let asked = self.send(CancelTask { task, reason });
        Box::pin(async move { asked.await.unwrap_or(false) })
    }

    fn cancel_soon(&self, task: TaskId, reason: String) {
        self.do_send(CancelTask { task, reason });
    }

    fn cancel_team(&self, team: TeamName, reason: String) -> BoxFuture<'static, usize> {
        let asked = self.send(CancelTeam { team, reason });
        Box::pin(async move { asked.await.unwrap_or(0) })
    }

    fn open(&self, team: Option<TeamName>) -> BoxFuture<'static, Vec<OpenTask>> {
        let asked = self.send(OpenTasks { team });
        Box::pin(async move { asked.await.unwrap_or_default() })
    }

    fn set_state(&self, team: &TeamName, state: TeamState) {
        self.do_send(SetState {
            team: team.clone(),
            paused: state == TeamState::Paused,
            draining: state == TeamState::Draining,
        });
    }

    fn dismiss(&self, team: &TeamName) {
        self.do_send(Dismiss { team: team.clone() });
    }

    fn retry(&self, team: &TeamName) {
        for reason in
            [WaitReason::Login, WaitReason::RateLimit, WaitReason::ProviderDown, WaitReason::Config]
        {
            self.do_send(UnparkAll { reason, team: Some(team.clone()) });
        }
    }

    fn told(&self, lane: Lane, generation: u32) {
        self.do_send(Told(LaneKey { lane, generation }));
    }
}
