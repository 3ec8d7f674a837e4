//! The beginning of a turn: its lane's history, its brief, its first or next step.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Team,
    ack::Gate,
    aloud::Aloud,
    holds,
    lanes::{Call, Charge, Memory, RECENT_AGE, RECENT_LINES, Running, Work},
    past::{self, Past},
    turn::{End, Input, Stop, Turn, conversation::most_of_summary, pause_after},
};
use crate::{
    approvals::record::Approval,
    briefing::{Assignment, Brief, Hindrance},
    excerpt::READER,
    history::{Fact, HistoryEvent, Meta},
    ids::{ApprovalId, TopicId, TurnId},
    inbox::{self, InboxEvent},
    journal,
    queue::{
        ACK_AFTER, Leased, Return,
        parking::{Hindered, Park},
    },
    storage::StorageError,
    store::reads::get,
    task::{Code, Ending, Kind, Task, Wait, WaitReason},
    tool::Caller,
    usage::Usage,
};

/// What drives the turns of all teams.
pub(super) const SDK: &str = "native";

/// What a turn begins with.
struct Prepared {
    memory: Option<Memory>,
    journal: Vec<HistoryEvent>,
    inbox: Vec<(u64, InboxEvent)>,
    /// More is in the inbox, for others.
    others: bool,
    approvals: HashMap<ApprovalId, Approval>,
    brief: Brief,
    /// What is to be summarised, if that is the task; else why it cannot be.
    past: Option<Result<Past, String>>,
}

/// Why it cannot begin.
struct Unprepared {
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

impl Team {
    pub(super) fn prepare(
        &mut self,
        topic: &Option<TopicId>,
        leased: Leased,
        ctx: &mut Context<Self>,
    ) {
        let Leased { task, lease, inbox, .. } = leased;
        let lane = self.lanes.get(topic);
        let charge = Charge {
            task: task.clone(),
            lease,
            turn: self.recipe.ids.turn(),
            began: Instant::now(),
        };
        let id = charge.turn.clone();
        lane.work = Work::Preparing { charge: Box::new(charge), stop: None, reason: None };
        let now = self.recipe.clock.now();
        let label = task.label;
        let is_known = lane.memory.is_some();
        // Only a topic is one conversation: what another lane shows depends on the task.
        let remembered = lane.memory.as_ref().filter(|_| topic.is_some());
        let conversation = remembered.map(|memory| memory.conversation(now, label));
        let ancestors = self.recipe.view.now().ancestors(self.name.as_str());
        let store = self.recipe.store.clone();
        let briefing = self.recipe.briefing.clone();
        let preparation = async move {
            let mut memory = None;
            let (conversation, withheld) = match conversation {
                Some(conversation) => conversation,
                None => {
                    let of = task.clone();
                    let history = store
                        .read(move |storage| {
                            journal::lane(storage, &of, now - RECENT_AGE, RECENT_LINES)
                        })
                        .await?;
                    let loaded = Memory {
                        next_seq: history.next_seq,
                        recent: history.recent.into(),
                        summary: history.summary,
                    };
                    let conversation = loaded.conversation(now, label);
                    memory = (!is_known).then_some(loaded);
                    conversation
                }
            };
            let journal = if task.redelivered {
                let task = task.clone();
                store.read(move |storage| journal::unfinished_turn(storage, &task)).await?
            } else {
                Vec::new()
            };
            let held: Vec<ApprovalId> = held_in(&journal).collect();
            let approvals = if held.is_empty() {
                HashMap::new()
            } else {
                store
                    .read(move |storage| {
                        let mut approvals = HashMap::new();
                        for id in held {
                            if let Some(approval) = get::<Approval>(storage, &id)? {
                                approvals.insert(id, approval);
                            }
                        }
                        Ok(approvals)
                    })
                    .await?
            };
            // A turn that goes on has been shown what there was.
            let (inbox, others): (Vec<_>, Vec<_>) = if inbox
                && journal.is_empty()
                && task.kind != Kind::Compact
            {
                let (lane, generation) = (task.lane.clone(), task.generation);
                let events = store.read(move |storage| inbox::waiting(storage, &lane, generation));
                let audience = task.audience();
                let is_shown = |(_, event): &(u64, InboxEvent)| event.is_for(&task.lane, &audience);
                events.await?.into_iter().partition(is_shown)
            } else {
                (Vec::new(), Vec::new())
            };
            let compacts =
                (task.kind == Kind::Compact).then(|| (task.lane.clone(), task.generation));
            let same = Assignment {
                lane: task.lane.clone(),
                generation: task.generation,
                topic: task.source.and_then(|source| source.topic),
                conversation: Vec::new(),
                withheld,
                ancestors,
                options: task.options,
                inner: task.kind == Kind::Agent,
                reports: task.kind == Kind::Trigger,
            };
            let assignment = Assignment { conversation, ..same.clone() };
            // On a task of its own: a panic in there ends this turn, not the team.
            let brief = actix::spawn(async move { briefing.brief(assignment).await });
            let _stopped_on_drop = Call::of(&brief);
            let brief = brief
                .await
                .map_err(|_| {
                    Unprepared::new(Code::Internal, "preparing the turn failed unexpectedly")
                })?
                .map_err(|error| Unprepared {
                    assignment: Some(Box::new(same)),
                    ..Unprepared::new(error.code, error.message)
                })?;
            let past = match compacts {
                None => None,
                Some((lane, generation)) => {
                    let most = most_of_summary(brief.room);
                    let read = store
                        .read(move |storage| past::read(storage, &lane, generation, now, most));
                    Some(read.await?)
                }
            };
            Ok(Prepared {
                memory,
                journal,
                inbox,
                others: !others.is_empty(),
                approvals,
                brief,
                past,
            })
        };
        let topic = topic.clone();
        let limit = self.recipe.preparation;
        let preparation = async move {
            let prepared = tokio::time::timeout(limit, preparation).await;
            prepared.unwrap_or_else(|_| {
                let message = format!(
                    "preparing the turn took longer than {} s; look at the disk that the team's folders are on",
                    limit.as_secs()
                );
                Err(Unprepared::new(Code::Stalled, message))
            })
        };
        ctx.spawn(
            preparation
                .into_actor(self)
                .map(move |result, team, ctx| team.prepared(&topic, &id, result, ctx)),
        );
    }

