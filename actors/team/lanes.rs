//! Lanes: what a team is working on. At most one turn in each, by construction.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use actix::SpawnHandle;
use tokio::{
    task::{AbortHandle, JoinHandle},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    ack::Gate,
    aloud::Aloud,
    turn::{Stop, Turn, Want},
};
use crate::{
    approvals::record::Approval,
    briefing::{Brief, Line},
    budget::{Cost, Near, Overdrawn, Reservation, SpentRow},
    clock::Timestamp,
    history::{Fact, HistoryEvent, Meta},
    ids::{ApprovalId, CallId, LeaseId, TaskId, TopicId, TurnId},
    inbox::InboxEvent,
    task::{Kind, Label, Task},
    tool::{Caller, Checked, ToolCall, ToolReply},
    usage::Usage,
};

/// The conversation that a turn is shown holds this many lines …
pub(super) const RECENT_LINES: usize = 10;
/// … that are not older than this.
pub(super) const RECENT_AGE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
/// More lanes than this are not kept while they are idle.
const KEPT_LANES: usize = 1_000;

/// The lanes of one team, by topic.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<Option<TopicId>, LaneState>,
}

/// What is known of a lane.
#[derive(Default)]
pub(super) struct LaneState {
    /// Set once the lane's history has been read.
    pub(super) memory: Option<Memory>,
    pub(super) work: Work,
}

/// What a lane keeps from turn to turn.
pub(super) struct Memory {
    /// The `seq` of the next event.
    pub(super) next_seq: u64,
    /// What was said lately, in a topic.
    pub(super) recent: VecDeque<Line>,
    /// What stands for all before that.
    pub(super) summary: Option<Line>,
}

impl Memory {
    /// What was said lately, oldest first, for a turn on a task with this label; and how many lines
    /// were left out.
    ///
    /// A turn that is to be believed is not shown what is not: else one line of a stranger would
    /// make whatever a person says in the next 24 hours as untrusted, without a way out.
    pub(super) fn conversation(&self, now: Timestamp, label: Label) -> (Vec<Line>, usize) {
        let recent = self.recent.iter().filter(|line| line.at + RECENT_AGE > now);
        let recent = self.summary.iter().chain(recent);
        let (shown, withheld): (Vec<&Line>, Vec<&Line>) =
            recent.partition(|line| line.label <= label);
        (shown.into_iter().cloned().collect(), withheld.len())
    }

    pub(super) fn remember(&mut self, line: Line) {
        self.recent.push_back(line);
        if self.recent.len() > RECENT_LINES {
            self.recent.pop_front();
        }
    }
}

/// What a lane is doing.
#[derive(Default)]
pub(super) enum Work {
    #[default]
    Idle,
    /// Its turn is being prepared; a stop meanwhile is kept for it.
    Preparing {
        charge: Box<Charge>,
        stop: Option<Stop>,
        /// Why it is stopped, for whoever asked for the work.
        reason: Option<String>,
    },
    Running(Box<Running>),
}

/// A leased task in the hands of a turn.
#[derive(Clone)]
pub(super) struct Charge {
    pub(super) task: Task,
    pub(super) lease: LeaseId,
    pub(super) turn: TurnId,
    pub(super) began: Instant,
}

/// A call into foreign code. Dropping it stops the call at once.
pub(super) struct Call(AbortHandle);

impl Call {
    pub(super) fn of<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A turn at work. Dropping it cancels what it started.
pub(super) struct Running {
    pub(super) charge: Charge,
    pub(super) turn: Turn,
    pub(super) brief: Brief,
    pub(super) caller: Arc<Caller>,
    pub(super) cancel: CancellationToken,
    pub(super) _cancel_on_drop: DropGuard,
    pub(super) model: Option<Call>,
    pub(super) tools: HashMap<CallId, Call>,
    /// What the turn wants done, in order.
    pub(super) wants: VecDeque<Want>,
    /// A commit is under way; what follows waits for it.
    pub(super) committing: bool,
    /// How many events that commit adds to the journal.
    pub(super) recording: u64,
    /// Calls whose results it makes durable.
    pub(super) settling: Vec<(CallId, String)>,
    /// The turn was stopped; its end waits for its tools, up to the grace period.
    pub(super) stopping: bool,
    pub(super) gate: Gate,
    /// An ack is being stored.
    pub(super) acking: bool,
    /// What tries of the present call have cost that gave no answer.
    pub(super) lost: Usage,
    /// How many bytes the present try has brought so far.
    pub(super) heard: usize,
    /// What the model has said in the present step.
    pub(super) streaming: String,
    /// What of it has not been sent yet.
    pub(super) unsent: String,
    pub(super) flush: Option<SpawnHandle>,
    /// So often the person is not told yet that what was said before is void.
    pub(super) voiding: u32,
    /// What of it whoever watches has not been told yet.
    pub(super) aloud: Aloud,
    pub(super) watch: Option<SpawnHandle>,
    pub(super) settle: Option<SpawnHandle>,
    pub(super) deadline: Instant,
    pub(super) ack_due: Instant,
    pub(super) last_sign: Instant,
    /// The sign after which the operator was told that none followed.
    pub(super) warned: Option<Instant>,
    /// The decisions on its held calls.
    pub(super) approvals: HashMap<ApprovalId, Approval>,
    /// What is set aside for the model call that runs.
    pub(super) reserved: Option<Reservation>,
    /// Why the next one cannot be made.
    pub(super) overdrawn: Option<Overdrawn>,
    /// What the team has spent today, until that is stored.
    pub(super) spent: Option<SpentRow>,
    /// What the task has cost, the same.
    pub(super) cost: Option<Cost>,
    /// Budgets that are nearly spent, until that is told.
    pub(super) near: Vec<Near>,
    /// Why it is stopped, for whoever asked for the work.
    pub(super) stop_reason: Option<String>,
    /// Events of the lane's inbox that the turn shows, until that is stored.
    pub(super) seen: Vec<u64>,
    /// The one of them that it shows in part, the same.
    pub(super) kept: Option<InboxEvent>,
    /// Some wait for the next turn.
    pub(super) unseen: bool,
    /// Tasks that joined the turn.
    pub(super) joined: Vec<(Task, LeaseId)>,
    pub(super) requested: bool,
    /// Where in the journal its steps begin.
    pub(super) steps: Vec<(u32, u64)>,
}

impl Running {
    /// Remembers where steps begin, and says it where the journal asks for it.
    pub(super) fn place(&mut self, event: &mut HistoryEvent) {
        if let Some(step) = event.fact.step()
            && self.steps.last().is_none_or(|(last, _)| *last < step)
        {
            self.steps.push((step, event.seq));
        }
        if let Fact::Meta(Meta::Compaction(compaction)) = &mut event.fact
            && let Some(from) = compaction.keep_from_step
        {
            let kept = self.steps.iter().find(|(step, _)| *step >= from);
            compaction.keep_from_seq = kept.map(|(_, seq)| *seq);
        }
    }

