//! Preparation of a turn: what is loaded and asked before it begins.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio_util::task::AbortOnDropHandle;

use super::{
    context::TeamContext,
    held_calls,
    history::{self, Past},
    lease::{Cancellation, LeasedTask},
    outcome,
    turn::{
        End, Turn, Want,
        conversation::{most_of_summary, most_of_thread},
        ending::pause_after,
        resume::interruption,
    },
};
use crate::{
    approvals::{record::Approval, requests::RequestBuilder},
    briefing::{Assignment, Brief, Handed, Hindrance},
    clock::millis,
    excerpt::READER,
    frame::{Progress, ProgressKind},
    history::{Fact, HistoryEvent, Idle, Meta},
    ids::{ApprovalId, ChannelId},
    inbox::{self, InboxEvent, Shown},
    journal::{
        self, LaneHistory,
        scope::Scope,
        thread::{Earlier, Reader, Thread},
    },
    queue::{
        Return,
        parking::{Hindered, Park},
    },
    storage::StorageError,
    store::{StoreHandle, reads::get},
    task::{
        Kind, Task, Wait, WaitReason,
        cause::Cause,
        outcome::{Code, Ending},
    },
    tool::{Caller, Direction, Toolset},
};

/// What a session begins with.
pub(super) struct Prepared {
    pub(super) history: LaneHistory,
    /// What the turn has done before, if it goes on.
    pub(super) journal: Vec<HistoryEvent>,
    pub(super) inbox: InboxShare,
    /// What the turn is shown of it.
    shown: Shown,
    /// The conversation begins anew with the turn: nothing was said for so long.
    idle: Option<Idle>,
    pub(super) approvals: HashMap<ApprovalId, Approval>,
    pub(super) brief: Brief,
    /// What is to be summarised, if that is the task; else why it cannot be.
    past: Option<Result<Past, String>>,
    /// What the person said, as plugins put it.
    pub(super) words: Option<String>,
}

impl Prepared {
    /// Begins the turn, or goes on with it: what it wants first.
    pub(super) fn first_wants(
        &mut self,
        turn: &mut Turn,
        task: &Task,
        caller: &Caller,
        requests: &RequestBuilder,
    ) -> Vec<Want> {
        let start = self.turn_start(task);
        if let Some(past) = self.past.take() {
            return turn.compact(start, past);
        }
        if self.journal.is_empty() {
            let files = std::mem::take(&mut self.brief.files);
            let mut wants = turn.begin(start, &self.shown, files);
            if let Some(Want::Record(_, frames)) = wants.first_mut() {
                // An earlier attempt was cut off before anything of it was written: whoever is acknowledged
                // may have heard words of it.
                if task.acked && task.attempts > 1 {
                    frames.push(interruption());
                }
                frames
                    .extend(self.idle.map(|idle| Progress::new(ProgressKind::Note, idle.words())));
            }
            return wants;
        }
        let tools = &self.brief.tools;
        turn.resume(
            start,
            &self.journal,
            |call, approval, label| match approval {
                Some(_) => tools.recheck(call, caller, label),
                None => tools.check(call, caller, label),
            },
            |id, call, label| {
                let now = tools.recheck(call, caller, label);
                let approval = self.approvals.get(id);
                held_calls::decision(requests, approval, call, caller, now.as_ref().ok())
            },
        )
    }

    fn turn_start(&self, task: &Task) -> Fact {
        let brief = &self.brief;
        let (cause, source_channel) = self.place(task);
        Fact::TurnStart {
            task_ids: vec![task.id.clone()],
            team: task.lane.team.clone(),
            topic: task.lane.topic.clone(),
            source_channel,
            attempt: task.attempts,
            redelivered: task.redelivered,
            sdk: brief.sdk.clone(),
            provider: brief.provider.clone(),
            model: brief.model.clone(),
            prompt_hash: brief.prompt_hash.clone(),
            toolset_hash: brief.toolset_hash.clone(),
            cause: Some(cause),
            root: Some(task.root().clone()),
            idle: self.idle.filter(|_| self.journal.is_empty()),
        }
    }

    /// Who is behind the turn, and where they talk. A summary belongs to the conversation that it is of, whoever
    /// wanted it.
    fn place(&self, task: &Task) -> (Cause, Option<ChannelId>) {
        if task.kind == Kind::Compact
            && let Some(thread) = self.history.thread()
            && let Scope::Person { cause, channel } = &thread.reader.scope
        {
            return (cause.clone(), channel.clone());
        }
        let channel = task.source.as_ref().map(|source| source.channel.clone());
        (task.caused_by(), channel)
    }

