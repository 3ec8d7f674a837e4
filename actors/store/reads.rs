//! Reads: what the spine looks up, by type. All of them block: see `StoreHandle::read`.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    time::Duration,
};

use serde::{Deserialize, de::DeserializeOwned};

use super::{
    records::{
        self, ChannelRow, ERRORS, EndedTask, Interaction, MessageRow, Said, TeamError, Undecided,
        began_key, channel_key, decode, finished_key, interaction_prefix, journal_prefix,
        message_prefix, number_at_end, outbox_prefix, summary_key, task_key, task_prefix,
        topic_prefix, undecided_prefix,
    },
    scan_prefix, sessions,
};
use crate::{
    approvals::{question::Question, record::Approval},
    audit::Audit,
    briefing::{Line, Speaker},
    budget::{Caller, Cost, Day, SpentRow, Tally},
    clock::Timestamp,
    event::Frame,
    history::{Compaction, Fact, HistoryEvent, Meta, Origin},
    ids::{
        ApprovalId, CallId, ChannelId, LeaseId, MessageId, NoticeId, QuestionId, TaskId, TeamKey,
        TeamName, TopicId,
    },
    inbox::InboxEvent,
    notice::Notice,
    org::record::TeamRecord,
    router::topics::Topic,
    storage::{Order, Storage, StorageError},
    task::{Kind, Lane, Parked, Source, Task},
};

/// What a scan found: rows that can be read, and complaints about those that cannot.
#[derive(Debug)]
pub struct Found<T> {
    /// Rows in the order of the scan.
    pub rows: Vec<T>,
    /// Damaged records, left where they are.
    pub damaged: Vec<StorageError>,
}

