//! Team: the actor that does the work. The session loop runs in its mailbox, one message at a time.

use std::{sync::Arc, time::Duration};

use actix::{
    Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, Recipient, fut::wrap_future,
};
use tokio::time::Instant;

use crate::{
    clock::Timestamp,
    continuations::{Continuations, Timer},
    ids::{TaskId, TeamName, TopicId, TurnId},
    queue::{self, Leased, Queue, Waiting},
};

mod budget;
mod calls;
mod commit;
pub(crate) mod context;
mod effects;
mod held_calls;
mod history;
mod journal;
mod lanes;
mod lease;
mod outcome;
mod output_buffer;
mod preparation;
mod session;
mod speech;
mod steering;
mod stream;
#[cfg(test)]
mod tests;
mod turn;
mod watchdog;

use context::{Recipe, TeamContext};
use lanes::{Lanes, Preparing, Work};
use lease::{Cancellation, LeasedTask, SessionKey};
use preparation::{Prepared, PromptSize, Unprepared};
use session::Session;
use speech::Spoke;

/// Order of the supervisor to a team.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum Signal {
    /// The process is stopping: each turn goes on to its next commit point and gives its task back.
    Retire,
    /// Nobody sends this team anything any more: it is to go.
    PutAway,
    /// Whoever asks wants to know whether it still hears where it runs.
    Ping { place: usize },
}

/// Fact: how it stands with a team.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Reported {
    pub(crate) team: TeamName,
    pub(crate) incarnation: u64,
    pub(crate) report: Report,
}

/// What a team reports to its supervisor.
#[derive(Debug)]
pub(crate) enum Report {
    /// It hears where it runs, also if it was replaced meanwhile.
    Answered { place: usize },
    /// It has had nothing to do for a while, after so many leases.
    Idle { leases: u64 },
    /// It has died at work on these.
    Exited(Vec<TaskId>),
}

/// The conversation of a lane began anew. It is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct BeganAnew {
    /// The topic, in a team that works in topics.
    pub topic: Option<TopicId>,
    /// When: what was said before is forgotten.
    pub at: Timestamp,
}

/// One team: its lanes, and a session in each that has work.
pub struct Team {
    cx: Arc<TeamContext>,
    incarnation: u64,
    supervisor: Recipient<Reported>,
    lanes: Lanes,
    continuations: Continuations<Self>,
    prompt_size: PromptSize,
    leases: u64,
    idle_since: Instant,
    retiring: bool,
    leaving: bool,
}

impl Team {
    /// A team that has nothing to do yet.
    pub(crate) fn new(
        name: TeamName,
        incarnation: u64,
        recipe: Recipe,
        queue: Addr<Queue>,
        supervisor: Recipient<Reported>,
    ) -> Self {
        Self {
            cx: Arc::new(TeamContext { name, recipe, queue }),
            incarnation,
            supervisor,
            lanes: Lanes::default(),
            continuations: Continuations::default(),
            prompt_size: PromptSize::default(),
            leases: 0,
            idle_since: Instant::now(),
            retiring: false,
            leaving: false,
        }
    }

