//! Scheduler: triggers, when they fire, and what becomes of their runs.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use actix::{Actor, Addr, AsyncContext, Context, SpawnHandle};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    clock::{Clock, Timestamp},
    ids::{Ids, TaskId, TriggerId},
    org::roster::Roster,
    queue::{Queue, causes::Runaway, ordered_writes::WriteInOrder},
    room::DISK_FULL,
    store::{StoreError, StoreHandle, records::Writes},
    task::Task,
};

pub mod alarm;
mod body;
mod fire;
pub mod firing;
pub mod index;
pub mod maintain;
pub mod manage;
mod notify;
mod outcome;
pub mod ports;
pub mod records;
mod redacted;
pub mod requests;
pub mod run;
pub mod schedule;
#[cfg(test)]
pub(crate) mod tests;
pub mod trigger;
pub mod views;
pub mod window;

use firing::{Fires, Preconditions};
use index::{Board, Heard, MessageTriggers};
use ports::{Calendar, Expressions, View};
use records::Recovered;
use run::{Known, Run};
use trigger::{
    Trigger,
    config::Config,
    definition::Definition,
    validation::{Check, Problems},
};

/// How often reasons to fire that need not be remembered any longer are swept.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// What the scheduler needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// Where triggers are to be seen.
    pub board: Board,
    pub calendar: Arc<dyn Calendar>,
    pub expressions: Arc<dyn Expressions>,
    pub roster: Arc<dyn Roster>,
    pub preconditions: Arc<dyn Preconditions>,
    /// The zone of the settings.
    pub timezone: String,
}

/// Everything that the scheduler talks to.
pub struct Neighbours {
    /// Where work goes, and rows that must keep in step with it.
    pub queue: Addr<Queue>,
    pub store: StoreHandle,
    pub clock: Arc<dyn Clock>,
    pub ids: Ids,
    pub ports: Ports,
}

impl Neighbours {
    fn view(&self, since: Timestamp) -> View<'_> {
        let Ports { timezone, calendar, .. } = &self.ports;
        View { zone: timezone, calendar: &**calendar, now: self.clock.now(), since }
    }
}

/// Why the scheduler does not do as told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(transparent)]
    Invalid(#[from] Problems),
    #[error("there is no such trigger")]
    NotFound,
    #[error("team `{team}` has a trigger `{name}` already")]
    NameTaken { team: String, name: String },
    #[error(
        "`{0}` is kept by the settings of the team: `heartbeat` and `learning` in its file make and change it; it can only be disabled here"
    )]
    NameReserved(String),
    #[error("team `{team}` has {most} triggers already, which is the most a team may have")]
    Limit { team: String, most: usize },
    #[error("{0}")]
    QueueFull(String),
    #[error("{DISK_FULL}")]
    DiskFull,
    #[error(transparent)]
    Runaway(Runaway),
    #[error("the service is stopping; nothing was changed")]
    Stopping,
}

impl Refusal {
    /// As answers name it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_input",
            Self::NotFound => "not_found",
            Self::NameTaken { .. } => "name_taken",
            Self::NameReserved(_) => "name_reserved",
            Self::Limit { .. } => "limit_triggers",
            Self::QueueFull(_) => "queue_full",
            Self::DiskFull => "disk_full",
            Self::Runaway(why) => why.code(),
            Self::Stopping => "draining",
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(_: StoreError) -> Self {
        Self::Stopping
    }
}

/// What is due for a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Due {
    /// To be looked at.
    Look,
    /// Its quiet time is over.
    Speak,
}

/// What a former process left to do.
#[derive(Default)]
struct Left {
    open: Vec<(Run, Option<Task>)>,
    heard: Vec<Heard>,
    /// Triggers that are due at another time than their rows say: settings have another zone now.
    moved: Vec<TriggerId>,
}

/// Holds all triggers, sleeps until one is due, and commits each firing as a whole.
pub struct Scheduler {
    to: Neighbours,
    /// When this process took over. What was due before was missed.
    since: Timestamp,
    triggers: HashMap<TriggerId, Trigger>,
    due: BTreeSet<(Timestamp, Due, TriggerId)>,
    /// When each trigger stands in `due`.
    dues: HashMap<(TriggerId, Due), Timestamp>,
    alarm: Option<SpawnHandle>,
    /// Wall time and monotonic time when the alarm was last set.
    set_at: (Timestamp, Instant),
    /// Triggers whose preconditions are being looked at.
    looking: BTreeSet<TriggerId>,
    /// Runs whose task has not been accounted for.
    runs: HashMap<TaskId, Run>,
    last: HashMap<TriggerId, Run>,
    known: HashMap<(TriggerId, String), Known>,
    fires: Fires,
    message_triggers: MessageTriggers,
    /// Firings of a single time that were refused, and when each is tried again.
    retries: HashMap<TriggerId, Timestamp>,
    /// What a former process left undone: dealt with as soon as this one runs.
    left: Left,
    draining: bool,
}