    fn prepared(
        &mut self,
        topic: &Option<TopicId>,
        id: &TurnId,
        result: Result<Prepared, Unprepared>,
        ctx: &mut Context<Self>,
    ) {
        let lane = self.lanes.get(topic);
        let (charge, stop, reason) = match std::mem::take(&mut lane.work) {
            Work::Preparing { charge, stop, reason } if charge.turn == *id => {
                (*charge, stop, reason)
            }
            other => {
                lane.work = other;
                return;
            }
        };
        if self.retiring {
            self.queue.do_send(Return { task: charge.task, after: None, uncounted: true });
            return;
        }
        match result {
            Ok(mut prepared) => {
                if let Some(memory) = prepared.memory.take() {
                    lane.memory = Some(memory);
                }
                self.begin(topic, charge, prepared, stop.map(|stop| (stop, reason)), ctx);
            }
            // Whoever stopped it does not care what was in its way.
            Err(_) if stop == Some(Stop::Cancelled) => {
                let end = End {
                    ending: Ending::Cancelled,
                    code: Some(Code::Cancelled),
                    message: reason,
                    text: String::new(),
                    truncated: false,
                };
                self.end_unprepared(topic, charge, end, ctx);
            }
            Err(unprepared) => self.unprepared(topic, charge, unprepared, ctx),
        }
    }