    /// What the turn is shown of what came before it.
    pub(super) fn earlier(&self) -> Earlier {
        match self.idle {
            Some(_) => Earlier::default(),
            None => self.history.earlier(self.journal.first().map(|first| first.seq)),
        }
    }

    /// How long the turn was at work before, in all: what passed between two leases does not count.
    pub(super) fn time_before(&self) -> Duration {
        let mut time = Duration::ZERO;
        let mut since = None;
        for event in &self.journal {
            if matches!(event.fact, Fact::TurnStart { .. }) {
                since = Some(event.timestamp);
            } else if let Some(last) = since.replace(event.timestamp) {
                time += event.timestamp.since(last);
            }
        }
        time
    }
}

/// What a turn takes out of its lane's inbox, until that is stored.
#[derive(Debug, Default)]
pub(super) struct InboxShare {
    /// Events that it shows.
    pub(super) seen: Vec<u64>,
    /// The one of them that it shows in part.
    pub(super) kept: Option<InboxEvent>,
    /// Some wait for the next turn.
    pub(super) leaves_some: bool,
}

impl InboxShare {
    /// As much of these events as a turn with such tools is shown; there may be more, for others.
    pub(super) fn of(
        events: Vec<(u64, InboxEvent)>,
        others: bool,
        tools: &dyn Toolset,
    ) -> (Self, Shown) {
        let (numbers, events): (Vec<u64>, Vec<InboxEvent>) = events.into_iter().unzip();
        let can_read = tools.specs().iter().any(|spec| spec.name == READER);
        let shown = inbox::show(&events, can_read);
        let share = Self {
            leaves_some: others || shown.count < events.len(),
            seen: numbers.into_iter().take(shown.count).collect(),
            kept: events.into_iter().next().filter(|_| shown.is_cut),
        };
        (share, shown)
    }

    /// What it shows is stored.
    pub(super) fn stored(&mut self) {
        self.seen.clear();
        self.kept = None;
    }
}

/// How many characters the model is told besides the conversation. What a tool set has is counted once.
#[derive(Default)]
pub(super) struct PromptSize {
    /// Of the tools, for the set of this name.
    tools: Option<(String, usize)>,
}

impl PromptSize {
    pub(super) fn of(&mut self, brief: &Brief) -> usize {
        let count = |text: &str| text.chars().count();
        let tools = match &self.tools {
            Some((hash, characters)) if *hash == brief.toolset_hash => *characters,
            _ => {
                let specs = brief.tools.specs();
                let sizes = specs.iter().map(|spec| {
                    count(&spec.name) + count(&spec.description) + count(&spec.schema.to_string())
                });
                let characters = sizes.sum();
                self.tools = Some((brief.toolset_hash.clone(), characters));
                characters
            }
        };
        let system = &brief.system;
        count(&system.shared) + count(&system.team) + count(&system.turn) + tools
    }
}

pub(super) struct Unprepared {
    code: Code,
    message: String,
    /// What was to be prepared.
    assignment: Option<Box<Assignment>>,
}

impl Unprepared {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), assignment: None }
    }
}

impl From<StorageError> for Unprepared {
    fn from(error: StorageError) -> Self {
        Self::new(Code::Internal, error.to_string())
    }
}

/// Prepares the turn of a task, within the time that there is for it. `known` is what its lane
/// remembers, if it does; `inbox` says whether that holds something.
pub(super) async fn prepare(
    cx: Arc<TeamContext>,
    task: Task,
    known: Option<LaneHistory>,
    inbox: bool,
) -> Result<Prepared, Unprepared> {
    let limit = cx.recipe.preparation;
    let prepared = tokio::time::timeout(limit, load(&cx, task, known, inbox)).await;
    prepared.unwrap_or_else(|_| {
        let message = format!(
            "preparing the turn took longer than {} s; look at the disk that the team's folders are on",
            limit.as_secs()
        );
        Err(Unprepared::new(Code::Stalled, message))
    })
}

