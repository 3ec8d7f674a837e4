//! Session: a running turn and its effects.
//!
//! The turn decides, the session does what it wants, in order. What must be durable before the rest is
//! committed first, and the rest waits for that. Foreign code runs on tasks of its own, and what comes
//! back finds the session by its key, if it is still there.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use actix::Context;
use tokio::{
    task::{AbortHandle, JoinHandle},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Team,
    context::TeamContext,
    gate::{Gate, LiveStream, TextStream},
    history::StepIndex,
    lease::{Cancellation, LeasedTask},
    outcome::After,
    preparation::{InboxShare, Prepared},
    turn::{Input, Stop, Turn, Want},
    watchdog::{Alarm, Watchdog},
};
use crate::{
    approvals::record::Approval,
    briefing::Brief,
    budget::{Cost, Near, Overdrawn, Reservation, SpentRow},
    continuations::{Continuations, Timer},
    engine::Unbooked,
    history::HistoryEvent,
    ids::{ApprovalId, CallId, LeaseId},
    journal::{LaneHistory, fold::TurnFold},
    queue::ACK_AFTER,
    store::records::Writes,
    task::{Kind, Task},
    tool::Caller,
    usage::Usage,
};

/// A turn at work. Dropping it cancels what it started.
pub(super) struct Session {
    pub(super) cx: Arc<TeamContext>,
    continuations: Continuations<Team>,
    pub(super) leased: LeasedTask,
    pub(super) turn: Turn,
    pub(super) brief: Brief,
    pub(super) caller: Arc<Caller>,
    pub(super) history: LaneHistory,
    /// What the turn wants done, in order.
    pub(super) wants: VecDeque<Want>,
    pub(super) cancel_token: CancellationToken,
    _cancel_on_drop: DropGuard,
    pub(super) model: Option<RunningCall>,
    pub(super) tools: HashMap<CallId, RunningCall>,
    /// The model was asked before.
    pub(super) requested: bool,
    /// What it began with, until the first commit of its journal holds that too.
    pub(super) begun: Vec<HistoryEvent>,
    /// A commit is under way; what follows waits for it.
    pub(super) committing: bool,
    /// The events that it adds to the journal.
    pub(super) recording: Vec<HistoryEvent>,
    /// The turn as later ones will be shown it.
    pub(super) fold: TurnFold,
    /// Calls whose results it makes durable.
    pub(super) settling: Vec<(CallId, String)>,
    pub(super) steps: StepIndex,
    pub(super) gate: Gate,
    ack_due: Instant,
    pub(super) text: TextStream,
    pub(super) live: LiveStream,
    pub(super) watchdog: Watchdog,
    pub(super) timers: Timers,
    pub(super) spending: Spending,
    /// The decisions on its held calls.
    pub(super) approvals: HashMap<ApprovalId, Approval>,
    pub(super) inbox: InboxShare,
    /// Tasks that joined the turn, oldest first.
    pub(super) joined: Vec<(Task, LeaseId)>,
    /// Why it is stopped, for whoever asked for the work.
    pub(super) stop_reason: Option<String>,
    /// The turn was stopped; its end waits for its tools, up to the grace period.
    pub(super) stopping: bool,
    /// The process is stopping: nothing begins any more.
    retiring: bool,
    /// Nothing of it is left to do, or counts any more: its lane is free.
    pub(super) over: bool,
}

/// What a session has set aside, and what it has spent until that is stored.
#[derive(Default)]
pub(super) struct Spending {
    /// For the model call that runs.
    pub(super) reserved: Option<Reservation>,
    /// Why the next one cannot be made.
    pub(super) overdrawn: Option<Overdrawn>,
    /// What the team has spent today.
    pub(super) team: Option<SpentRow>,
    /// What the task has cost.
    pub(super) task: Option<Cost>,
    /// Budgets that are nearly spent.
    pub(super) near: Vec<Near>,
    /// What all tries of the present call have cost.
    pub(super) tries: Usage,
    /// How many bytes the present try has brought so far.
    pub(super) heard: usize,
    /// What calls of an engine that makes several in a step have cost.
    pub(super) unbooked: Unbooked,
}

/// A call into foreign code. Dropping it stops the call at once.
pub(super) struct RunningCall(AbortHandle);