    /// Messages of a person are read in it.
    pub(super) fn reads_messages(&self) -> bool {
        self.charge.task.kind != Kind::Compact
    }

    /// Looks again at a call that was decided on.
    pub(super) fn recheck(&self, call: &ToolCall) -> Result<Checked, ToolReply> {
        self.brief.tools.recheck(call, &self.caller, self.turn.label())
    }

    /// Looks at a call on behalf of the turn.
    pub(super) fn check(&self, call: &ToolCall) -> Result<Checked, ToolReply> {
        self.brief.tools.check(call, &self.caller, self.turn.label())
    }

    /// Whose work it is, for the log of what runs elsewhere: a panic there has nothing else to go by.
    pub(super) fn span(&self) -> tracing::Span {
        let task = &self.charge.task;
        tracing::error_span!("turn", team = %task.lane.team, task = %task.id)
    }

    /// The results of calls are durable.
    pub(super) fn settle_calls(&mut self) {
        for (call, tool) in std::mem::take(&mut self.settling) {
            self.brief.tools.settled(&call, &tool, &self.caller);
        }
    }
}

impl Lanes {
    pub(super) fn get(&mut self, topic: &Option<TopicId>) -> &mut LaneState {
        self.lanes.entry(topic.clone()).or_default()
    }

    /// The running turn of a lane, if it is still this one: a reply of a turn that has ended
    /// meanwhile finds no one.
    pub(super) fn running(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
    ) -> Option<&mut Running> {
        match &mut self.lanes.get_mut(topic)?.work {
            Work::Running(running) if running.charge.turn == *turn => Some(running),
            _ => None,
        }
    }

    /// The turn of a lane, whichever it is.
    pub(super) fn any_running(&mut self, topic: &Option<TopicId>) -> Option<&mut Running> {
        match &mut self.lanes.get_mut(topic)?.work {
            Work::Running(running) => Some(running),
            _ => None,
        }
    }

    /// A lane works on what was leased so.
    pub(super) fn holds(&self, topic: &Option<TopicId>, lease: &LeaseId) -> bool {
        match self.lanes.get(topic).map(|lane| &lane.work) {
            Some(Work::Preparing { charge, .. }) => charge.lease == *lease,
            Some(Work::Running(running)) => {
                let joined = running.joined.iter().any(|(_, joined)| joined == lease);
                joined || running.charge.lease == *lease
            }
            _ => false,
        }
    }

    /// What is being worked on.
    pub(super) fn tasks(&self) -> Vec<TaskId> {
        let tasks = self.lanes.values().filter_map(|lane| match &lane.work {
            Work::Preparing { charge, .. } => Some(charge.task.id.clone()),
            Work::Running(running) => Some(running.charge.task.id.clone()),
            _ => None,
        });
        tasks.collect()
    }

    pub(super) fn are_idle(&self) -> bool {
        self.lanes.values().all(|lane| matches!(lane.work, Work::Idle))
    }

    pub(super) fn topics(&self) -> Vec<Option<TopicId>> {
        self.lanes.keys().cloned().collect()
    }

    /// A lane has nothing to do now.
    pub(super) fn rest(&mut self, topic: &Option<TopicId>) {
        self.get(topic).work = Work::Idle;
        if self.lanes.len() > KEPT_LANES {
            self.lanes.retain(|_, lane| !matches!(lane.work, Work::Idle));
        }
    }
}
