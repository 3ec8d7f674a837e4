//! Journals: where a lane stands, and what a turn has done.

use std::{ops::ControlFlow, time::Duration};

use crate::{
    briefing::{Line, Speaker},
    clock::Timestamp,
    history::{Compaction, Fact, HistoryEvent, Meta, Origin},
    ids::{CallId, ChannelId, TaskId, TeamName, TopicId, TurnId},
    interactions::{Interaction, Said},
    storage::{Order, Storage, StorageError},
    store::reads::{Range, get},
    task::{
        Kind, Source, Task,
        records::{self as tasks, LaneKey},
    },
};

pub mod records;
pub mod sessions;
pub(crate) mod told;

use records::{Began, Piece, Summarised};

/// What a lane needs before its first turn.
#[derive(Clone, Debug, Default)]
pub struct LaneHistory {
    /// The `seq` of the next event.
    pub next_seq: u64,
    /// The recent conversation, oldest first.
    pub recent: Vec<Line>,
    /// What was said before that, summarised.
    pub summary: Option<Line>,
}

/// The end of a lane's journal, and what a turn on a task is shown of what was said before it.
///
/// A topic is one conversation, with a summary of what is older. The one lane of another team serves
/// everyone: a turn there is shown the turns that the same message led to.
pub fn lane(
    storage: &dyn Storage,
    task: &Task,
    not_before: Timestamp,
    most: usize,
) -> Result<LaneHistory, StorageError> {
    let lane = task.lane_key();
    let next_seq = newest(storage, &lane)?.last().map_or(1, |event| event.seq + 1);
    let began = began(storage, &lane)?;
    let not_before = began.map_or(not_before, |began| began.max(not_before));
    let Some(topic) = &task.lane.topic else {
        return Ok(LaneHistory {
            next_seq,
            recent: of_root(storage, task, not_before, most)?,
            summary: None,
        });
    };
    let summary = summary(storage, &lane)?.and_then(|(at, compaction)| {
        let (text, label) = (compaction.summary?, compaction.label);
        Some(Line { at, speaker: Speaker::Summary, text, label })
    });
    let recent = match &task.source {
        Some(Source { channel, .. }) => {
            recent(storage, channel, &task.lane.team, topic, not_before, most)?
        }
        None => Vec::new(),
    };
    Ok(LaneHistory { next_seq, recent, summary })
}

/// What a lane said and was told in turns that the same message led to as a task, oldest first.
fn of_root(
    storage: &dyn Storage,
    task: &Task,
    not_before: Timestamp,
    most: usize,
) -> Result<Vec<Line>, StorageError> {
    // A message that leads to its first task has led to nothing before.
    if task.lineage.is_none() {
        return Ok(Vec::new());
    }
    let root = tasks::find(storage, task.root())?;
    let since = root.map_or(not_before, |root| root.created_at.max(not_before));
    let ended = tasks::ended(
        storage,
        since,
        most,
        |ended| ended.team == task.lane.team,
        |other| {
            other.lane == task.lane
                && other.generation == task.generation
                && other.root() == task.root()
                && other.kind != Kind::Compact
        },
    )?;
    let mut lines = Vec::new();
    for ended in ended.iter().rev() {
        let (person, label) = (Speaker::Person(ended.from.clone()), ended.label);
        let asked = Said::new(ended.created_at, person, &ended.body, label);
        lines.push(asked.into_line(Some(&ended.id)));
        if let Some(outcome) = ended.outcome.as_ref().filter(|outcome| !outcome.text.is_empty()) {
            let team = Speaker::Team(ended.lane.team.as_str().to_owned());
            let answer = Said::new(outcome.finished_at, team, &outcome.text, label);
            lines.push(answer.into_line(Some(&ended.id)));
        }
    }
    Ok(lines.split_off(lines.len().saturating_sub(most)))
}

/// When the conversation of a lane was last begun anew.
pub fn began(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<Timestamp>, StorageError> {
    Ok(get::<Began>(storage, &lane.session_id())?.map(|Began(at)| at))
}

/// The last summary of a lane's conversation that a person wanted, and when; none from before it began
/// anew.
pub fn summary(
    storage: &dyn Storage,
    lane: &LaneKey,
) -> Result<Option<(Timestamp, Compaction)>, StorageError> {
    let Some(Summarised(seq)) = get(storage, &lane.session_id())? else {
        return Ok(None);
    };
    let began = began(storage, lane)?;
    let mut found = None;
    let only = (seq.saturating_sub(1), seq.saturating_add(1));
    sessions::journal(storage, lane, only, Order::Rising, &mut |piece| {
        for event in piece {
            if let Fact::Meta(Meta::Compaction(compaction)) = event.fact
                && began.is_none_or(|began| event.timestamp >= began)
            {
                found = Some((event.timestamp, *compaction));
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn recent(
    storage: &dyn Storage,
    channel: &ChannelId,
    team: &TeamName,
    topic: &TopicId,
    not_before: Timestamp,
    most: usize,
) -> Result<Vec<Line>, StorageError> {
    let mut lines: Vec<Line> = Vec::new();
    Range::<Interaction>::under(&(channel,)).each(storage, Order::Falling, &mut |row| {
        if row.at < not_before || lines.len() >= most {
            return ControlFlow::Break(());
        }
        if row.topic.as_ref() != Some(topic) || row.trust_decision.is_some() {
            return ControlFlow::Continue(());
        }
        let task = row.task;
        lines.extend(row.said.into_iter().rev().map(|said| said.into_line(task.as_ref())).filter(
            |line| match &line.speaker {
                Speaker::Person(_) => true,
                Speaker::Team(name) => name == team.as_str(),
                Speaker::Summary => false,
            },
        ));
        ControlFlow::Continue(())
    })?;
    lines.truncate(most);
    lines.reverse();
    Ok(lines)
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
    let mut damaged = None;
    let range = Range::<Piece<'_>>::under(&(lane,));
    range.walk(storage, Order::Falling, &mut |_, piece| match piece {
        Ok(Piece(events)) => visit(events.into_owned()),
        Err(error) => {
            damaged = Some(error);
            ControlFlow::Break(())
        }
    })?;
    damaged.map_or(Ok(()), Err)
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