impl Scheduler {
    /// A scheduler that goes on where the last process stopped. `message_triggers` is shared with whoever lets
    /// messages in.
    pub fn new(to: Neighbours, message_triggers: MessageTriggers, recovered: Recovered) -> Self {
        let now = to.clock.now();
        let by_reason = |known: Known| ((known.trigger.clone(), known.key.clone()), known);
        let mut scheduler = Self {
            to,
            since: now,
            triggers: HashMap::new(),
            due: BTreeSet::new(),
            dues: HashMap::new(),
            alarm: None,
            set_at: (now, Instant::now()),
            looking: BTreeSet::new(),
            runs: HashMap::new(),
            last: recovered.last.into_iter().map(|run| (run.trigger.clone(), run)).collect(),
            known: recovered.known.into_iter().map(by_reason).collect(),
            fires: Fires::default(),
            message_triggers,
            retries: HashMap::new(),
            left: Left { open: recovered.open, heard: recovered.heard, moved: Vec::new() },
            draining: false,
        };
        for trigger in recovered.triggers {
            let (id, stored) = (trigger.id.clone(), trigger.next_due_at);
            scheduler.take_in(trigger);
            if scheduler.triggers.get(&id).is_some_and(|trigger| trigger.next_due_at != stored) {
                scheduler.left.moved.push(id);
            }
        }
        for run in recovered.recent {
            if run.decision.made_a_task() && run.cause.counts_for_the_rate() {
                let trigger = scheduler.triggers.get(&run.trigger);
                let subagent = trigger.and_then(|trigger| trigger.definition.subagent.clone());
                scheduler.fires.count(&run.team, subagent, run.fired_at);
            }
        }
        scheduler
    }

    fn take_in(&mut self, trigger: Trigger) {
        let id = trigger.id.clone();
        self.retries.remove(&id);
        self.message_triggers.attend(&trigger, &*self.to.ports.expressions);
        self.to.ports.board.post(&trigger, self.last.get(&id));
        self.triggers.insert(id.clone(), trigger);
        self.plan_next(&id);
    }

    fn drop_out(&mut self, id: &TriggerId) -> Option<Trigger> {
        let trigger = self.triggers.remove(id)?;
        self.message_triggers.ignore(id);
        self.to.ports.board.remove(&trigger);
        self.set_due(id, Due::Look, None);
        self.set_due(id, Due::Speak, None);
        self.last.remove(id);
        self.retries.remove(id);
        Some(trigger)
    }

    /// Lets go of all triggers of a kind.
    fn drop_all(&mut self, is_one: impl Fn(&Trigger) -> bool) -> Vec<Trigger> {
        let found = self.triggers.values().filter(|trigger| is_one(trigger));
        let ids: Vec<TriggerId> = found.map(|trigger| trigger.id.clone()).collect();
        ids.iter().filter_map(|id| self.drop_out(id)).collect()
    }

    /// The last task of a trigger, if it is unfinished.
    fn unfinished<'a>(&self, trigger: &'a Trigger) -> Option<&'a TaskId> {
        trigger.active_task_id.as_ref().filter(|task| self.runs.contains_key(*task))
    }

    /// The row of a trigger as it is now, if there is one.
    fn row_of(&self, id: &TriggerId) -> Writes {
        Writes::new().put_all(self.triggers.get(id))
    }

    fn now(&self) -> Timestamp {
        self.to.clock.now()
    }

    /// Whether a definition can be, at this moment.
    fn check(&self, definition: &Definition, is_new: bool) -> Result<(), Problems> {
        let expressions = &*self.to.ports.expressions;
        Check { view: self.view(), expressions, is_new }.run(definition)
    }

    /// Hands rows in, in step with tasks. The future ends when they are durable.
    fn keep(&self, writes: Writes) -> impl Future<Output = Result<(), Refusal>> + use<> {
        let (tell, stored) = oneshot::channel();
        self.to.queue.do_send(WriteInOrder { writes, stored: Some(tell) });
        async move { Ok(stored.await.map_err(|_| Refusal::Stopping)??) }
    }

    /// Hands rows in whose fate nobody waits for.
    fn keep_quietly(&self, writes: Writes) {
        if !writes.is_empty() {
            self.to.queue.do_send(WriteInOrder { writes, stored: None });
        }
    }

    fn view(&self) -> View<'_> {
        self.to.view(self.since)
    }

    /// Works out when a trigger is to be looked at next.
    fn plan_next(&mut self, id: &TriggerId) {
        let Some(trigger) = self.triggers.get(id) else { return };
        let (view, cursor) = (self.view(), trigger.cursor());
        let next = match &trigger.definition.config {
            _ if !trigger.is_active() => None,
            Config::Schedule(schedule) => schedule::next(schedule, view, trigger.anchor_at, cursor),
            Config::Window(window) => {
                window::next_due(view, window, trigger.occurrence.as_ref(), cursor)
            }
            Config::Keyword(_) | Config::Message(_) | Config::Webhook(_) => None,
        };
        let next = next.map(|at| self.retries.get(id).map_or(at, |again| at.max(*again)));
        let speak = notify::quiet_until(trigger, view);
        if let Some(trigger) = self.triggers.get_mut(id) {
            trigger.next_due_at = next;
        }
        self.set_due(id, Due::Look, next);
        self.set_due(id, Due::Speak, speak);
    }

    fn set_due(&mut self, id: &TriggerId, what: Due, at: Option<Timestamp>) {
        if let Some(old) = self.dues.remove(&(id.clone(), what)) {
            self.due.remove(&(old, what, id.clone()));
        }
        if let Some(at) = at {
            self.dues.insert((id.clone(), what), at);
            self.due.insert((at, what, id.clone()));
        }
    }
}

impl Actor for Scheduler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.revalidate();
        self.follow_redactions(ctx);
        let Left { open, heard, moved } = std::mem::take(&mut self.left);
        self.keep_quietly(
            Writes::new().put_all(moved.iter().filter_map(|id| self.triggers.get(id))),
        );
        self.reconcile(open);
        for heard in heard {
            self.hear(heard, true, ctx);
        }
        self.look_at_held(ctx);
        self.ring(ctx);
        ctx.run_interval(SWEEP_INTERVAL, Self::sweep);
    }
}
