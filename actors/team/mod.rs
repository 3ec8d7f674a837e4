//! Team: the work. The session loop runs in its mailbox, one message at a time.

use std::{sync::Arc, time::Duration};

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, Recipient};
use tokio::time::Instant;

use crate::{
    approvals::{Opened, desk::Desk},
    briefing::{Briefing, OnHindrance},
    budget::{Days, Ledger},
    channel::Channel,
    clock::Clock,
    engine::EngineEvent,
    ids::{Ids, TaskId, TeamName, TopicId, TurnId},
    live::Publisher,
    meter::Meter,
    notice::Notice,
    org::view::OrgView,
    queue::{
        self, Leased, Queue, Waiting,
        placing::{Placed, Placement},
    },
    store::{StoreHandle, records::Writes},
    task::Task,
};

mod ack;
mod aloud;
pub mod anew;
mod calls;
mod commits;
mod holds;
mod lanes;
mod money;
mod past;
mod prepare;
mod speech;
mod summary;
#[cfg(test)]
mod tests;
pub mod turn;

use ack::Words;
use lanes::{Lanes, Running, Work};
use turn::{Input, Stop, Want};

/// The process is stopping: each turn goes on to its next commit point and gives its task back.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Retire;

/// Nobody sends this team anything any more: it is to go.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct PutAway;

/// Asks a team whether it still hears.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Ping {
    /// Where it runs, as whoever asks counts that.
    pub place: usize,
    /// Who is told.
    pub answer: Recipient<Answered>,
}

/// Fact: a team hears.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Answered {
    /// The team.
    pub team: TeamName,
    /// Which of its lives.
    pub incarnation: u64,
    /// Where it runs.
    pub place: usize,
}

/// Fact: a team has had nothing to do for a while.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Idle {
    /// The team.
    pub team: TeamName,
    /// Which of its lives.
    pub incarnation: u64,
    /// How many leases it has received in it.
    pub leases: u64,
}

/// Fact: a team has died.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Exited {
    /// The team.
    pub team: TeamName,
    /// Which of its lives.
    pub incarnation: u64,
    /// What it was working on.
    pub tasks: Vec<TaskId>,
}

/// An engine says something about a running step.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Spoke {
    topic: Option<TopicId>,
    turn: TurnId,
    event: EngineEvent,
}

/// All that a team is made of.
#[derive(Clone)]
pub struct Recipe {
    /// Where the journal is.
    pub store: StoreHandle,
    /// The way out.
    pub channel: Addr<Channel>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Names turns.
    pub ids: Ids,
    /// Prepares turns.
    pub briefing: Arc<dyn Briefing>,
    /// Told of turns that wait for settings to be put right.
    pub on_hindrance: OnHindrance,
    /// Where requests for approval are written.
    pub desk: Desk,
    /// Who hears of them.
    pub approvals: Recipient<Opened>,
    /// The tree of teams.
    pub view: OrgView,
    /// What teams have spent.
    pub ledger: Ledger,
    /// Which day it is.
    pub days: Arc<dyn Days>,
    /// Counts.
    pub meter: Arc<dyn Meter>,
    /// Tells what happens to whoever watches.
    pub live: Publisher,
    /// A team with nothing to do for this long is put away.
    pub idle: Duration,
    /// Calls that do not stop when told are aborted after this.
    pub grace: Duration,
    /// A turn that cannot be prepared within this is tried again.
    pub preparation: Duration,
    /// A team that does not answer within this is replaced.
    pub answers_within: Duration,
}

/// One team: its lanes, and a turn in each that has work.
pub struct Team {
    name: TeamName,
    incarnation: u64,
    recipe: Recipe,
    queue: Addr<Queue>,
    supervisor: Recipient<Exited>,
    idler: Recipient<Idle>,
    lanes: Lanes,
    /// How many characters the model is told of its tools, for the set of this name.
    told_of_tools: Option<(String, usize)>,
    leases: u64,
    idle_since: Instant,
    retiring: bool,
    leaving: bool,
}