async fn load(
    cx: &TeamContext,
    task: Task,
    known: Option<LaneHistory>,
    inbox: bool,
) -> Result<Prepared, Unprepared> {
    let (store, now) = (&cx.recipe.store, cx.now());
    let journal = if task.redelivered {
        let task = task.clone();
        store.read(move |storage| journal::unfinished_turn(storage, &task)).await?
    } else {
        Vec::new()
    };
    // A turn that goes on has its files.
    let handed = if journal.is_empty() { handed(&task) } else { Handed::default() };
    let brief = brief(cx, &task, handed).await?;
    let history = history_of(cx, &task, known, &brief).await?;
    let approvals = approvals_of(&journal, store).await?;
    let compacts = task.kind == Kind::Compact;
    // A turn that goes on has been shown what there was.
    let reads_inbox = journal.is_empty() && !compacts;
    let events = if inbox && reads_inbox {
        let (lane, generation) = (task.lane.clone(), task.generation);
        store.read(move |storage| inbox::waiting(storage, &lane, generation)).await?
    } else {
        Vec::new()
    };
    let (inbox, shown) = if reads_inbox {
        let audience = task.audience();
        let is_shown = |(_, event): &(u64, InboxEvent)| event.is_for(&task.lane, &audience);
        let (own, others): (Vec<_>, Vec<_>) = events.into_iter().partition(is_shown);
        InboxShare::of(own, !others.is_empty(), &*brief.tools)
    } else {
        // All of it waits for a turn that reads it.
        (InboxShare { leaves_some: true, ..InboxShare::default() }, Shown::default())
    };
    let past = compacts.then(|| history::past(history.thread(), now, most_of_summary(brief.room)));
    let idle = match journal.first() {
        // A turn that goes on does so in the conversation that it began in.
        Some(first) => match first.fact {
            Fact::TurnStart { idle, .. } => idle,
            _ => None,
        },
        None => idle_time(&task, history.thread(), brief.conversation_idle),
    };
    let words = reworded(&task, &journal, &*brief.tools).await;
    Ok(Prepared { history, journal, inbox, shown, idle, approvals, brief, past, words })
}

/// What a person said as plugins put it; none if that is as it was. A turn that goes on has heard it.
async fn reworded(task: &Task, journal: &[HistoryEvent], tools: &dyn Toolset) -> Option<String> {
    let is_said = task.source.as_ref().is_some_and(|source| source.message.is_some());
    if !is_said || !journal.is_empty() || task.kind == Kind::Compact {
        return None;
    }
    let words = tools.reword(Direction::Inbound, task.body.clone(), &Caller::of(task))?.await;
    (words != task.body).then_some(words)
}

/// How long nothing was said when a person's message came, if that was too long for the conversation to go on. Only stored
/// times count, so that a turn that is prepared again comes to the same.
fn idle_time(task: &Task, thread: Option<&Thread>, longest: Option<Duration>) -> Option<Idle> {
    let is_of_person = task.kind == Kind::Chat && task.caused_by() != Cause::System;
    let thread = thread.filter(|thread| matches!(thread.reader.scope, Scope::Person { .. }))?;
    let idle = task.created_at.since(thread.used_at()?);
    (is_of_person && idle > longest?).then(|| Idle(millis(idle)))
}

/// The decisions that a turn waited for.
async fn approvals_of(
    journal: &[HistoryEvent],
    store: &StoreHandle,
) -> Result<HashMap<ApprovalId, Approval>, StorageError> {
    let held = journal.iter().filter_map(|event| match &event.fact {
        Fact::Meta(Meta::Approval { approval, .. }) => Some(approval.clone()),
        _ => None,
    });
    let held: Vec<ApprovalId> = held.collect();
    if held.is_empty() {
        return Ok(HashMap::new());
    }
    let read = store.read(move |storage| {
        let mut approvals = HashMap::new();
        for id in held {
            if let Some(approval) = get::<Approval>(storage, &id)? {
                approvals.insert(id, approval);
            }
        }
        Ok(approvals)
    });
    read.await
}