    /// Lets the session of a lane act, if there is one. One that is over then frees its lane.
    fn with_session(
        &mut self,
        topic: &Option<TopicId>,
        ctx: &mut Context<Self>,
        act: impl FnOnce(&mut Session, &mut SessionContext<'_>),
    ) {
        let Some(session) = self.lanes.session(topic) else { return };
        act(session, &mut SessionContext { actor: ctx, continuations: &self.continuations });
        if session.over {
            session.timers.cancel();
            self.rest(topic);
        }
    }

    /// The same for one session: what comes back for one that is over finds no one.
    fn resume(
        &mut self,
        key: &SessionKey,
        ctx: &mut Context<Self>,
        act: impl FnOnce(&mut Session, &mut SessionContext<'_>),
    ) {
        self.with_session(&key.topic, ctx, |session, ctx| {
            if session.leased.lease == key.lease {
                act(session, ctx);
            }
        });
    }

    fn rest(&mut self, topic: &Option<TopicId>) {
        self.lanes.rest(topic);
        self.idle_since = Instant::now();
    }

    fn prepare(&mut self, leased: Leased, ctx: &mut Context<Self>) {
        let Leased { task, lease, inbox, company, .. } = leased;
        let turn = TurnId::of(&lease);
        let leased = LeasedTask { task: task.clone(), lease, turn, began: Instant::now() };
        let key = leased.key();
        let lane = self.lanes.get(&key.topic);
        let preparing = Preparing { leased, company, cancelled: None, waiting: Vec::new() };
        lane.work = Work::Preparing(Box::new(preparing));
        let prepared = preparation::prepare(self.cx.clone(), task, lane.history.clone(), inbox);
        self.continuations.after(prepared, ctx, move |team, result, ctx| {
            team.prepared(&key, result, ctx);
        });
    }

    fn prepared(
        &mut self,
        key: &SessionKey,
        result: Result<Prepared, Unprepared>,
        ctx: &mut Context<Self>,
    ) {
        let Some(preparing) = self.lanes.take_preparing(key) else { return };
        let Preparing { leased, company, cancelled, waiting } = preparing;
        match result {
            _ if self.retiring => {
                self.cx.give_back_joined(company);
                self.cx.give_back(leased.task);
            }
            Ok(prepared) => {
                let overhead = self.prompt_size.of(&prepared.brief);
                let lane = self.lanes.get(&key.topic);
                let (cx, known) = (self.cx.clone(), lane.history.take());
                let mut session = Session::new(cx, leased, known, prepared, overhead);
                session.joined = company;
                lane.work = Work::Running(Box::new(session));
                self.with_session(&key.topic, ctx, |session, ctx| session.start(cancelled, ctx));
                for task in waiting {
                    self.resume(key, ctx, |session, ctx| session.place(task, ctx));
                }
            }
            Err(unprepared) => {
                self.rest(&key.topic);
                self.cx.give_back_joined(company);
                if let Some(ended) = unprepared.settle(&self.cx, leased, cancelled) {
                    ctx.spawn(wrap_future(ended));
                }
            }
        }
    }

    /// A cancelled turn whose preparation takes too long goes back; the queue knows that it was
    /// cancelled.
    fn give_back_unprepared(&mut self, key: &SessionKey) {
        if let Some(preparing) = self.lanes.take_preparing(key) {
            self.rest(&key.topic);
            self.cx.give_back_joined(preparing.company);
            self.cx.give_back(preparing.leased.task);
        }
    }

    fn report(&self, report: Report) {
        let (team, incarnation) = (self.cx.name.clone(), self.incarnation);
        self.supervisor.do_send(Reported { team, incarnation, report });
    }

    /// Offers to be put away once there has been nothing to do for long enough.
    fn consider_leaving(&mut self, ctx: &mut Context<Self>) {
        let idle = self.idle_since.elapsed();
        let mut pause = self.cx.recipe.idle;
        if self.lanes.are_idle() {
            if idle >= pause {
                self.report(Report::Idle { leases: self.leases });
            } else {
                pause -= idle;
            }
        }
        ctx.run_later(pause, Self::consider_leaving);
    }
}

/// Context of the team's actor as its sessions use it: what they wait for is polled with what the others wait for.
struct SessionContext<'a> {
    actor: &'a mut Context<Team>,
    continuations: &'a Continuations<Team>,
}

impl Session {
    /// Goes on with what a future comes to, if the session is still there then.
    fn after<F: Future + 'static>(
        &self,
        future: F,
        ctx: &mut SessionContext<'_>,
        then: impl FnOnce(&mut Self, F::Output, &mut SessionContext<'_>) + 'static,
    ) {
        let key = self.leased.key();
        ctx.continuations.after(future, ctx.actor, move |team, output, ctx| {
            team.resume(&key, ctx, |session, ctx| then(session, output, ctx));
        });
    }