impl Team {
    /// A team that has nothing to do yet.
    pub fn new(
        name: TeamName,
        incarnation: u64,
        recipe: Recipe,
        queue: Addr<Queue>,
        supervisor: Recipient<Exited>,
        idler: Recipient<Idle>,
    ) -> Self {
        Self {
            name,
            incarnation,
            recipe,
            queue,
            supervisor,
            idler,
            lanes: Lanes::default(),
            told_of_tools: None,
            leases: 0,
            idle_since: Instant::now(),
            retiring: false,
            leaving: false,
        }
    }

    /// Tells a turn something and does what it then wants.
    fn hear(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        input: Input,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.last_sign = Instant::now();
        if matches!(input, Input::Stop(..)) && !running.turn.has_ended() {
            // What was wanted but not begun is not wanted any more; what happened is still kept.
            running.wants.retain(|want| !want.begins());
        }
        let wants = running.turn.on(input);
        running.wants.extend(wants);
        self.perform(topic, turn, ctx);
    }

    /// Does what a turn wants, in order, up to the next thing that must be durable first.
    fn perform(&mut self, topic: &Option<TopicId>, turn: &TurnId, ctx: &mut Context<Self>) {
        while let Some(running) = self.lanes.running(topic, turn) {
            if running.committing || running.holds_its_end() {
                return;
            }
            if self.retiring {
                // Nothing begins any more; what runs is waited for and recorded.
                while running.wants.pop_front_if(|want| want.begins()).is_some() {}
                if running.wants.is_empty() && running.is_quiet() {
                    return self.give_back_unfinished(topic, turn, ctx);
                }
            }
            let Some(want) = running.wants.pop_front() else {
                return;
            };
            match want {
                Want::Record(facts, frames) => self.record(topic, turn, facts, frames, ctx),
                Want::Stash(stows) => self.stash(topic, turn, stows, ctx),
                Want::Hold(facts, frames, held) => {
                    self.hold(topic, turn, facts, frames, held, ctx);
                }
                Want::Mark(approval, execution) => {
                    self.mark(topic, turn, &approval, execution, ctx);
                }
                Want::Park(facts, frames, wait) => {
                    self.park(topic, turn, facts, frames, wait, ctx);
                }
                Want::CallModel => self.call_model(topic, turn, ctx),
                Want::Summarise(request) => self.summarise(topic, turn, request, ctx),
                Want::CallTool { call, rerun } => self.call_tool(topic, turn, call, rerun, ctx),
                Want::StopCalls => self.stop_calls(topic, turn, ctx),
                Want::End(facts, end) => self.end(topic, turn, facts, end, ctx),
                Want::Suspend(facts, frames, pause) => {
                    self.suspend(topic, turn, facts, frames, pause, ctx);
                }
            }
        }
    }

    /// Stops the turn of a lane, also one that is still being prepared.
    fn stop(&mut self, topic: &Option<TopicId>, stop: Stop, ctx: &mut Context<Self>) {
        match &mut self.lanes.get(topic).work {
            Work::Idle => {}
            Work::Preparing { charge, stop: wanted, .. } => {
                *wanted = Some(stop);
                let (topic, turn) = (topic.clone(), charge.turn.clone());
                ctx.run_later(self.recipe.grace, move |team, ctx| {
                    team.give_back_unprepared(&topic, &turn, ctx);
                });
            }
            Work::Running(running) => {
                let turn = running.charge.turn.clone();
                let said = std::mem::take(&mut running.streaming);
                self.hear(topic, &turn, Input::Stop(stop, said), ctx);
            }
        }
    }

    /// Looks at the clock for a turn: its ack, its deadline, its signs of life.
    fn watch(&mut self, topic: &Option<TopicId>, turn: &TurnId, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if now >= running.deadline {
            return self.stop(topic, Stop::Deadline, ctx);
        }
        if now >= running.stalls_at() {
            let silent = now.duration_since(running.last_sign).as_secs();
            let task = running.charge.task.id.clone();
            let done = format!("Nothing moved in a turn for {silent} s: it was stopped");
            self.tell_of_stall(&task, format!("{done}, and is tried again if it may be."));
            return self.stop(topic, Stop::Stalled, ctx);
        }
        if let Some(at) = running.warns_at()
            && now >= at
        {
            running.warned = Some(running.last_sign);
            let silent = now.duration_since(running.last_sign).as_secs();
            let rest = running.stalls_at().duration_since(now).as_secs_f64().ceil();
            let task = running.charge.task.id.clone();
            let done = format!("Nothing moved in a turn for {silent} s: a warning");
            self.tell_of_stall(&task, format!("{done}. In {rest} s it is stopped."));
        }
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if now >= running.ack_due {
            self.acknowledge(topic, turn, Words::OrNone, ctx);
        }
        self.arm_watch(topic, turn, ctx);
    }

