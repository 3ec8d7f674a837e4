//! Session: a running turn, with what it has begun, said and spent.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::{AbortHandle, JoinHandle},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    context::TeamContext,
    history::StepIndex,
    lease::LeasedTask,
    output_buffer::{LiveStream, OutputBuffer, TextStream},
    preparation::{InboxShare, Prepared},
    turn::{Turn, Want},
    watchdog::Watchdog,
};
use crate::{
    approvals::record::Approval,
    briefing::Brief,
    budget::{Cost, Near, Overdrawn, Reservation, SpentRow},
    continuations::Timer,
    engine::Unbooked,
    history::HistoryEvent,
    ids::{ApprovalId, CallId, LeaseId},
    journal::{LaneHistory, fold::TurnFold},
    queue::ACK_AFTER,
    task::{Kind, Task},
    tool::Caller,
    usage::Usage,
};

/// A turn at work. Dropping it cancels what it started.
pub(super) struct Session {
    pub(super) cx: Arc<TeamContext>,
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
    pub(super) buffer: OutputBuffer,
    pub(super) ack_due: Instant,
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
    pub(super) retiring: bool,
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
    pub(super) watch: Option<Timer>,
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
        let wants = prepared.first_wants(&mut turn, task, &caller, &cx.recipe.requests);
        let Prepared { history, journal, inbox, approvals, brief, .. } = prepared;
        let steps = StepIndex::of(&journal);
        let mut fold = TurnFold::default();
        journal.into_iter().for_each(|event| fold.on(event));
        let cancel_token = CancellationToken::new();
        Self {
            buffer: OutputBuffer::new(task.acked || !awaits_ack),
            ack_due: Instant::now() + (task.created_at + ACK_AFTER).since(now),
            watchdog: Watchdog::new(deadline, brief.idle_timeout),
            cx,
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

    /// What its lane remembers after it. A compaction is read again with what stands for it now.
    pub(super) fn into_history(self) -> Option<LaneHistory> {
        (self.leased.task.kind != Kind::Compact).then_some(self.history)
    }

    /// It works on what was leased so.
    pub(super) fn holds(&self, lease: &LeaseId) -> bool {
        self.leased.lease == *lease || self.joined.iter().any(|(_, joined)| joined == lease)
    }
}