    /// The same after a pause.
    fn later(
        &self,
        pause: Duration,
        ctx: &mut SessionContext<'_>,
        then: impl FnOnce(&mut Self, &mut SessionContext<'_>) + 'static,
    ) -> Timer {
        let key = self.leased.key();
        ctx.continuations.later(pause, ctx.actor, move |team, ctx| team.resume(&key, ctx, then))
    }
}

impl Actor for Team {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_later(self.cx.recipe.idle, Self::consider_leaving);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        // Also runs while a panic unwinds, so it does nothing that could panic again.
        if !self.leaving {
            self.report(Report::Exited(self.lanes.tasks()));
        }
    }
}

impl Handler<Leased> for Team {
    type Result = ();

    fn handle(&mut self, leased: Leased, ctx: &mut Self::Context) {
        self.leases += 1;
        self.idle_since = Instant::now();
        let (task, lease) = (leased.task.id.clone(), leased.lease.clone());
        self.cx.queue.do_send(queue::Taken { task, lease });
        let topic = leased.task.lane.topic.clone();
        if self.lanes.holds(&topic, &leased.lease) {
            return;
        }
        match &self.lanes.get(&topic).work {
            Work::Running(session) if leased.joins && session.is_joinable() => {
                self.with_session(&topic, ctx, |session, ctx| session.join(leased, ctx));
            }
            Work::Idle if !leased.joins && !self.retiring => self.prepare(leased, ctx),
            // The turn that it was to join has just ended, or nothing begins any more.
            _ => {
                self.cx.give_back_joined(leased.company);
                self.cx.give_back(leased.task);
            }
        }
    }
}

impl Handler<Waiting> for Team {
    type Result = ();

    fn handle(&mut self, Waiting { task }: Waiting, ctx: &mut Self::Context) {
        let topic = task.lane.topic.clone();
        match &mut self.lanes.get(&topic).work {
            // The queue leases it next.
            Work::Idle => {}
            Work::Preparing(preparing) => preparing.waiting.push(task),
            Work::Running(_) => {
                self.with_session(&topic, ctx, |session, ctx| session.place(task, ctx));
            }
        }
    }
}

impl Handler<queue::Stop> for Team {
    type Result = ();

    fn handle(&mut self, message: queue::Stop, ctx: &mut Self::Context) {
        let queue::Stop { lane, task, reason } = message;
        match &mut self.lanes.get(&lane.topic).work {
            Work::Idle => {}
            Work::Preparing(preparing) => {
                if task.is_none_or(|task| task == preparing.leased.task.id) {
                    preparing.cancelled = Some(Cancellation { reason });
                    let key = preparing.leased.key();
                    ctx.run_later(self.cx.recipe.grace, move |team, _| {
                        team.give_back_unprepared(&key);
                    });
                }
            }
            Work::Running(_) => {
                self.with_session(&lane.topic, ctx, |session, ctx| {
                    session.cancel(task.as_ref(), reason, ctx);
                });
            }
        }
    }
}

impl Handler<BeganAnew> for Team {
    type Result = ();

    fn handle(&mut self, BeganAnew { topic, at }: BeganAnew, _: &mut Self::Context) {
        if let Some(history) = self.lanes.history(&topic) {
            history.begin_anew(Some(at));
        }
    }
}

impl Handler<Spoke> for Team {
    type Result = ();

    fn handle(&mut self, Spoke { session, speech }: Spoke, ctx: &mut Self::Context) {
        for (event, at) in speech.take() {
            self.resume(&session, ctx, |session, ctx| session.spoke(event, at, ctx));
        }
    }
}

impl Handler<Signal> for Team {
    type Result = ();

    fn handle(&mut self, signal: Signal, ctx: &mut Self::Context) {
        match signal {
            Signal::Retire => {
                self.retiring = true;
                for topic in self.lanes.topics() {
                    self.with_session(&topic, ctx, Session::retire);
                }
            }
            Signal::PutAway => {
                self.leaving = true;
                ctx.stop();
            }
            Signal::Ping { place } => self.report(Report::Answered { place }),
        }
    }
}
