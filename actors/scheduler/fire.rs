//! Firing: the decision made durable, with its task, in one commit.

use std::borrow::Cow;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot::{self, error::RecvError};

use super::{
    Refusal, Scheduler, body,
    firing::{self, Event, Fired, Present, Standing},
    records::{Known, OpenRun, Payload},
    run::{Cause, Decision, Run},
    trigger::{State, SystemKind, Trigger, definition::OverlapPolicy, validation::Problem},
};
use crate::{
    clock::Timestamp,
    ids::{RunId, TaskId, TeamKey, TriggerId},
    org::{record::TeamState, view::OrgView},
    queue::{
        causes::Giver,
        refusal,
        submit::{CancelTask, HandIn, Submission, Submit},
    },
    store::records::Writes,
    task::{self, Label, Lineage, Source, Task},
};

/// Knows which teams work.
pub trait Roster: Send + Sync + 'static {
    /// Whether a team works now.
    fn standing(&self, team: &TeamKey) -> Standing;
}

impl Roster for OrgView {
    fn standing(&self, team: &TeamKey) -> Standing {
        let tree = self.now();
        let record = tree.get(team.name.as_str());
        match record.filter(|record| record.generation == team.generation) {
            Some(record) => match record.state {
                TeamState::Active => Standing::Active,
                TeamState::Paused | TeamState::Degraded => Standing::Paused,
                TeamState::Draining | TeamState::Removed => Standing::Gone,
            },
            None => Standing::Gone,
        }
    }
}

/// Looks after what a trigger depends on: files of its team, what happened lately.
pub trait Premises: Send + Sync + 'static {
    /// Looks, right before a firing; none if this trigger depends on nothing. `last` is when it last
    /// made a task.
    fn look(
        &self,
        trigger: &Trigger,
        last: Option<Timestamp>,
    ) -> Option<BoxFuture<'static, Findings>>;
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The trigger cannot be what it is told to be any more.
    pub problem: Option<Problem>,
    /// There is nothing to do, and why.
    pub nothing_to_do: Option<String>,
    /// What the team is asked instead of the trigger's task.
    pub order: Option<String>,
    /// The skill that is active from the start.
    pub skill: Option<String>,
}

/// A turn that fires a trigger.
#[derive(Clone, Debug)]
pub struct ByTurn {
    /// How far what it has read may be believed.
    pub label: Label,
    /// The lineage of a task that it makes.
    pub lineage: Lineage,
    /// When it must be done.
    pub deadline_at: Timestamp,
    /// For the count of what one cause leads to.
    pub giver: Giver,
}

impl ByTurn {
    /// A task becomes part of the turn's work.
    pub(super) fn takes(&self, task: &mut Task) {
        task.label = task.label.max(self.label);
        task.lineage = Some(self.lineage.clone());
        task.deadline_at = task.deadline_at.min(self.deadline_at);
    }
}

/// A firing that is about to be decided.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) cause: Cause,
    pub(super) key: String,
    pub(super) due_at: Timestamp,
    pub(super) body: String,
    pub(super) label: Label,
    pub(super) source: Option<Source>,
    pub(super) principal: task::Cause,
    pub(super) overlap: Option<OverlapPolicy>,
    pub(super) max_steps: Option<u32>,
    /// It waits beside others of its trigger, whatever the policy.
    pub(super) side_by_side: bool,
    /// The same key must not make a second task.
    pub(super) remember: bool,
    /// What came from outside.
    pub(super) payload: Option<String>,
    /// The turn that wants it.
    pub(super) turn: Option<ByTurn>,
}

impl Pending {
    /// A firing at a time.
    pub(super) fn timed(cause: Cause, due_at: Timestamp, body: String) -> Self {
        Self {
            cause,
            key: due_at.to_string(),
            due_at,
            body,
            label: Label::Trusted,
            source: None,
            principal: task::Cause::System,
            overlap: None,
            max_steps: None,
            side_by_side: false,
            remember: false,
            payload: None,
            turn: None,
        }
    }

    fn into_event(self, trigger: &Trigger, found: &Findings) -> Event {
        let order = match &found.order {
            Some(order) => order.clone(),
            None => self.body,
        };
        let turn_timeout = match trigger.system {
            Some(SystemKind::Learning) => Some(super::maintain::LEARNING_TIME),
            Some(SystemKind::Reflection) => Some(super::maintain::REFLECTION_TIME),
            _ => None,
        };
        Event {
            cause: self.cause,
            key: self.key,
            due_at: self.due_at,
            body: body::with_report(order, trigger.definition.notify),
            label: self.label,
            source: self.source,
            principal: self.principal,
            overlap: if self.side_by_side { Some(OverlapPolicy::Allow) } else { self.overlap },
            max_steps: self.max_steps,
            skill: found.skill.clone(),
            turn_timeout,
            payload_bytes: self.payload.as_ref().map(|payload| payload.len() as u64),
        }
    }
}