impl RunningCall {
    pub(super) fn of<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Timers of a session. They are cancelled with it.
#[derive(Default)]
pub(super) struct Timers {
    pub(super) ack: Option<Timer>,
    pub(super) text: Option<Timer>,
    pub(super) live: Option<Timer>,
    watch: Option<Timer>,
}

impl Timers {
    pub(super) fn cancel(&mut self) {
        let Self { ack, text, live, watch } = std::mem::take(self);
        [ack, text, live, watch].into_iter().flatten().for_each(Timer::cancel);
    }
}

impl Session {
    /// A session that has done nothing yet. `known` is what the lane remembers, if it does; `overhead`
    /// is how many characters the model is told besides the conversation.
    pub(super) fn new(
        cx: Arc<TeamContext>,
        continuations: Continuations<Team>,
        mut leased: LeasedTask,
        known: Option<LaneHistory>,
        mut prepared: Prepared,
        overhead: usize,
    ) -> Self {
        // A turn that goes on keeps its name.
        if let Some(first) = prepared.journal.first() {
            leased.turn = first.turn.clone();
        }
        let (task, now) = (&leased.task, cx.now());
        // It may have begun anew since it was read.
        prepared.history.begin_anew(known.and_then(|known| known.began()));
        let earlier = prepared.earlier();
        let brief = &prepared.brief;
        let max_steps = task.options.max_steps.unwrap_or(brief.max_steps);
        let mut heard = task.clone();
        heard.body = prepared.words.take().unwrap_or(heard.body);
        let turn = Turn::new(leased.turn.clone(), heard, max_steps);
        let mut turn = turn.within(brief.room, overhead, earlier).labelled(brief.label);
        let caller = Arc::new(Caller::of(task));
        let own_limit = task.options.turn_timeout_ms.map(Duration::from_millis);
        let limit = own_limit.unwrap_or(brief.turn_timeout);
        let limit = limit.saturating_sub(prepared.time_before());
        let deadline = leased.began + task.deadline_at.since(now).min(limit);
        let awaits_ack = task.source.as_ref().is_some_and(|source| source.message.is_some());
        let wants = prepared.first_wants(&mut turn, task, &caller, &cx.recipe.desk);
        let Prepared { history, journal, inbox, approvals, brief, .. } = prepared;
        let steps = StepIndex::of(&journal);
        let mut fold = TurnFold::default();
        journal.into_iter().for_each(|event| fold.on(event));
        let cancel_token = CancellationToken::new();
        Self {
            gate: Gate::new(task.acked || !awaits_ack),
            ack_due: Instant::now() + (task.created_at + ACK_AFTER).since(now),
            watchdog: Watchdog::new(deadline, brief.idle_timeout),
            cx,
            continuations,
            leased,
            turn,
            brief,
            caller,
            history,
            wants: wants.into(),
            _cancel_on_drop: cancel_token.clone().drop_guard(),
            cancel_token,
            model: None,
            tools: HashMap::new(),
            requested: false,
            begun: Vec::new(),
            committing: false,
            recording: Vec::new(),
            fold,
            settling: Vec::new(),
            steps,
            text: TextStream::default(),
            live: LiveStream::default(),
            timers: Timers::default(),
            spending: Spending::default(),
            approvals,
            inbox,
            joined: Vec::new(),
            stop_reason: None,
            stopping: false,
            retiring: false,
            over: false,
        }
    }

    /// Begins, or ends at once if its task was cancelled before.
    pub(super) fn start(&mut self, cancelled: Option<Cancellation>, ctx: &mut Context<Team>) {
        self.arm_watch(ctx);
        self.expect_joined_acks(ctx);
        let is_new = self.leased.begins();
        let begins = |want: &mut Want| matches!(want, Want::Record(_, frames) if is_new && frames.is_empty());
        if let Some(Want::Record(facts, _)) = self.wants.pop_front_if(begins) {
            self.begin(facts);
        }
        match cancelled {
            Some(Cancellation { reason }) => self.cancel(None, reason, ctx),
            None => self.perform(ctx),
        }
    }

    /// What its lane remembers after it. A compaction is read again with what stands for it now.
    pub(super) fn into_history(self) -> Option<LaneHistory> {
        (self.leased.task.kind != Kind::Compact).then_some(self.history)
    }

    /// It works on what was leased so.
    pub(super) fn holds(&self, lease: &LeaseId) -> bool {
        self.leased.lease == *lease || self.joined.iter().any(|(_, joined)| joined == lease)
    }

    /// Tells the turn something and does what it then wants.
    pub(super) fn hear(&mut self, input: Input, ctx: &mut Context<Team>) {
        self.watchdog.sign();
        if matches!(input, Input::Stop(..)) && !self.turn.ended {
            // What was wanted but not begun is not wanted any more; what happened is still kept.
            self.wants.retain(|want| !want.begins());
        }
        self.wants.extend(self.turn.on(input));
        self.perform(ctx);
    }

