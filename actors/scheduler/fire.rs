//! Firing carried out: the decision made durable, with its task, in one commit.

use std::{borrow::Cow, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::sync::oneshot::{self, error::RecvError};

use super::{
    Refusal, Scheduler,
    firing::{self, Answer, Findings, Fired, Pending, Present},
    records::{OpenRun, Payload},
    run::{Cause, Decision, Known, Run},
    trigger::{State, Trigger},
};
use crate::{
    ids::TriggerId,
    queue::{
        refusal,
        submit::{CancelTask, HandIn, Submission, Submit},
    },
};

/// After so long a firing that was refused for want of room is tried again, if its time comes but once.
const RETRY_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Whoever waits for a firing.
pub(super) type Told = oneshot::Receiver<Result<Answer, Refusal>>;

impl Scheduler {
    /// Decides on a firing and hands it in. The answer comes when it is durable.
    pub(super) fn fire(
        &mut self,
        id: &TriggerId,
        pending: Pending,
        found: &Findings,
        ctx: &mut Context<Self>,
    ) -> Told {
        let (tell, told) = oneshot::channel();
        let now = self.now();
        let Some(trigger) = self.triggers.get_mut(id) else {
            let _gone = tell.send(Err(Refusal::NotFound));
            return told;
        };
        let (team, subagent) = (trigger.team.clone(), trigger.definition.subagent.clone());
        let key = (id.clone(), pending.key.clone());
        let first = self.known.get(&key).cloned();
        let last_task = trigger.active_task_id.as_ref();
        let present = Present {
            availability: self.to.ports.roster.availability(&team),
            unfinished: last_task.is_some_and(|task| self.runs.contains_key(task)),
            fired_lately: self.fires.lately(&team, subagent.clone(), now),
            known: first.as_ref().map(|known| &known.run),
            found,
        };
        let Fired { run, task, notice } =
            firing::fire(trigger, &pending, &present, now, &self.to.ids);
        advance(trigger, &run);
        if let Some(task) = &task {
            self.runs.insert(task.id.clone(), run.clone());
            if run.cause.counts_for_the_rate() {
                self.fires.count(&team, subagent, now);
            }
        }
        if is_put_off(trigger, &run) {
            self.retries.insert(id.clone(), now + RETRY_PAUSE);
        }
        self.settle_window(id);
        self.plan_next(id);
        self.last.insert(id.clone(), run.clone());
        tracing::debug!(trigger = %id, team = %team.name, run = %run.id, cause = run.cause.as_str(), decision = run.decision.as_str(), "trigger fired");

        let mut writes = self.row_of(id).put_all(&notice).put(&run);
        if let Some(payload) = pending.payload
            && run.decision != Decision::Duplicate
        {
            writes = writes.put_at(&run.id, &Payload(payload));
        }
        let Some(task) = task else {
            let kept = self.keep(writes);
            ctx.spawn(kept.into_actor(self).map(move |kept, _, _| {
                let _gone = tell.send(kept.map(|()| Answer { run, first }));
            }));
            return told;
        };
        if pending.remember {
            let (trigger, name) = key.clone();
            let made = Some(task.id.clone());
            let known = Known { trigger, key: name, run: run.id.clone(), task: made, at: now };
            writes = writes.put(&known);
            self.known.insert(key, known);
        }
        let writes = writes.put_at(&task.id, &OpenRun(Cow::Borrowed(&run)));
        let (answer, submitted) = oneshot::channel();
        let submit =
            Submit { task, writes, overlap: None, giver: pending.turn.map(|turn| turn.giver) };
        self.to.queue.do_send(HandIn { submit, answer });
        ctx.spawn(submitted.into_actor(self).map(move |answer, scheduler, ctx| {
            let _gone = tell.send(scheduler.submitted(run, answer));
            scheduler.arm(ctx);
        }));
        told
    }

    /// Goes on with what is found about a trigger's preconditions: at once, if it depends on nothing.
    pub(super) fn with_findings(
        &mut self,
        id: &TriggerId,
        act: impl FnOnce(&mut Self, &TriggerId, &Findings, &mut Context<Self>) + 'static,
        ctx: &mut Context<Self>,
    ) {
        let preconditions = &self.to.ports.preconditions;
        let Some(look) = self.triggers.get(id).and_then(|trigger| preconditions.look(trigger))
        else {
            return act(self, id, &Findings::default(), ctx);
        };
        let id = id.clone();
        // On a task of its own: a panic in there costs a look, not the scheduler.
        let look = crate::spawn::local(look);
        ctx.spawn(look.into_actor(self).map(move |found, scheduler, ctx| {
            let found = found.unwrap_or_default();
            if let Some(problem) = &found.problem {
                scheduler.invalidate(&id, &problem.to_string());
            }
            act(scheduler, &id, &found, ctx);
        }));
    }

    /// Looks at what a firing depends on, and carries it out. The answer comes when it is durable.
    pub(super) fn fire_when_looked(
        &mut self,
        id: &TriggerId,
        pending: Pending,
        ctx: &mut Context<Self>,
    ) -> impl Future<Output = Result<Answer, Refusal>> + use<> {
        let (tell, told) = oneshot::channel();
        let act = move |scheduler: &mut Self, id: &TriggerId, found: &Findings, ctx: &mut _| {
            let problem = found.problem.clone().filter(|_| pending.cause.is_by_hand());
            let _gone = tell.send(match problem {
                Some(problem) => Err(Refusal::Invalid(problem.into())),
                None => Ok(scheduler.fire(id, pending, found, ctx)),
            });
        };
        self.with_findings(id, act, ctx);
        async move {
            let fired = told.await.map_err(|_| Refusal::Stopping)??;
            fired.await.map_err(|_| Refusal::Stopping)?
        }
    }

    fn submitted(
        &mut self,
        mut run: Run,
        answer: Result<Result<Submission, refusal::Refusal>, RecvError>,
    ) -> Result<Answer, Refusal> {
        let refusal = match answer {
            Ok(Ok(_)) => {
                self.cancel_replaced(&run);
                return Ok(Answer { run, first: None });
            }
            Ok(Err(refusal::Refusal::Stopping)) | Err(_) => return Err(Refusal::Stopping),
            Ok(Err(refusal)) => refusal,
        };
        // Nothing of it was stored: what was noted of the task is taken back.
        let (task, replaced) = (run.task_id.take(), run.replaces.take());
        self.known.remove(&(run.trigger.clone(), run.key.clone()));
        if let Some(task) = &task {
            self.runs.remove(task);
        }
        run.decision = match refusal {
            refusal::Refusal::TeamDraining => Decision::NotActive,
            refusal::Refusal::Runaway(_) => Decision::RateLimited,
            refusal::Refusal::DiskFull => Decision::DiskFull,
            _ => Decision::QueueFull,
        };
        run.reason = Some(refusal.to_string());
        if let Some(trigger) = self.triggers.get_mut(&run.trigger)
            && trigger.active_task_id == task
        {
            // What it was to replace goes on, if it has not ended meanwhile.
            trigger.active_task_id = replaced.filter(|old| self.runs.contains_key(old));
        }
        self.put_off(&run);
        self.settle_window(&run.trigger);
        self.keep_quietly(self.row_of(&run.trigger).put(&run));
        self.last.insert(run.trigger.clone(), run);
        Err(match refusal {
            refusal::Refusal::Runaway(why) => Refusal::Runaway(why),
            refusal::Refusal::DiskFull => Refusal::DiskFull,
            refusal => Refusal::QueueFull(refusal.to_string()),
        })
    }

    /// Takes back that a time which comes but once has been dealt with: it is tried again.
    fn put_off(&mut self, run: &Run) {
        let now = self.now();
        let trigger = self.triggers.get_mut(&run.trigger);
        let Some(trigger) = trigger.filter(|trigger| is_put_off(trigger, run)) else { return };
        if trigger.state == State::Finished && trigger.cursor_at == Some(run.due_at) {
            trigger.state = State::Active;
            trigger.cursor_at = Some(run.due_at - Duration::from_millis(1));
            self.retries.insert(run.trigger.clone(), now + RETRY_PAUSE);
            self.plan_next(&run.trigger);
        }
    }

    /// The task that a run took the place of has to make way.
    pub(super) fn cancel_replaced(&self, run: &Run) {
        if let Some(task) = run.replaces.clone() {
            self.to.queue.do_send(CancelTask { task, reason: format!("replaced by {}", run.id) });
        }
    }
}

/// It comes but once, and there was no room for it: as long as it is not too old, it is tried again.
fn is_put_off(trigger: &Trigger, run: &Run) -> bool {
    trigger.definition.config.is_single()
        && matches!(run.cause, Cause::Schedule | Cause::Missed)
        && matches!(run.decision, Decision::RateLimited | Decision::QueueFull | Decision::DiskFull)
}

/// Notes that a time has been dealt with.
fn advance(trigger: &mut Trigger, run: &Run) {
    if !matches!(run.cause, Cause::Schedule | Cause::Missed) || is_put_off(trigger, run) {
        return;
    }
    trigger.move_cursor(run.due_at);
    if trigger.definition.config.is_single()
        && trigger.is_active()
        && run.decision != Decision::TeamPaused
    {
        trigger.state = State::Finished;
    }
}