/// What the lane of a task remembers, with the conversation that its turn is part of.
async fn history_of(
    cx: &TeamContext,
    task: &Task,
    known: Option<LaneHistory>,
    brief: &Brief,
) -> Result<LaneHistory, StorageError> {
    let compacts = task.kind == Kind::Compact;
    let label = task.label.max(brief.label);
    let reader = |scope| Reader { scope, label, clean: brief.clean.clone() };
    // A team without topics has no conversation that could be summarised.
    let scope = Scope::of(task).filter(|_| !compacts || task.lane.topic.is_some());
    let wanted = scope.map(reader);
    let most = most_of_thread(brief.room);
    if let (Some(known), Some(wanted)) = (&known, &wanted) {
        if known.is_of(wanted) {
            return Ok(known.clone());
        }
        // A message that leads to its first task has led to nothing before.
        if wanted.scope == Scope::Root(task.id.clone()) {
            return Ok(known.with_new(wanted.clone(), most));
        }
    }
    let task = task.clone();
    let read = cx.recipe.store.read(move |storage| {
        let mut wanted = wanted;
        if compacts
            && task.source.is_none()
            && let Some(wanted) = &mut wanted
            && let Some(scope) = journal::last_scope(storage, &task.lane_key())?
        {
            // An operator wants it, for whoever talked last.
            wanted.scope = scope;
        }
        journal::lane(storage, &task, wanted, known, most)
    });
    read.await
}

fn handed(task: &Task) -> Handed {
    if task.files.is_empty() {
        return Handed::default();
    }
    Handed { files: task.files.clone(), task: Some(task.id.clone()), label: task.label }
}

async fn brief(cx: &TeamContext, task: &Task, handed: Handed) -> Result<Brief, Unprepared> {
    let tree = match task.kind {
        Kind::Bootstrap => cx.recipe.view.once_it_has(cx.name.as_str()).await,
        _ => cx.recipe.view.now(),
    };
    let assignment = Assignment {
        lane: task.lane.clone(),
        generation: task.generation,
        topic: task.source.as_ref().and_then(|source| source.topic.clone()),
        ancestors: tree.ancestors(cx.name.as_str()),
        options: task.options.clone(),
        inner: task.kind == Kind::Agent,
        reports: task.kind == Kind::Trigger,
        handed,
    };
    let same = assignment.clone();
    let briefing = cx.recipe.briefing.clone();
    // On a task of its own: a panic in there ends this turn, not the team.
    let brief = crate::spawn::local(async move { briefing.brief(assignment).await });
    match AbortOnDropHandle::new(brief).await {
        Ok(Ok(brief)) => Ok(brief),
        Ok(Err(error)) => Err(Unprepared {
            assignment: Some(Box::new(same)),
            ..Unprepared::new(error.code, error.message)
        }),
        Err(_) => Err(Unprepared::new(Code::Internal, "preparing the turn failed unexpectedly")),
    }
}

impl Unprepared {
    /// Lets the work fail, or wait until the operator has put right what is wrong. Whoever cancelled
    /// it does not care what was in its way. The future is that of [`outcome::end_unprepared`].
    pub(super) fn settle(
        self,
        cx: &Arc<TeamContext>,
        leased: LeasedTask,
        cancelled: Option<Cancellation>,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let Self { code, message, assignment } = self;
        let end = |ending, code, message| End {
            ending,
            code: Some(code),
            message,
            text: String::new(),
            truncated: false,
        };
        if let Some(Cancellation { reason }) = cancelled {
            let end = end(Ending::Cancelled, Code::Cancelled, reason);
            return Some(outcome::end_unprepared(cx, leased, end));
        }
        let reason = WaitReason::Config;
        let of_settings = matches!(code, Code::ConfigError | Code::NoProvider);
        if of_settings && !leased.task.kind.is_awaited() {
            let task = leased.task;
            tracing::warn!(team = %cx.name, task = %task.id, error = message, "a task waits for settings to be put right");
            let deadline = task.deadline_at;
            let wait = Wait { reason, note: message, until: None };
            cx.queue.do_send(Park { task, wait });
            if let Some(assignment) = assignment {
                (cx.recipe.on_hindrance)(Hindrance::Brief(assignment, deadline));
            }
            return None;
        }
        if code.is_transient()
            && let Some(pause) = pause_after(leased.task.attempts)
        {
            let done = format!("{message}. It is tried again in {} s.", pause.as_secs());
            cx.tell_of_stall(&leased.task.id, done);
            let task = leased.task;
            cx.queue.do_send(Return { task, after: Some(pause), uncounted: false });
            return None;
        }
        if of_settings {
            let note = message.clone();
            cx.queue.do_send(Hindered { team: cx.name.clone(), reason, note });
        }
        let ending = if code.is_transient() { Ending::Dead } else { Ending::Failed };
        Some(outcome::end_unprepared(cx, leased, end(ending, code, Some(message))))
    }
}