fn collect<T: DeserializeOwned>(
    storage: &dyn Storage,
    prefix: &[u8],
) -> Result<Found<T>, StorageError> {
    let mut found = Found {
        rows: Vec::new(),
        damaged: Vec::new(),
    };
    scan_prefix(storage, prefix, Order::Rising, &mut |key, value| {
        match value.and_then(|value| decode(key, value)) {
            Ok(row) => found.rows.push(row),
            Err(error) => found.damaged.push(error),
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// All tasks without an outcome.
pub fn open_tasks(storage: &dyn Storage) -> Result<Found<Task>, StorageError> {
    collect(storage, &task_prefix())
}

/// A task, open or finished.
pub fn task(storage: &dyn Storage, id: &TaskId) -> Result<Option<Task>, StorageError> {
    for key in [task_key(id), finished_key(id)] {
        if let Some(value) = storage.get(&key)? {
            return decode(&key, &value).map(Some);
        }
    }
    Ok(None)
}

/// A task is there, open or finished.
pub fn has_task(storage: &dyn Storage, id: &TaskId) -> Result<bool, StorageError> {
    Ok(storage.get(&task_key(id))?.is_some() || storage.get(&finished_key(id))?.is_some())
}

/// All accepted messages whose topic was not yet known.
pub fn undecided(storage: &dyn Storage) -> Result<Found<Undecided>, StorageError> {
    collect(storage, &undecided_prefix())
}

/// What is known of a channel.
#[derive(Debug)]
pub struct ChannelHistory {
    /// Who opened it.
    pub row: ChannelRow,
    /// Its topics.
    pub topics: Vec<Topic>,
    /// Its known messages.
    pub messages: Vec<(MessageId, MessageRow)>,
    /// What people said in its topics lately, oldest first.
    pub said: Vec<(TopicId, Line)>,
}

/// A channel, if it exists.
pub fn channel(
    storage: &dyn Storage,
    id: &ChannelId,
) -> Result<Option<ChannelHistory>, StorageError> {
    let key = channel_key(id);
    let Some(value) = storage.get(&key)? else {
        return Ok(None);
    };
    let row = decode(&key, &value)?;
    let topics = collect(storage, &topic_prefix(id))?.rows;
    let prefix = message_prefix(id);
    let mut messages = Vec::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let id = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        if let Ok(row) = value.and_then(|value| decode(key, value)) {
            messages.push((MessageId::from(id), row));
        }
        ControlFlow::Continue(())
    })?;
    let said = collect::<Interaction>(storage, &interaction_prefix(id))?
        .rows
        .into_iter()
        .filter(|row| row.trust_decision.is_none())
        .filter_map(|row| {
            let topic = row.topic?;
            let of_person = |said: &Said| matches!(said.line.speaker, Speaker::Person(_));
            Some((topic, row.said.into_iter().find(of_person)?.line))
        })
        .collect();
    Ok(Some(ChannelHistory {
        row,
        topics,
        messages,
        said,
    }))
}

/// Who opened a channel, if it exists.
pub fn channel_row(
    storage: &dyn Storage,
    id: &ChannelId,
) -> Result<Option<ChannelRow>, StorageError> {
    one(storage, &channel_key(id))
}

/// A known message.
pub fn message(
    storage: &dyn Storage,
    channel: &ChannelId,
    id: &MessageId,
) -> Result<Option<MessageRow>, StorageError> {
    one(storage, &records::message_key(channel, id))
}

/// A stored frame with its ordinal and its size.
#[derive(Clone, Debug)]
pub struct StoredFrame {
    /// Its place among the channel's durable frames.
    pub ordinal: u64,
    /// Its size in the store.
    pub bytes: usize,
    /// The frame.
    pub frame: Frame,
}

/// All that a channel's outbox holds, oldest first.
pub fn outbox(storage: &dyn Storage, id: &ChannelId) -> Result<Vec<StoredFrame>, StorageError> {
    let mut frames = Vec::new();
    scan_prefix(
        storage,
        &outbox_prefix(id),
        Order::Rising,
        &mut |key, value| {
            if let (Some(ordinal), Ok(value)) = (number_at_end(key), value)
                && let Ok(frame) = decode(key, value)
            {
                frames.push(StoredFrame {
                    ordinal,
                    bytes: value.len(),
                    frame,
                });
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(frames)
}

/// Those of some frames of a channel's outbox that are there.
pub fn frames(
    storage: &dyn Storage,
    id: &ChannelId,
    ordinals: &[u64],
) -> Result<Vec<Frame>, StorageError> {
    let frames = ordinals
        .iter()
        .map(|ordinal| one(storage, &records::outbox_key(id, *ordinal)));
    Ok(frames
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// The newest ordinal of a channel's outbox; 0 if it never had one.
pub fn newest_ordinal(storage: &dyn Storage, id: &ChannelId) -> Result<u64, StorageError> {
    let mut newest = 0;
    scan_prefix(
        storage,
        &outbox_prefix(id),
        Order::Falling,
        &mut |key, _| {
            newest = number_at_end(key).unwrap_or(0);
            ControlFlow::Break(())
        },
    )?;
    Ok(newest)
}

/// What a lane needs before its first turn.
#[derive(Debug, Default)]
pub struct LaneHistory {
    /// The `seq` of the next event.
    pub next_seq: u64,
    /// The recent conversation, oldest first.
    pub recent: Vec<Line>,
    /// What was said before that, summarised.
    pub summary: Option<Line>,
}

/// What went wrong last in each team that something went wrong in, by the team's key.
pub fn team_errors(storage: &dyn Storage) -> Result<HashMap<String, TeamError>, StorageError> {
    let prefix = records::prefix(&ERRORS);
    let mut errors = HashMap::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let name = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default());
        // One that cannot be read is not missed.
        if let Ok(error) = value.and_then(|value| decode::<TeamError>(key, value)) {
            errors.insert(name.into_owned(), error);
        }
        ControlFlow::Continue(())
    })?;
    Ok(errors)
}

/// The end of a lane's journal, and what was last said in its channel.
pub fn lane(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    channel: Option<&ChannelId>,
    not_before: Timestamp,
    most: usize,
) -> Result<LaneHistory, StorageError> {
    let mut next_seq = 1;
    let mut damaged = None;
    scan_prefix(
        storage,
        &journal_prefix(lane, generation),
        Order::Falling,
        &mut |key, value| {
            match value.and_then(|value| decode::<Vec<HistoryEvent>>(key, value)) {
                Ok(events) => next_seq = events.last().map_or(1, |event| event.seq + 1),
                Err(error) => damaged = Some(error),
            }
            ControlFlow::Break(())
        },
    )?;
    if let Some(error) = damaged {
        return Err(error);
    }
    let began = began(storage, lane, generation)?;
    let summary = summary(storage, lane, generation)?;
    let summary = summary.and_then(|(at, compaction)| {
        Some(Line {
            at,
            speaker: Speaker::Summary,
            text: compaction.summary?,
            label: compaction.label,
        })
    });
    let not_before = began.map_or(not_before, |began| began.max(not_before));
    let recent = match channel {
        Some(channel) => recent(
            storage,
            channel,
            &lane.team,
            lane.topic.as_ref(),
            not_before,
            most,
        )?,
        None => Vec::new(),
    };
    Ok(LaneHistory {
        next_seq,
        recent,
        summary,
    })
}

/// When the conversation of a lane was last begun anew.
pub fn began(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Option<Timestamp>, StorageError> {
    one(storage, &began_key(lane, generation))
}

/// The last summary of a lane's conversation that a person wanted, and when; none from before it began
/// anew.
pub fn summary(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Option<(Timestamp, Compaction)>, StorageError> {
    let Some(seq) = one::<u64>(storage, &summary_key(lane, generation))? else {
        return Ok(None);
    };
    let began = began(storage, lane, generation)?;
    let mut found = None;
    let only = (seq.saturating_sub(1), seq.saturating_add(1));
    sessions::journal(
        storage,
        lane,
        generation,
        only,
        Order::Rising,
        &mut |piece| {
            for event in piece {
                if let Fact::Meta(Meta::Compaction(compaction)) = event.fact
                    && began.is_none_or(|began| event.timestamp >= began)
                {
                    found = Some((event.timestamp, *compaction));
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}

fn recent(
    storage: &dyn Storage,
    channel: &ChannelId,
    team: &TeamName,
    topic: Option<&TopicId>,
    not_before: Timestamp,
    most: usize,
) -> Result<Vec<Line>, StorageError> {
    let mut lines: Vec<Line> = Vec::new();
    scan_prefix(
        storage,
        &interaction_prefix(channel),
        Order::Falling,
        &mut |key, value| {
            let Ok(row) = value.and_then(|value| decode::<Interaction>(key, value)) else {
                return ControlFlow::Continue(());
            };
            if row.at < not_before || lines.len() >= most {
                return ControlFlow::Break(());
            }
            let elsewhere = topic.is_some() && row.topic.is_some() && row.topic.as_ref() != topic;
            if elsewhere || row.trust_decision.is_some() {
                return ControlFlow::Continue(());
            }
            lines.extend(
                row.said
                    .into_iter()
                    .rev()
                    .map(|said| said.line)
                    .filter(|line| match &line.speaker {
                        Speaker::Person(_) => true,
                        Speaker::Team(name) => name == team.as_str(),
                        Speaker::Summary => false,
                    }),
            );
            ControlFlow::Continue(())
        },
    )?;
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
    let mut damaged = None;
    scan_prefix(
        storage,
        &journal_prefix(&task.lane, task.generation),
        Order::Falling,
        &mut |key, value| match value.and_then(|value| decode::<Vec<HistoryEvent>>(key, value)) {
            Ok(events) => {
                let too_old = events
                    .last()
                    .is_some_and(|last| last.timestamp + CLOCK_SLACK < task.created_at);
                if too_old {
                    return ControlFlow::Break(());
                }
                // A turn that goes on keeps its name, so the newest start names it.
                if turn.is_none() {
                    turn = events
                        .iter()
                        .find(|event| starts(event, &task.id))
                        .map(|event| event.turn.clone());
                }
                let first = events.iter().any(|event| begins(event, &task.id));
                found.push(events);
                match first {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    if let Some(error) = damaged {
        return Err(error);
    }
    let Some(turn) = turn else {
        return Ok(Vec::new());
    };
    let events: Vec<_> = found
        .into_iter()
        .rev()
        .flatten()
        .filter(|event| event.turn == turn)
        .collect();
    let ended = events
        .iter()
        .any(|event| matches!(event.fact, Fact::TurnEnd { .. }));
    Ok(if ended { Vec::new() } else { events })
}

/// How many model calls the last turn of a lane took, if it has ended.
pub fn last_steps(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Option<u32>, StorageError> {
    let mut steps = None;
    scan_prefix(
        storage,
        &journal_prefix(lane, generation),
        Order::Falling,
        &mut |key, value| {
            if let Ok(events) = value.and_then(|value| decode::<Vec<HistoryEvent>>(key, value)) {
                steps = events.iter().rev().find_map(|event| match event.fact {
                    Fact::TurnEnd { steps, .. } => Some(steps),
                    _ => None,
                });
            }
            ControlFlow::Break(())
        },
    )?;
    Ok(steps)
}

/// When something was last written to a lane's journal.
pub fn last_sign(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Option<Timestamp>, StorageError> {
    let mut sign = None;
    scan_prefix(
        storage,
        &journal_prefix(lane, generation),
        Order::Falling,
        &mut |key, value| {
            if let Ok(events) = value.and_then(|value| decode::<Vec<HistoryEvent>>(key, value)) {
                sign = events.last().map(|event| event.timestamp);
            }
            ControlFlow::Break(())
        },
    )?;
    Ok(sign)
}

/// In which model call the unfinished turn of a task is, from 1; 0 before the first has ended.
pub fn present_step(storage: &dyn Storage, task: &Task) -> Result<u32, StorageError> {
    let events = unfinished_turn(storage, task)?;
    let steps = events.iter().filter_map(|event| match &event.fact {
        Fact::AssistantText { step, .. }
        | Fact::AssistantThinking { step, .. }
        | Fact::ToolCall { step, .. }
        | Fact::Meta(Meta::Usage { step, .. }) => Some(*step),
        _ => None,
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
}

/// The trail of a call by its idempotency key; none if the journal does not hold it.
pub fn trail(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    call: &str,
) -> Result<Option<Trail>, StorageError> {
    let mut rows: Vec<Vec<HistoryEvent>> = Vec::new();
    let mut turn = None;
    let mut damaged = None;
    scan_prefix(
        storage,
        &journal_prefix(lane, generation),
        Order::Falling,
        &mut |key, value| match value.and_then(|value| decode::<Vec<HistoryEvent>>(key, value)) {
            Ok(events) => {
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
                match is_first {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    if let Some(error) = damaged {
        return Err(error);
    }
    let events = rows.into_iter().rev().flatten();
    let events = events.filter(|event| Some(&event.turn) == turn.as_ref());
    Ok(follow(events, call))
}

/// What a turn had read when it made a call.
fn follow(events: impl Iterator<Item = HistoryEvent>, call: &str) -> Option<Trail> {
    let mut trail = Trail::default();
    let mut under_way: Vec<(CallId, Option<String>)> = Vec::new();
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
            Fact::ToolResult { id, name, .. } => {
                if !trail.tools.contains(&name) {
                    trail.tools.push(name);
                }
                let of_call = under_way.iter().find(|(called, _)| *called == id);
                let url = of_call.and_then(|(_, url)| url.clone());
                trail
                    .urls
                    .extend(url.filter(|url| !trail.urls.contains(url)));
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

/// What waits for the next turn of a lane, oldest first, with its numbers.
pub fn inbox(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Vec<(u64, InboxEvent)>, StorageError> {
    let mut events = Vec::new();
    scan_prefix(
        storage,
        &records::inbox_prefix(lane, generation),
        Order::Rising,
        &mut |key, value| {
            let event = value.and_then(|value| decode(key, value)).ok();
            events.extend(number_at_end(key).zip(event));
            ControlFlow::Continue(())
        },
    )?;
    Ok(events)
}

/// The keys of all that waits for a team.
pub fn inbox_keys(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    scan_prefix(
        storage,
        &records::inboxes_of(team),
        Order::Rising,
        &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        },
    )?;
    Ok(keys)
}

/// The key prefixes of all inboxes that hold something.
pub fn inboxes(storage: &dyn Storage) -> Result<HashSet<Vec<u8>>, StorageError> {
    let mut lanes = HashSet::new();
    scan_prefix(
        storage,
        &records::inboxes_prefix(),
        Order::Rising,
        &mut |key, _| {
            lanes.insert(key[..key.len().saturating_sub(8)].to_vec());
            ControlFlow::Continue(())
        },
    )?;
    Ok(lanes)
}

/// What each team itself has spent on a day.
pub fn spent(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, SpentRow)>, StorageError> {
    of_day(storage, "spend", day)
}

/// How often the operator has allowed each team's caps again on a day.
pub fn raised(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, u32)>, StorageError> {
    of_day(storage, "raise", day)
}

/// What the calls of each kind have come to on each day from one to another, as numbers of days.
pub fn calls(
    storage: &dyn Storage,
    from: u32,
    to: u32,
    visit: &mut dyn FnMut(u32, Caller, Tally),
) -> Result<(), StorageError> {
    let order = Order::Rising;
    tallies(
        storage,
        "use",
        (from, to),
        order,
        &mut |day, rest, tally| {
            let mut parts = rest.splitn(3, '\0');
            if let (Some(team), Some(profile), Some(model)) =
                (parts.next(), parts.next(), parts.next())
            {
                let caller = Caller {
                    team: team.into(),
                    profile: profile.to_owned(),
                    model: model.to_owned(),
                };
                visit(day, caller, tally);
            }
        },
    )
}

/// What the calls for each task have come to on the days from one to another, the last day first.
pub fn task_calls(
    storage: &dyn Storage,
    from: u32,
    to: u32,
    visit: &mut dyn FnMut(u32, TaskId, Tally),
) -> Result<(), StorageError> {
    let order = Order::Falling;
    tallies(
        storage,
        "use-task",
        (from, to),
        order,
        &mut |day, task, tally| {
            visit(day, task.into(), tally);
        },
    )
}

/// What the calls for a task have come to on a day.
pub fn task_calls_on(
    storage: &dyn Storage,
    day: &str,
    task: &str,
) -> Result<Option<Tally>, StorageError> {
    one(storage, &records::join(&["use-task", day, task]))
}

fn tallies(
    storage: &dyn Storage,
    kind: &str,
    (from, to): (u32, u32),
    order: Order,
    visit: &mut dyn FnMut(u32, &str, Tally),
) -> Result<(), StorageError> {
    let start = records::join(&[kind, &from.to_string()]);
    let end = records::after_prefix(&records::prefix(&[kind, &to.to_string()]));
    let skip = records::prefix(&[kind]).len();
    if start >= end {
        return Ok(());
    }
    storage.scan(&start, &end, order, &mut |key, value| {
        let named = std::str::from_utf8(&key[skip..]).ok();
        let parts = named.and_then(|name| name.split_once('\0'));
        if let Some((day, rest)) = parts
            && let Ok(day) = day.parse()
            && let Ok(tally) = value.and_then(|value| decode(key, value))
        {
            visit(day, rest, tally);
        }
        ControlFlow::Continue(())
    })
}

/// Teams of which was told on a day that their budget is nearly spent.
pub fn warned(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, bool)>, StorageError> {
    of_day(storage, "warned", day)
}

/// What tasks have cost where that is limited.
pub fn costs(storage: &dyn Storage) -> Result<Vec<Cost>, StorageError> {
    let mut costs = Vec::new();
    let prefix = records::costs_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        costs.extend(value.and_then(|value| decode(key, value)).ok());
        ControlFlow::Continue(())
    })?;
    Ok(costs)
}

fn of_day<T: DeserializeOwned>(
    storage: &dyn Storage,
    kind: &str,
    day: Day,
) -> Result<Vec<(TeamKey, T)>, StorageError> {
    let prefix = records::day_prefix(kind, day);
    let mut rows = Vec::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let team = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        if let Ok(row) = value.and_then(|value| decode(key, value)) {
            rows.push((records::team_of(&team), row));
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// How much each open cause has led to.
pub fn causes<T: DeserializeOwned>(
    storage: &dyn Storage,
) -> Result<Vec<(TaskId, T)>, StorageError> {
    let prefix = records::causes_prefix();
    let mut rows = Vec::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let root = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        if let Ok(row) = value.and_then(|value| decode(key, value)) {
            rows.push((TaskId::from(root), row));
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Keys of interactions older than a moment.
pub fn old_interactions(
    storage: &dyn Storage,
    before: Timestamp,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    scan_prefix(
        storage,
        &records::interactions_prefix(),
        Order::Rising,
        &mut |key, value| {
            let old = value
                .and_then(|value| decode::<Interaction>(key, value))
                .is_ok_and(|row| row.at < before);
            if old {
                keys.push(key.to_vec());
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(keys)
}

/// Shows all notices, in no order.
pub fn each_notice(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Notice),
) -> Result<(), StorageError> {
    each(storage, &records::notices_prefix(), visit)
}

/// Shows the notices whose ids come after one, in the order of their ids, until the visitor has enough.
pub fn notices_after(
    storage: &dyn Storage,
    after: Option<&NoticeId>,
    visit: &mut dyn FnMut(Notice) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let prefix = records::notices_prefix();
    let end = records::after_prefix(&prefix);
    let start = match after {
        Some(id) => [records::notice_key(id), vec![0]].concat(),
        None => prefix,
    };
    storage.scan(&start, &end, Order::Rising, &mut |key, value| match value
        .and_then(|value| decode(key, value))
    {
        Ok(notice) => visit(notice),
        Err(_) => ControlFlow::Continue(()),
    })
}

/// A notice.
pub fn notice(storage: &dyn Storage, id: &NoticeId) -> Result<Option<Notice>, StorageError> {
    one(storage, &records::notice_key(id))
}

/// Shows all approvals there ever were, in no order.
pub fn each_approval(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Approval),
) -> Result<(), StorageError> {
    each(storage, &records::approvals_prefix(), visit)
}

/// Shows all questions there ever were, in no order.
pub fn each_question(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Question),
) -> Result<(), StorageError> {
    each(storage, &records::questions_prefix(), visit)
}

/// Shows the approvals that wait for a decision, in no order.
pub fn each_pending_approval(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Approval),
) -> Result<(), StorageError> {
    let marks = records::approval_marks();
    each_marked(storage, &marks, records::approval_key, visit)
}

/// Shows the questions that wait for an answer, in no order.
pub fn each_open_question(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Question),
) -> Result<(), StorageError> {
    let marks = records::question_marks();
    each_marked(storage, &marks, records::question_key, visit)
}

/// Shows the records that can be read of those that the ids under a prefix name.
fn each_marked<Id: DeserializeOwned, T: DeserializeOwned>(
    storage: &dyn Storage,
    marks: &[u8],
    key: impl Fn(&Id) -> Vec<u8>,
    visit: &mut dyn FnMut(T),
) -> Result<(), StorageError> {
    each(storage, marks, &mut |id: Id| {
        if let Ok(Some(row)) = one(storage, &key(&id)) {
            visit(row);
        }
    })
}

/// Shows all tasks without an outcome, in no order.
pub fn each_open_task(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Task),
) -> Result<(), StorageError> {
    each(storage, &task_prefix(), visit)
}

/// Shows what can be read under a prefix.
fn each<T: DeserializeOwned>(
    storage: &dyn Storage,
    prefix: &[u8],
    visit: &mut dyn FnMut(T),
) -> Result<(), StorageError> {
    scan_prefix(storage, prefix, Order::Rising, &mut |key, value| {
        if let Ok(row) = value.and_then(|value| decode(key, value)) {
            visit(row);
        }
        ControlFlow::Continue(())
    })
}

/// All notices, oldest first.
pub fn notices(storage: &dyn Storage) -> Result<Vec<Notice>, StorageError> {
    let mut notices: Vec<Notice> = Vec::new();
    scan_prefix(
        storage,
        &records::notices_prefix(),
        Order::Rising,
        &mut |key, value| {
            notices.extend(value.and_then(|value| decode(key, value)).ok());
            ControlFlow::Continue(())
        },
    )?;
    notices.sort_by_key(|notice| notice.at);
    Ok(notices)
}

/// An approval.
pub fn approval(storage: &dyn Storage, id: &ApprovalId) -> Result<Option<Approval>, StorageError> {
    one(storage, &records::approval_key(id))
}

/// An approval by its id or its short id; of several with that short id, the newest.
pub fn approval_called(
    storage: &dyn Storage,
    name: &str,
) -> Result<Option<Approval>, StorageError> {
    if name.starts_with("apr-") {
        return approval(storage, &ApprovalId::from(name));
    }
    match one(storage, &records::short_id_key(name))? {
        Some(id) => approval(storage, &id),
        None => Ok(None),
    }
}

/// A question.
pub fn question(storage: &dyn Storage, id: &QuestionId) -> Result<Option<Question>, StorageError> {
    one(storage, &records::question_key(id))
}

/// All approvals there ever were, oldest first.
pub fn approvals(storage: &dyn Storage) -> Result<Found<Approval>, StorageError> {
    let mut found: Found<Approval> = collect(storage, &records::approvals_prefix())?;
    found.rows.sort_by_key(|approval| approval.created_at);
    Ok(found)
}

/// All questions there ever were, oldest first.
pub fn questions(storage: &dyn Storage) -> Result<Found<Question>, StorageError> {
    let mut found: Found<Question> = collect(storage, &records::questions_prefix())?;
    found.rows.sort_by_key(|question| question.created_at);
    Ok(found)
}

/// The approvals that wait for a decision.
pub fn pending_approvals(storage: &dyn Storage) -> Result<Found<Approval>, StorageError> {
    marked(storage, &records::approval_marks(), records::approval_key)
}

/// How many approvals wait for a decision.
pub fn count_pending_approvals(storage: &dyn Storage) -> Result<usize, StorageError> {
    let mut count = 0;
    let marks = records::approval_marks();
    scan_prefix(storage, &marks, Order::Rising, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// The questions that wait for an answer.
pub fn open_questions(storage: &dyn Storage) -> Result<Found<Question>, StorageError> {
    marked(storage, &records::question_marks(), records::question_key)
}

/// The first key of the audit from a moment on, and the first one behind all.
pub fn audits_since(moment: Timestamp) -> (Vec<u8>, Vec<u8>) {
    let mut start = records::audits_prefix();
    let end = records::after_prefix(&start);
    start.extend(moment.0.to_be_bytes());
    (start, end)
}

/// The audit, newest first, until the visitor has enough.
pub fn audits(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Audit) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let prefix = records::audits_prefix();
    scan_prefix(
        storage,
        &prefix,
        Order::Falling,
        &mut |key, value| match value.and_then(|value| decode(key, value)) {
            Ok(audit) => visit(audit),
            Err(_) => ControlFlow::Continue(()),
        },
    )
}

fn one<T: DeserializeOwned>(storage: &dyn Storage, key: &[u8]) -> Result<Option<T>, StorageError> {
    let value = storage.get(key)?;
    value.map(|value| decode(key, &value)).transpose()
}

/// The records that the ids under a prefix name.
fn marked<Id: DeserializeOwned, T: DeserializeOwned>(
    storage: &dyn Storage,
    marks: &[u8],
    key: impl Fn(&Id) -> Vec<u8>,
) -> Result<Found<T>, StorageError> {
    let ids: Found<Id> = collect(storage, marks)?;
    let mut found = Found {
        rows: Vec::new(),
        damaged: ids.damaged,
    };
    for id in &ids.rows {
        match one(storage, &key(id)) {
            Ok(row) => found.rows.extend(row),
            Err(error) => found.damaged.push(error),
        }
    }
    Ok(found)
}

/// The records of all teams, also of those that are gone.
pub fn teams(storage: &dyn Storage) -> Result<Found<TeamRecord>, StorageError> {
    collect(storage, &records::teams_prefix())
}

/// Tasks that ended since a moment, the newest first, as far as they are wanted: by what the order of
/// ends says before they are looked up, and as a whole after.
pub fn ended_tasks(
    storage: &dyn Storage,
    since: Timestamp,
    most: usize,
    mut of: impl FnMut(&EndedTask) -> bool,
    mut wanted: impl FnMut(&Task) -> bool,
) -> Result<Vec<Task>, StorageError> {
    let mut tasks = Vec::new();
    let mut failed = None;
    let (start, end) = (
        records::ended_since(since),
        records::after_prefix(&records::ended_prefix()),
    );
    storage.scan(&start, &end, Order::Falling, &mut |key, value| {
        if tasks.len() >= most {
            return ControlFlow::Break(());
        }
        let found = records::ended_task(key, value.unwrap_or_default());
        match found.filter(&mut of).map(|ended| task(storage, &ended.id)) {
            Some(Ok(Some(task))) if wanted(&task) => tasks.push(task),
            Some(Err(error)) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(tasks), Err)
}

/// Shows tasks that ended since a moment, the newest first, each with when it ended, until the
/// visitor has enough. Those that are not wanted are not looked up.
pub fn each_ended_task(
    storage: &dyn Storage,
    since: Timestamp,
    mut of: impl FnMut(&EndedTask) -> bool,
    visit: &mut dyn FnMut(Timestamp, Task) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let mut failed = None;
    let (start, end) = (
        records::ended_since(since),
        records::after_prefix(&records::ended_prefix()),
    );
    storage.scan(&start, &end, Order::Falling, &mut |key, value| {
        let found = records::ended_task(key, value.unwrap_or_default());
        let Some(ended) = found.filter(&mut of) else {
            return ControlFlow::Continue(());
        };
        match task(storage, &ended.id) {
            Ok(Some(task)) => visit(ended.at, task),
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// The answer that a tool call was given before.
pub fn answer<T: DeserializeOwned>(
    storage: &dyn Storage,
    call: &str,
) -> Result<Option<T>, StorageError> {
    let key = records::answer_key(call);
    storage
        .get(&key)?
        .map(|value| decode(&key, &value))
        .transpose()
}

/// A task without an outcome, as far as it is needed to count.
#[derive(Clone, Debug, Deserialize)]
pub struct OpenWork {
    /// Its id.
    pub id: TaskId,
    /// Its lane.
    pub lane: Lane,
    /// What kind of work it is.
    #[serde(default)]
    pub kind: Kind,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Where it comes from.
    #[serde(default)]
    pub source: Option<Source>,
    /// Who holds it.
    #[serde(default)]
    pub lease: Option<LeaseId>,
    /// Its turn was set aside.
    #[serde(default)]
    pub parked: Option<Parked>,
}

/// All tasks without an outcome, without their words.
pub fn open_work(storage: &dyn Storage) -> Result<Vec<OpenWork>, StorageError> {
    Ok(collect(storage, &task_prefix())?.rows)
}

/// All topics of all channels.
pub fn topics(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(ChannelId, Topic),
) -> Result<(), StorageError> {
    let prefix = records::topics_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let name = std::str::from_utf8(&key[prefix.len()..]).ok();
        let channel = name.and_then(|name| name.rsplit_once('\0'));
        if let Some((channel, _)) = channel
            && let Ok(topic) = value.and_then(|value| decode(key, value))
        {
            visit(channel.into(), topic);
        }
        ControlFlow::Continue(())
    })
}

/// All used channels.
pub fn channels(storage: &dyn Storage) -> Result<Vec<(ChannelId, ChannelRow)>, StorageError> {
    let prefix = records::channels_prefix();
    let mut rows = Vec::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let id = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        if let Ok(row) = value.and_then(|value| decode(key, value)) {
            rows.push((ChannelId::from(id), row));
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Every key of a channel: for when it is forgotten.
pub fn channel_keys(storage: &dyn Storage, id: &ChannelId) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = vec![channel_key(id)];
    for prefix in [
        topic_prefix(id),
        message_prefix(id),
        outbox_prefix(id),
        interaction_prefix(id),
    ] {
        scan_prefix(storage, &prefix, Order::Rising, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(keys)
}