    /// Work whose turn cannot begin fails, or waits until the operator has put right what is wrong.
    fn unprepared(
        &mut self,
        topic: &Option<TopicId>,
        charge: Charge,
        unprepared: Unprepared,
        ctx: &mut Context<Self>,
    ) {
        let Unprepared { code, message, assignment } = unprepared;
        let reason = WaitReason::Config;
        let of_settings = matches!(code, Code::ConfigError | Code::NoProvider);
        if of_settings && !charge.task.kind.is_awaited() {
            tracing::warn!(team = %self.name, task = %charge.task.id, message, "turn waits for settings");
            self.rest(topic, ctx);
            let deadline = charge.task.deadline_at;
            let wait = Wait { reason, note: message, until: None };
            let task = charge.task;
            self.queue.do_send(Park { task, wait });
            if let Some(assignment) = assignment {
                (self.recipe.on_hindrance)(Hindrance::Brief(assignment, deadline));
            }
            return;
        }
        if code.is_transient()
            && let Some(pause) = pause_after(charge.task.attempts)
        {
            let seconds = pause.as_secs();
            self.tell_of_stall(
                &charge.task.id,
                format!("{message}. It is tried again in {seconds} s."),
            );
            self.rest(topic, ctx);
            self.queue.do_send(Return { task: charge.task, after: Some(pause), uncounted: false });
            return;
        }
        if of_settings {
            self.queue.do_send(Hindered { team: self.name.clone(), reason, note: message.clone() });
        }
        let end = End {
            ending: if code.is_transient() { Ending::Dead } else { Ending::Failed },
            code: Some(code),
            message: Some(message),
            text: String::new(),
            truncated: false,
        };
        self.end_unprepared(topic, charge, end, ctx);
    }

    /// A stopped turn whose preparation takes too long goes back; the queue knows that it was stopped.
    pub(super) fn give_back_unprepared(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) {
        let lane = self.lanes.get(topic);
        match std::mem::take(&mut lane.work) {
            Work::Preparing { charge, .. } if charge.turn == *turn => {
                self.rest(topic, ctx);
                self.queue.do_send(Return { task: charge.task, after: None, uncounted: true });
            }
            other => lane.work = other,
        }
    }

    fn begin(
        &mut self,
        topic: &Option<TopicId>,
        mut charge: Charge,
        prepared: Prepared,
        stop: Option<(Stop, Option<String>)>,
        ctx: &mut Context<Self>,
    ) {
        let (stop, stop_reason) = stop.unzip();
        let now = self.recipe.clock.now();
        let Prepared { journal, inbox, others, approvals, brief, past, .. } = prepared;
        // A turn that goes on keeps its name.
        if let Some(first) = journal.first() {
            charge.turn = first.turn.clone();
        }
        let id = charge.turn.clone();
        let task = &charge.task;
        let began = charge.began;
        let own_limit = task.options.turn_timeout_ms.map(Duration::from_millis);
        let limit = own_limit.unwrap_or(brief.turn_timeout);
        let limit = limit.saturating_sub(time_of(&journal));
        let until_deadline = task.deadline_at.since(now).min(limit);
        let ack_due = Instant::now() + (task.created_at + ACK_AFTER).since(now);
        let cancel = CancellationToken::new();
        let mut turn =
            Turn::new(id.clone(), task.clone(), task.options.max_steps.unwrap_or(brief.max_steps))
                .within(brief.room, self.overhead(&brief));
        let start = turn_start(task, &brief);
        let tools = brief.tools.clone();
        let caller = Arc::new(Caller::of(task));
        let (mut seen, mut unseen) = (Vec::new(), !journal.is_empty());
        let mut kept = None;
        let wants = if let Some(past) = past {
            // Whatever waits in the inbox is for a turn that reads it.
            unseen = true;
            turn.compact(start, past)
        } else if journal.is_empty() {
            let (numbers, events): (Vec<u64>, Vec<InboxEvent>) = inbox.into_iter().unzip();
            let can_read = tools.specs().iter().any(|spec| spec.name == READER);
            let shown = inbox::show(&events, can_read);
            unseen = others || shown.count < events.len();
            seen = numbers.into_iter().take(shown.count).collect();
            kept = events.into_iter().next().filter(|_| shown.is_cut);
            turn.begin(start, &shown)
        } else {
            let desk = &self.recipe.desk;
            turn.resume(
                start,
                &journal,
                |call, approval, label| match approval {
                    Some(_) => tools.recheck(call, &caller, label),
                    None => tools.check(call, &caller, label),
                },
                |id, call, label| {
                    let now = tools.recheck(call, &caller, label);
                    holds::decision(desk, approvals.get(id), call, &caller, now.as_ref().ok())
                },
            )
        };
        let task = &charge.task;
        let awaits_ack = task.source.as_ref().is_some_and(|source| source.message.is_some());
        let mut running = Running {
            gate: Gate::new(task.acked || !awaits_ack),
            charge,
            turn,
            brief,
            caller,
            _cancel_on_drop: cancel.clone().drop_guard(),
            cancel,
            model: None,
            tools: HashMap::new(),
            wants: wants.into(),
            committing: false,
            recording: 0,
            settling: Vec::new(),
            stopping: false,
            acking: false,
            lost: Usage::default(),
            heard: 0,
            streaming: String::new(),
            unsent: String::new(),
            flush: None,
            voiding: 0,
            aloud: Aloud::default(),
            watch: None,
            settle: None,
            deadline: began + until_deadline,
            ack_due,
            last_sign: Instant::now(),
            warned: None,
            approvals,
            reserved: None,
            overdrawn: None,
            spent: None,
            cost: None,
            near: Vec::new(),
            stop_reason: stop_reason.flatten(),
            seen,
            kept,
            unseen,
            joined: Vec::new(),
            requested: false,
            steps: Vec::new(),
        };
        journal.into_iter().for_each(|mut event| running.place(&mut event));
        self.lanes.get(topic).work = Work::Running(Box::new(running));
        self.arm_watch(topic, &id, ctx);
        match stop {
            Some(stop) => self.hear(topic, &id, Input::Stop(stop, String::new()), ctx),
            None => self.perform(topic, &id, ctx),
        }
    }