/// What came of a firing. It is durable.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its row.
    pub run: Run,
    /// The run that it repeats.
    pub first: Option<RunId>,
}

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
        let Some(trigger) = self.triggers.get(id) else {
            let _gone = tell.send(Err(Refusal::NotFound));
            return told;
        };
        let (team, subagent) = (trigger.team.clone(), trigger.definition.subagent.clone());
        let key = (id.clone(), pending.key.clone());
        let first = self.known.get(&key).map(|(run, _)| run.clone());
        let present = Present {
            standing: self.to.ports.roster.standing(&team),
            unfinished: self.unfinished(trigger).is_some(),
            fired_lately: self.fires.lately(&team, subagent.clone(), now),
            known: first.as_ref(),
            nothing_to_do: found.nothing_to_do.as_deref(),
        };
        let (remember, payload) = (pending.remember, pending.payload.clone());
        let turn = pending.turn.clone();
        let event = pending.into_event(trigger, found);
        let ids = self.to.ids.clone();
        let Some(trigger) = self.triggers.get_mut(id) else {
            return told;
        };
        let Fired { run, mut task, cancel, notice } =
            firing::fire(trigger, event, &present, now, &ids);
        if let (Some(task), Some(turn)) = (&mut task, &turn) {
            turn.takes(task);
        }
        advance(trigger, &run);
        if let Some(task) = &task {
            self.runs.insert(task.id.clone(), run.clone());
            if !run.cause.is_by_hand() {
                self.fires.count(&team, subagent, now);
            }
        }
        self.settle_window(id);
        self.plan_next(id);
        self.last.insert(id.clone(), run.clone());
        tracing::debug!(trigger = %id, team = %team, run = %run.id, cause = run.cause.as_str(), decision = run.decision.as_str(), "trigger fired");

        let mut writes = Writes::new();
        if let Some(trigger) = self.triggers.get(id) {
            writes = writes.put(trigger);
        }
        if let Some(notice) = &notice {
            writes = writes.put(notice);
        }
        if let Some(payload) = payload.filter(|_| run.decision != Decision::Duplicate) {
            writes = writes.put_at(&run.id, &Payload(payload));
        }
        let Some(task) = task else {
            let kept = self.keep(writes.put(&run));
            ctx.spawn(kept.into_actor(self).map(move |kept, _, _| {
                let _gone = tell.send(kept.map(|()| Answer { run, first }));
            }));
            return told;
        };
        if remember {
            let (trigger, key) = key.clone();
            writes = writes.put(&Known { trigger, key, run: run.id.clone(), at: now });
            self.known.insert(key_of(id, &run), (run.id.clone(), now));
        }
        let writes = writes.put(&run).put_at(&task.id, &OpenRun(Cow::Borrowed(&run)));
        let (answer, submitted) = oneshot::channel();
        let submit = Submit { task, writes, overlap: None, giver: turn.map(|turn| turn.giver) };
        self.to.queue.do_send(HandIn { submit, answer });
        ctx.spawn(submitted.into_actor(self).map(move |answer, scheduler, _| {
            let answer = scheduler.submitted(run, cancel, answer);
            let _gone = tell.send(answer);
        }));
        told
    }

    /// Goes on with what is found about a trigger's premises: at once, if it depends on nothing.
    pub(super) fn with_findings(
        &mut self,
        id: &TriggerId,
        act: impl FnOnce(&mut Self, &TriggerId, &Findings, &mut Context<Self>) + 'static,
        ctx: &mut Context<Self>,
    ) {
        let look = self.triggers.get(id).and_then(|trigger| {
            let last = trigger.last_fired_at;
            self.to.ports.premises.look(trigger, last)
        });
        let Some(look) = look else {
            return act(self, id, &Findings::default(), ctx);
        };
        let id = id.clone();
        // On a task of its own: a panic in there costs a look, not the scheduler.
        let look = actix::spawn(look);
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
            let fired = scheduler.fire(id, pending, found, ctx);
            let _gone = tell.send(fired);
        };
        self.with_findings(id, act, ctx);
        async move {
            let fired = told.await.map_err(|_| Refusal::Stopping)?;
            fired.await.map_err(|_| Refusal::Stopping)?
        }
    }

    fn submitted(
        &mut self,
        mut run: Run,
        replaced: Option<TaskId>,
        answer: Result<Result<Submission, refusal::Refusal>, RecvError>,
    ) -> Result<Answer, Refusal> {
        let refusal = match answer {
            Ok(Ok(_)) => {
                if let Some(old) = replaced {
                    self.to.queue.do_send(CancelTask { task: old, reason: replaced_by(&run) });
                }
                return Ok(Answer { run, first: None });
            }
            Ok(Err(refusal::Refusal::Stopping)) | Err(_) => return Err(Refusal::Stopping),
            Ok(Err(refusal)) => refusal,
        };
        // Nothing of it was stored: what was noted of the task is taken back.
        let task = run.task_id.take();
        self.known.remove(&key_of(&run.trigger, &run));
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
        run.replaces = None;
        if let Some(trigger) = self.triggers.get_mut(&run.trigger)
            && trigger.active_task_id == task
        {
            // What it was to replace goes on, if it has not ended meanwhile.
            trigger.active_task_id = replaced.filter(|old| self.runs.contains_key(old));
        }
        self.settle_window(&run.trigger);
        let mut writes = Writes::new().put(&run);
        if let Some(trigger) = self.triggers.get(&run.trigger) {
            writes = writes.put(trigger);
        }
        self.keep_quietly(writes);
        self.last.insert(run.trigger.clone(), run.clone());
        Err(match refusal {
            refusal::Refusal::Runaway(why) => Refusal::Runaway(why),
            refusal::Refusal::DiskFull => Refusal::DiskFull,
            refusal => Refusal::QueueFull(refusal.to_string()),
        })
    }
}

fn key_of(id: &TriggerId, run: &Run) -> (TriggerId, String) {
    (id.clone(), run.key.clone())
}

/// Why a task had to make way.
pub(super) fn replaced_by(run: &Run) -> String {
    format!("replaced by {}", run.id)
}

/// Notes that a time has been dealt with.
fn advance(trigger: &mut Trigger, run: &Run) {
    if !matches!(run.cause, Cause::Schedule | Cause::Missed) {
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
