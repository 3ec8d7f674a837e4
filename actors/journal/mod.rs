//! Journals, read back: where a lane stands, and what a turn has done.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use crate::{
    clock::Timestamp,
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::{CallId, TaskId, TurnId},
    storage::{Order, Storage, StorageError},
    store::reads::{Range, get},
    task::{
        Task,
        records::{self as tasks, LaneKey},
    },
};

pub mod fold;
pub mod query;
pub mod records;
pub mod scope;
pub mod sessions;
pub(crate) mod stored;
pub mod thread;
pub(crate) mod told;
mod turns;

use fold::TurnFold;
use records::{Began, Branch, Piece};
use scope::Scope;
use thread::{Earlier, Reader, Thread};

/// What a lane needs before its next turn.
#[derive(Clone, Debug, Default)]
pub struct LaneHistory {
    pub next_seq: u64,
    began: Option<Timestamp>,
    /// The conversation of the last turn.
    thread: Option<Arc<Thread>>,
}

impl LaneHistory {
    /// It holds the conversation of this reader.
    pub fn is_of(&self, reader: &Reader) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.reader.is(reader))
    }

    /// The same with another conversation, in which nothing was said.
    pub fn with_new(&self, reader: Reader, most: usize) -> Self {
        Self { thread: Some(Arc::new(Thread::new(reader, most))), ..self.clone() }
    }

    pub fn thread(&self) -> Option<&Thread> {
        self.thread.as_deref()
    }

    /// What a turn is shown whose first event has this number, or the next one.
    pub fn earlier(&self, first_seq: Option<u64>) -> Earlier {
        let seq = first_seq.unwrap_or(self.next_seq);
        self.thread.as_ref().map(|thread| thread.before(seq)).unwrap_or_default()
    }

    /// Adds a turn that has ended.
    pub fn end(&mut self, turn: TurnFold) {
        if let Some(thread) = &mut self.thread {
            Arc::make_mut(thread).end(turn);
        }
    }

    /// Conversations began anew at this moment, if they did.
    pub fn begin_anew(&mut self, at: Option<Timestamp>) {
        if at > self.began {
            self.began = at;
            if let Some(thread) = &mut self.thread {
                Arc::make_mut(thread).clear();
            }
        }
    }

    /// When its conversations were last begun anew.
    pub fn began(&self) -> Option<Timestamp> {
        self.began
    }

    /// How much of a conversation it holds, in characters.
    pub fn characters(&self) -> usize {
        self.thread.as_ref().map_or(0, |thread| thread.characters())
    }
}

/// The end of a lane's journal, and the conversation that a turn on a task is shown, up to so many characters. What
/// is known of the lane is not read again.
pub fn lane(
    storage: &dyn Storage,
    task: &Task,
    reader: Option<Reader>,
    known: Option<LaneHistory>,
    most: usize,
) -> Result<LaneHistory, StorageError> {
    let lane = task.lane_key();
    let (next_seq, began) = match known {
        Some(known) => (known.next_seq, known.began),
        None => {
            let last = newest(storage, &lane)?.last().map(|event| event.seq);
            let last = match last {
                Some(last) => last,
                None => Branch::last_shared(storage, &lane)?,
            };
            (last + 1, began(storage, &lane)?)
        }
    };
    let thread = match reader {
        None => None,
        Some(reader) => {
            let since = began.max(since(storage, &reader.scope)?).unwrap_or_default();
            Some(Thread::read(storage, &lane, reader, since, most)?)
        }
    };
    Ok(LaneHistory { next_seq, began, thread: thread.map(Arc::new) })
}

/// No turn of a conversation is older than this.
fn since(storage: &dyn Storage, scope: &Scope) -> Result<Option<Timestamp>, StorageError> {
    let Scope::Root(root) = scope else { return Ok(None) };
    Ok(tasks::find(storage, root)?.map(|root| root.created_at - CLOCK_SLACK))
}

