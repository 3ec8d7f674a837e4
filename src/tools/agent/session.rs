//! The session of a subagent is a task of its team like any other, in a lane that only it has.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    ids::{TaskId, TopicId},
    journal,
    queue::{refusal::Refusal, submit::Submit},
    store::records::Writes,
    task::{
        Kind, Label, Lane, OnResult, Options, Priority, Source, Task,
        outcome::{Ending, Outcome},
        records as tasks,
    },
};

use super::{AgentFailure, AgentReply, AgentRunner, Order};
use crate::{system::sha256, teams::service::TeamService};

/// A call that is tried again after a crash begins so many sessions at most.
const SESSIONS: u32 = 3;

/// Runs sessions through the queue. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    pub team_service: TeamService,
    /// Set when the process is to end.
    pub draining: Arc<AtomicBool>,
}

impl AgentRunner for Sessions {
    fn run(&self, order: Order) -> BoxFuture<'static, Result<AgentReply, AgentFailure>> {
        let this = self.clone();
        Box::pin(async move { this.session(order).await })
    }
}

impl Sessions {
    async fn session(&self, order: Order) -> Result<AgentReply, AgentFailure> {
        let mut session = 1;
        if order.call.rerun {
            // What an earlier try began goes on, unless it was ended together with that try.
            for earlier in 1..=SESSIONS {
                let id = name(&order, earlier);
                session = earlier;
                match self.wait(&id, &order).await {
                    Some(outcome) if outcome.ending == Ending::Cancelled && earlier < SESSIONS => {}
                    Some(outcome) => return self.report(&id, outcome).await,
                    None => break,
                }
            }
        }
        let task = self.task(&order, session);
        let id = task.id.clone();
        let submit = Submit { task, writes: Writes::new(), overlap: None, giver: None };
        self.team_service.parts().work.submit(submit).await.map_err(|refusal| refused(&refusal))?;
        match self.wait(&id, &order).await {
            Some(outcome) => self.report(&id, outcome).await,
            None => Err(refused(&Refusal::Stopping)),
        }
    }

    fn task(&self, order: &Order, session: u32) -> Task {
        let caller = &order.call.caller;
        let lane = Lane {
            team: caller.team.name.clone(),
            topic: Some(TopicId::from(format!("agent:{}", order.call.key))),
        };
        let from = caller.team.name.to_string();
        let now = self.team_service.parts().clock.now();
        Task {
            generation: caller.team.generation,
            kind: Kind::Agent,
            // Its caller waits for it.
            priority: Priority::High,
            source: caller.source.as_ref().map(|source| Source { message: None, ..source.clone() }),
            on_result: OnResult::Silent,
            options: Options {
                subagent: Some(order.subagent.clone()),
                // What the caller must not do, it must not let another do.
                cycle: caller.cycle,
                ..Options::default()
            },
            lineage: Some(caller.lineage.clone()),
            label: order.call.label,
            cause: Some(caller.cause.clone()),
            deadline_at: caller.deadline_at,
            ..Task::new(name(order, session), lane, order.task.clone(), from, now)
        }
    }

    /// The end of a session; none if there is no such session. Dropped or told to stop, it ends the session.
    async fn wait(&self, id: &TaskId, order: &Order) -> Option<Outcome> {
        let mut leash = Leash { sessions: self, task: Some(id) };
        let waiter = Some(order.call.caller.lane.clone());
        let mut ended = self.team_service.parts().work.wait(id.clone(), waiter);
        let ended = tokio::select! {
            ended = &mut ended => ended,
            () = order.call.cancel.cancelled() => {
                leash.pull();
                ended.await
            }
        };
        leash.task = None;
        ended
    }

    async fn report(&self, id: &TaskId, outcome: Outcome) -> Result<AgentReply, AgentFailure> {
        let id = id.clone();
        let row = self.team_service.parts().store.read(move |storage| {
            let Some(task) = tasks::find(storage, &id)? else {
                return Ok((Label::Untrusted, None));
            };
            let steps = journal::last_steps(storage, &task.lane_key())?;
            Ok((task.label, steps))
        });
        // What cannot be looked up is not believed.
        let (label, steps) = row.await.unwrap_or((Label::Untrusted, None));
        let Outcome { ending, code, message, text, .. } = outcome;
        if ending == Ending::Done {
            return Ok(AgentReply { text, steps, label });
        }
        let message =
            message.unwrap_or_else(|| format!("its session ended as {}", ending.as_str()));
        Err(AgentFailure {
            error: code.map_or(ending.as_str(), |code| code.as_str()).to_owned(),
            message,
            ending: Some(ending),
            text,
            label,
        })
    }
}

/// Ends a session whose caller is gone.
struct Leash<'a> {
    sessions: &'a Sessions,
    task: Option<&'a TaskId>,
}

impl Leash<'_> {
    fn pull(&self) {
        // At the end of the process both go on later, from their journals.
        if let Some(task) = self.task
            && !self.sessions.draining.load(Ordering::Relaxed)
        {
            let reason = "the turn that called the subagent was stopped".to_owned();
            self.sessions.team_service.parts().work.cancel_soon(task.clone(), reason);
        }
    }
}

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        self.pull();
    }
}

/// The same for every try of a call, so that a session is found again.
fn name(order: &Order, session: u32) -> TaskId {
    let (task, key) = (order.call.caller.task.as_str(), &order.call.key);
    let parts = [task.as_bytes(), &[0], key.as_bytes(), &[0], &session.to_be_bytes()];
    TaskId::from(format!("task-{}", &sha256(&parts.concat())[..16]))
}

fn refused(refusal: &Refusal) -> AgentFailure {
    let error = match refusal {
        Refusal::Runaway(_) => "fanout_limit",
        Refusal::Stopping => "cancelled",
        other => other.code(),
    };
    AgentFailure {
        error: error.to_owned(),
        message: refusal.to_string(),
        ending: None,
        text: String::new(),
        label: Label::Trusted,
    }
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        clock::Timestamp,
        tool::{CallContext, Caller},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn order(key: &str) -> Order {
        let lane = Lane { team: "scouts".into(), topic: None };
        let body = String::new();
        let task = Task::new("task-1".into(), lane, body.clone(), body, Timestamp(0));
        let call = CallContext {
            caller: Arc::new(Caller::of(&task)),
            label: Label::Trusted,
            turn: "turn-1".into(),
            step: 1,
            key: key.to_owned(),
            rerun: false,
            approved: None,
            approved_by: None,
            approved_always: false,
            cancel: CancellationToken::new(),
        };
        Order { subagent: "owl".to_owned(), task: "look".to_owned(), call }
    }

    /// TO-108, OR-71
    #[test]
    fn a_session_has_the_same_name_for_every_try_of_its_call() {
        let first = name(&order("turn-1:1:0"), 1);

        assert_eq!(name(&order("turn-1:1:0"), 1), first);
        assert_ne!(name(&order("turn-1:1:1"), 1), first);
        assert_ne!(name(&order("turn-1:1:0"), 2), first);
        let digits = first.as_str().strip_prefix("task-").unwrap_or_default();
        assert_eq!(digits.len(), 16);
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
