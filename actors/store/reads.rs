//! Reads: what the spine looks up, by type. All of them block: see `StoreHandle::read`.

use std::{collections::HashSet, ops::ControlFlow, time::Duration};

use serde::de::DeserializeOwned;

use super::{
    records::{
        self, ChannelRow, Interaction, MessageRow, Said, Undecided, channel_key, decode,
        finished_key, interaction_prefix, journal_prefix, message_prefix, number_at_end,
        outbox_prefix, task_key, task_prefix, topic_prefix, undecided_prefix,
    },
    scan_prefix,
};
use crate::{
    briefing::{Line, Speaker},
    clock::Timestamp,
    event::Frame,
    history::{Fact, HistoryEvent, Origin},
    ids::{ChannelId, MessageId, TaskId, TeamName, TopicId},
    inbox::InboxEvent,
    notice::Notice,
    router::topics::Topic,
    storage::{Order, Storage, StorageError},
    task::{Lane, Task},
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
    Ok(LaneHistory { next_seq, recent })
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
            if topic.is_some() && row.topic.is_some() && row.topic.as_ref() != topic {
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