    /// A message enters the running turn; if that has just ended, it waits for its own.
    pub(super) fn join(
        &mut self,
        topic: &Option<TopicId>,
        leased: Leased,
        ctx: &mut Context<Self>,
    ) {
        let Leased { task, lease, .. } = leased;
        match self.lanes.any_running(topic) {
            Some(running) if !running.turn.has_ended() && running.reads_messages() => {
                let turn = running.charge.turn.clone();
                running.joined.push((task.clone(), lease));
                // Leases that were stored together may arrive in any order.
                running.joined.sort_by_key(|(task, _)| task.arrival);
                self.expect_ack_of(&task, topic, &turn, ctx);
                self.hear(topic, &turn, Input::Steered(Box::new(task)), ctx);
            }
            _ => self.queue.do_send(Return { task, after: None, uncounted: true }),
        }
    }
}

/// How long a turn was at work before, in all: what passed between two leases does not count.
fn time_of(journal: &[HistoryEvent]) -> Duration {
    let mut time = Duration::ZERO;
    let mut since = None;
    for event in journal {
        if matches!(event.fact, Fact::TurnStart { .. }) {
            since = Some(event.timestamp);
        } else if let Some(last) = since.replace(event.timestamp) {
            time += event.timestamp.since(last);
        }
    }
    time
}

/// The decisions that a turn waited for.
fn held_in(journal: &[HistoryEvent]) -> impl Iterator<Item = ApprovalId> {
    journal.iter().filter_map(|event| match &event.fact {
        Fact::Meta(Meta::Approval { approval, .. }) => Some(approval.clone()),
        _ => None,
    })
}

impl Team {
    /// How many characters the model is told besides the conversation.
    fn overhead(&mut self, brief: &Brief) -> usize {
        let count = |text: &str| text.chars().count();
        let tools = match &self.told_of_tools {
            Some((hash, characters)) if *hash == brief.toolset_hash => *characters,
            _ => {
                let specs = brief.tools.specs();
                let specs = specs.iter().map(|spec| {
                    count(&spec.name) + count(&spec.description) + count(&spec.schema.to_string())
                });
                let characters = specs.sum();
                self.told_of_tools = Some((brief.toolset_hash.clone(), characters));
                characters
            }
        };
        let system = &brief.system;
        count(&system.shared) + count(&system.team) + count(&system.turn) + tools
    }
}

fn turn_start(task: &Task, brief: &Brief) -> Fact {
    Fact::TurnStart {
        task_ids: vec![task.id.clone()],
        team: task.lane.team.clone(),
        topic: task.lane.topic.clone(),
        source_channel: task.source.as_ref().map(|source| source.channel.clone()),
        attempt: task.attempts,
        redelivered: task.redelivered,
        sdk: SDK.to_owned(),
        provider: brief.provider.clone(),
        model: brief.model.clone(),
        prompt_hash: brief.prompt_hash.clone(),
        toolset_hash: brief.toolset_hash.clone(),
    }
}