/// Whose conversation the last turn of a lane was part of.
pub fn last_scope(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<Scope>, StorageError> {
    let mut found = None;
    turns::ended(storage, lane, &mut |events| {
        let has_task = |event: &HistoryEvent| matches!(event.fact, Fact::User { .. });
        let start = events.first().filter(|_| events.iter().any(has_task));
        found = start.and_then(|start| Scope::of_start(&start.fact));
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// When the conversation of a lane was last begun anew. A branch shares that with what it left.
pub fn began(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<Timestamp>, StorageError> {
    let session = lane.session_id();
    if let Some(Began(at)) = get::<Began>(storage, &session)? {
        return Ok(Some(at));
    }
    let branch = get::<Branch>(storage, &session)?;
    let left = branch.as_ref().and_then(Branch::lane);
    let Some((branch, left)) = branch.zip(left) else { return Ok(None) };
    Ok(began(storage, &left)?.filter(|at| *at <= branch.at))
}

/// The first event of the turn that a task began; none if it began none.
pub fn first_of_turn(storage: &dyn Storage, task: &Task) -> Result<Option<u64>, StorageError> {
    let mut found = None;
    let (lane, all) = (task.lane_key(), (0, u64::MAX));
    sessions::journal(storage, &lane, all, Order::Falling, &mut |piece| {
        if piece.iter().any(|event| begins(event, &task.id)) {
            found = piece.first().map(|event| event.seq);
        }
        let is_old = |last: &HistoryEvent| last.timestamp + CLOCK_SLACK < task.created_at;
        if found.is_some() || piece.last().is_some_and(is_old) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}

/// The events of a task's unfinished turn, oldest first; empty if it has none.
///
/// Other turns of the lane may have run while this one was set aside, so that its events need not
/// be the last. None is older than its task.
pub fn unfinished_turn(
    storage: &dyn Storage,
    task: &Task,
) -> Result<Vec<HistoryEvent>, StorageError> {
    let mut found: Vec<Vec<HistoryEvent>> = Vec::new();
    let mut turn = None;
    walk(storage, &task.lane_key(), &mut |events| {
        let is_old = |last: &HistoryEvent| last.timestamp + CLOCK_SLACK < task.created_at;
        if events.last().is_some_and(is_old) {
            return ControlFlow::Break(());
        }
        // A turn that goes on keeps its name, so the newest start names it.
        if turn.is_none() {
            let start = events.iter().find(|event| starts(event, &task.id));
            turn = start.map(|event| event.turn.clone());
        }
        let first = events.iter().any(|event| begins(event, &task.id));
        found.push(events);
        if first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let events = of_turn(found, turn.as_ref());
    let ended = events.iter().any(|event| matches!(event.fact, Fact::TurnEnd { .. }));
    Ok(if ended { Vec::new() } else { events })
}

/// How many model calls the last turn of a lane took, if it has ended.
pub fn last_steps(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<u32>, StorageError> {
    Ok(newest(storage, lane)?.iter().rev().find_map(|event| match event.fact {
        Fact::TurnEnd { steps, .. } => Some(steps),
        _ => None,
    }))
}

/// When something was last written to a lane's journal.
pub fn last_sign(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<Timestamp>, StorageError> {
    Ok(newest(storage, lane)?.last().map(|event| event.timestamp))
}

/// In which model call the unfinished turn of a task is, from 1; 0 before the first has ended.
pub fn present_step(storage: &dyn Storage, task: &Task) -> Result<u32, StorageError> {
    let events = unfinished_turn(storage, task)?;
    let steps = events.iter().filter_map(|event| match &event.fact {
        Fact::Meta(Meta::Usage { step, .. }) => Some(*step),
        fact => fact.step(),
    });
    Ok(steps.max().unwrap_or_default())
}

/// A call in the journal, and what its turn had read before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// The event that holds the call.
    pub seq: u64,
    /// The tools whose results had been read, in the order in which they were first called.
    pub tools: Vec<String>,
    /// The addresses that they were called with.
    pub urls: Vec<String>,
    /// The tool whose result first held something from outside, and the address it was called with. None if
    /// the work itself came from outside.
    pub tainted_by: Option<(String, Option<String>)>,
}

/// The trail of a call by its idempotency key; none if the journal does not hold it.
pub fn trail(
    storage: &dyn Storage,
    lane: &LaneKey,
    call: &str,
) -> Result<Option<Trail>, StorageError> {
    let mut rows: Vec<Vec<HistoryEvent>> = Vec::new();
    let mut turn = None;
    walk(storage, lane, &mut |events| {
        if turn.is_none() {
            let of_call = events.iter().find(|event| holds(event, call));
            turn = of_call.map(|event| event.turn.clone());
        }
        let first = |event: &HistoryEvent| {
            Some(&event.turn) == turn.as_ref()
                && matches!(&event.fact, Fact::User { origin, .. }
                    if matches!(origin, Origin::Person | Origin::Task))
        };
        let is_first = events.iter().any(first);
        if turn.is_some() {
            rows.push(events);
        }
        if is_first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(follow(of_turn(rows, turn.as_ref()).into_iter(), call))
}

/// Shows the rows of a lane's journal, the newest first. One that is damaged ends it.
fn walk(
    storage: &dyn Storage,
    lane: &LaneKey,
    visit: &mut dyn FnMut(Vec<HistoryEvent>) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let range = Range::<Piece<'_>>::under(&(lane,));
    range.try_walk(storage, Order::Falling, &mut |_, piece| {
        let Piece(events) = piece?;
        Ok(visit(events.into_owned()))
    })
}

/// The last row of a lane's journal.
fn newest(storage: &dyn Storage, lane: &LaneKey) -> Result<Vec<HistoryEvent>, StorageError> {
    let mut newest = Vec::new();
    walk(storage, lane, &mut |events| {
        newest = events;
        ControlFlow::Break(())
    })?;
    Ok(newest)
}

/// The events of a turn in rows that came newest first, oldest first.
fn of_turn(rows: Vec<Vec<HistoryEvent>>, turn: Option<&TurnId>) -> Vec<HistoryEvent> {
    let events = rows.into_iter().rev().flatten();
    events.filter(|event| Some(&event.turn) == turn).collect()
}

/// What a turn had read when it made a call.
fn follow(events: impl Iterator<Item = HistoryEvent>, call: &str) -> Option<Trail> {
    let mut trail = Trail::default();
    let mut under_way: Vec<(CallId, Option<String>)> = Vec::new();
    let mut is_believed = true;
    for event in events {
        if holds(&event, call) {
            trail.seq = event.seq;
            return Some(trail);
        }
        match event.fact {
            Fact::ToolCall { id, args, .. } => {
                let url = args.get("url").and_then(|url| url.as_str());
                under_way.push((id, url.map(str::to_owned)));
            }
            Fact::User { label, .. } => is_believed &= label.is_trusted(),
            Fact::ToolResult { id, name, taints, .. } => {
                let of_call = under_way.iter().find(|(called, _)| *called == id);
                let url = of_call.and_then(|(_, url)| url.clone());
                if taints && is_believed {
                    is_believed = false;
                    trail.tainted_by = Some((name.clone(), url.clone()));
                }
                if !trail.tools.contains(&name) {
                    trail.tools.push(name);
                }
                trail.urls.extend(url.filter(|url| !trail.urls.contains(url)));
            }
            _ => {}
        }
    }
    None
}

fn holds(event: &HistoryEvent, call: &str) -> bool {
    matches!(&event.fact, Fact::ToolCall { idempotency_key, .. } if idempotency_key == call)
}

/// A clock may have been set back by this much while a task was open.
const CLOCK_SLACK: Duration = Duration::from_secs(60 * 60);

fn starts(event: &HistoryEvent, task: &TaskId) -> bool {
    matches!(&event.fact, Fact::TurnStart { task_ids, .. } if task_ids.contains(task))
}

/// The task's own words stand only at the beginning of its turn.
fn begins(event: &HistoryEvent, task: &TaskId) -> bool {
    matches!(&event.fact, Fact::User { task_id, origin, .. }
        if task_id == task && matches!(origin, Origin::Person | Origin::Task))
}