    fn arm_watch(&mut self, topic: &Option<TopicId>, turn: &TurnId, ctx: &mut Context<Self>) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let mut next = running.deadline.min(running.stalls_at());
        if let Some(warns_at) = running.warns_at() {
            next = next.min(warns_at);
        }
        if !running.gate.is_open() && !running.acking {
            next = next.min(running.ack_due);
        }
        let (topic, turn) = (topic.clone(), turn.clone());
        let pause = next.saturating_duration_since(Instant::now());
        let watch = ctx.run_later(pause, move |team, ctx| team.watch(&topic, &turn, ctx));
        running.watch = Some(watch);
    }

    /// Tells the operator what was done about work that stood still.
    fn tell_of_stall(&self, task: &TaskId, done: String) {
        let (id, now) = (self.recipe.ids.notice(), self.recipe.clock.now());
        let notice = Notice::stall(id, &self.name, Some(task), done, now);
        // The store takes it in now; nobody waits until it is safe.
        drop(self.recipe.store.commit(Writes::new().put(&notice)));
    }

    /// A lane is free again.
    fn rest(&mut self, topic: &Option<TopicId>, ctx: &mut Context<Self>) {
        if let Some(running) = self.lanes.any_running(topic) {
            let timers = [
                &mut running.flush,
                &mut running.watch,
                &mut running.settle,
                &mut running.aloud.timer,
            ];
            for timer in timers {
                if let Some(timer) = timer.take() {
                    ctx.cancel_future(timer);
                }
            }
        }
        self.lanes.rest(topic);
        self.idle_since = Instant::now();
    }

    /// Offers to be put away once there has been nothing to do for long enough.
    fn consider_leaving(&mut self, ctx: &mut Context<Self>) {
        let idle = self.idle_since.elapsed();
        let mut pause = self.recipe.idle;
        if self.lanes.are_idle() {
            if idle >= self.recipe.idle {
                self.idler.do_send(Idle {
                    team: self.name.clone(),
                    incarnation: self.incarnation,
                    leases: self.leases,
                });
            } else {
                pause -= idle;
            }
        }
        ctx.run_later(pause, Self::consider_leaving);
    }
}

impl Running {
    /// The end of a stopped turn waits until its tools have stopped too.
    fn holds_its_end(&self) -> bool {
        self.stopping
            && !self.tools.is_empty()
            && matches!(
                self.wants.front(),
                Some(Want::End(..) | Want::Suspend(..) | Want::Park(..))
            )
    }

    /// Nothing runs that could bring it on.
    fn is_quiet(&self) -> bool {
        self.model.is_none() && self.tools.is_empty()
    }

    /// When the operator is told that nothing moves, if they have not been. A tool may take its time.
    fn warns_at(&self) -> Option<Instant> {
        let told = self.warned == Some(self.last_sign);
        let waits = told || self.turn.longest_call().is_some();
        (!waits).then(|| self.last_sign + self.brief.idle_timeout / 2)
    }

    /// When a turn without a sign of life counts as stalled. A running tool has its own limit.
    fn stalls_at(&self) -> Instant {
        let patience = match self.turn.longest_call() {
            Some(limit) => limit + Duration::from_secs(60),
            None => self.brief.idle_timeout,
        };
        self.last_sign + patience
    }
}

impl Actor for Team {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_later(self.recipe.idle, Self::consider_leaving);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        // Also runs while a panic unwinds, so it does nothing that could panic again.
        if !self.leaving {
            self.supervisor.do_send(Exited {
                team: self.name.clone(),
                incarnation: self.incarnation,
                tasks: self.lanes.tasks(),
            });
        }
    }
}