    /// Does what the turn wants, in order, up to the next thing that must be durable first.
    pub(super) fn perform(&mut self, ctx: &mut Context<Team>) {
        while !self.over && !self.committing && !self.holds_its_end() {
            if self.retiring {
                // Nothing begins any more; what runs is waited for and recorded.
                while self.wants.pop_front_if(|want| want.begins()).is_some() {}
                if self.wants.is_empty() && self.model.is_none() && self.tools.is_empty() {
                    self.leave();
                    return self.cx.give_back(self.leased.task.clone());
                }
            }
            let Some(want) = self.wants.pop_front() else { return };
            match want {
                Want::Record(facts, frames) => {
                    self.record(facts, frames, Writes::new(), After::go_on(), ctx);
                }
                Want::Stash(stows) => self.stash(stows, ctx),
                Want::Hold(facts, frames, held) => self.hold(facts, frames, held, ctx),
                Want::Mark(approval, execution) => self.mark(&approval, execution, ctx),
                Want::Park(facts, frames, wait) => self.park(facts, frames, wait, ctx),
                Want::CallModel => self.call_model(ctx),
                Want::Summarise(request) => self.summarise(request, ctx),
                Want::CallTool { call, rerun } => self.call_tool(call, rerun, ctx),
                Want::StopCalls => self.stop_calls(ctx),
                Want::End(facts, end) => self.end(facts, end, ctx),
                Want::Suspend(facts, frames, pause) => {
                    self.record(facts, frames, Writes::new(), After::Returned(pause), ctx);
                }
            }
        }
    }

    /// The end of a stopped turn waits until its tools have stopped too.
    fn holds_its_end(&self) -> bool {
        let ends = |want: &Want| matches!(want, Want::End(..) | Want::Suspend(..) | Want::Park(..));
        self.stopping && !self.tools.is_empty() && self.wants.front().is_some_and(ends)
    }

    /// Leaves the lane, with the messages that joined.
    pub(super) fn leave(&mut self) {
        self.over = true;
        self.cx.give_back_joined(std::mem::take(&mut self.joined));
    }

    /// The process is stopping: the turn goes on to its next commit point and gives its task back.
    pub(super) fn retire(&mut self, ctx: &mut Context<Team>) {
        self.retiring = true;
        self.perform(ctx);
    }

    pub(super) fn stop(&mut self, stop: Stop, ctx: &mut Context<Team>) {
        let said = std::mem::take(&mut self.text.said);
        self.hear(Input::Stop(stop, said), ctx);
    }

    /// Looks at the clock: the deadline, signs of life, the ack.
    fn watch(&mut self, ctx: &mut Context<Team>) {
        match self.watchdog.alarm(self.turn.longest_call()) {
            Some(Alarm::Deadline) => return self.stop(Stop::Deadline, ctx),
            Some(Alarm::Stalled(silent)) => {
                self.tell_of_stall(silent, "it was stopped, and is tried again if it may be.");
                return self.stop(Stop::Stalled, ctx);
            }
            Some(Alarm::Warning(silent, rest)) => {
                self.tell_of_stall(silent, &format!("a warning. In {rest} s it is stopped."));
            }
            None => {}
        }
        if self.ack_due().is_some_and(|due| due <= Instant::now()) {
            self.acknowledge(ctx);
        }
        self.arm_watch(ctx);
    }

    fn arm_watch(&mut self, ctx: &mut Context<Team>) {
        let next = self.watchdog.next(self.turn.longest_call());
        let next = self.ack_due().map_or(next, |due| next.min(due));
        let pause = next.saturating_duration_since(Instant::now());
        self.timers.watch = Some(self.later(pause, ctx, Self::watch));
    }

    /// When its message must be acknowledged. A turn that has decided its end sends its ack with it.
    fn ack_due(&self) -> Option<Instant> {
        (self.gate.is_waiting() && !self.turn.ended).then_some(self.ack_due)
    }

    fn tell_of_stall(&self, silent: u64, done: &str) {
        let done = format!("Nothing moved in a turn for {silent} s: {done}");
        self.cx.tell_of_stall(&self.leased.task.id, done);
    }

    /// Goes on with what a future comes to, if the session is still there then.
    pub(super) fn after<F: Future + 'static>(
        &self,
        future: F,
        ctx: &mut Context<Team>,
        then: impl FnOnce(&mut Self, F::Output, &mut Context<Team>) + 'static,
    ) {
        let key = self.leased.key();
        self.continuations.after(future, ctx, move |team, output, ctx| {
            team.resume(&key, ctx, |session, ctx| then(session, output, ctx));
        });
    }

    /// The same after a pause.
    pub(super) fn later(
        &self,
        pause: Duration,
        ctx: &mut Context<Team>,
        then: impl FnOnce(&mut Self, &mut Context<Team>) + 'static,
    ) -> Timer {
        let key = self.leased.key();
        self.continuations.later(pause, ctx, move |team, ctx| team.resume(&key, ctx, then))
    }
}