impl Handler<Leased> for Team {
    type Result = ();

    fn handle(&mut self, leased: Leased, ctx: &mut Self::Context) {
        self.leases += 1;
        self.idle_since = Instant::now();
        let topic = leased.task.lane.topic.clone();
        self.queue
            .do_send(queue::Taken { task: leased.task.id.clone(), lease: leased.lease.clone() });
        if self.lanes.holds(&topic, &leased.lease) {
            return;
        }
        if leased.joins {
            return self.join(&topic, leased, ctx);
        }
        if self.retiring || !matches!(self.lanes.get(&topic).work, Work::Idle) {
            self.queue.do_send(queue::Return { task: leased.task, after: None, uncounted: true });
            return;
        }
        self.prepare(&topic, leased, ctx);
    }
}

impl Handler<Waiting> for Team {
    type Result = ();

    fn handle(&mut self, Waiting { task }: Waiting, ctx: &mut Self::Context) {
        use crate::briefing::QueueMode;
        let Some(running) = self.lanes.any_running(&task.lane.topic) else {
            return;
        };
        let behind = running.caller.audience();
        let mode = if task.may_steer(&behind) && running.reads_messages() {
            running.brief.queue_mode
        } else {
            QueueMode::Queue
        };
        let placed = |task, placement| self.queue.do_send(Placed { task, placement });
        let lane = task.lane;
        match mode {
            QueueMode::Queue => placed(task.id, Placement::NextTurn),
            QueueMode::Steer => self.queue.do_send(queue::Join { lane, behind }),
            QueueMode::Interrupt => {
                placed(task.id, Placement::Started);
                self.stop(&lane.topic, Stop::Interrupted, ctx);
            }
        }
    }
}

impl Handler<queue::Stop> for Team {
    type Result = ();

    fn handle(&mut self, message: queue::Stop, ctx: &mut Self::Context) {
        let queue::Stop { lane, task, reason } = message;
        let wanted = |of: &Task| task.as_ref().is_none_or(|task| of.id == *task);
        let meant = match &mut self.lanes.get(&lane.topic).work {
            Work::Idle => false,
            Work::Preparing { charge, reason: kept, .. } => {
                let meant = wanted(&charge.task);
                if meant {
                    *kept = reason;
                }
                meant
            }
            Work::Running(running) => {
                let meant = wanted(&running.charge.task);
                if meant {
                    running.stop_reason = reason;
                } else if !running.turn.has_ended()
                    && let Some(at) = running.joined.iter().position(|(of, _)| wanted(of))
                {
                    // The turn goes on without it; the queue knows that it is to end.
                    let (withdrawn, _) = running.joined.remove(at);
                    running.turn.withdraw(&withdrawn.id);
                    self.queue.do_send(queue::Return {
                        task: withdrawn,
                        after: None,
                        uncounted: true,
                    });
                }
                meant
            }
        };
        if meant {
            self.stop(&lane.topic, Stop::Cancelled, ctx);
        }
    }
}

impl Handler<Spoke> for Team {
    type Result = ();

    fn handle(&mut self, spoke: Spoke, ctx: &mut Self::Context) {
        self.spoke(&spoke.topic, &spoke.turn, spoke.event, ctx);
    }
}

impl Handler<Retire> for Team {
    type Result = ();

    fn handle(&mut self, Retire: Retire, ctx: &mut Self::Context) {
        self.retiring = true;
        for topic in self.lanes.topics() {
            if let Some(running) = self.lanes.any_running(&topic) {
                let turn = running.charge.turn.clone();
                self.perform(&topic, &turn, ctx);
            }
        }
    }
}

impl Handler<Ping> for Team {
    type Result = ();

    fn handle(&mut self, Ping { place, answer }: Ping, _: &mut Self::Context) {
        answer.do_send(Answered { team: self.name.clone(), incarnation: self.incarnation, place });
    }
}

impl Handler<PutAway> for Team {
    type Result = ();

    fn handle(&mut self, PutAway: PutAway, ctx: &mut Self::Context) {
        self.leaving = true;
        ctx.stop();
    }
}
