//! Reads: what the spine looks up, by type. All of them block: see `StoreHandle::read`.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use serde::{Deserialize, de::DeserializeOwned};

use super::{
    acked,
    damage::{one, readable, report, row},
    records::{
        self, ChannelRow, ERRORS, EndedTask, Interaction, MessageRow, Said, TeamError, Undecided,
        channel_key, finished_key, interaction_prefix, message_prefix, number_at_end,
        outbox_prefix, task_key, task_prefix, topic_prefix, undecided_prefix,
    },
    scan_prefix,
};
use crate::{
    approvals::{question::Question, record::Approval},
    audit::Audit,
    briefing::{Line, Speaker},
    clock::Timestamp,
    event::Frame,
    ids::{
        ApprovalId, ChannelId, LeaseId, MessageId, NoticeId, QuestionId, TaskId, TeamKey, TopicId,
    },
    inbox::InboxEvent,
    notice::Notice,
    org::record::TeamRecord,
    router::topics::Topic,
    storage::{Order, Storage, StorageError},
    task::{Kind, Lane, Parked, Source, Task},
};

/// What a scan found. Records that cannot be read are reported.
#[derive(Debug)]
pub struct Found<T> {
    /// Rows in the order of the scan.
    pub rows: Vec<T>,
}

fn collect<T: DeserializeOwned>(
    storage: &dyn Storage,
    prefix: &[u8],
) -> Result<Found<T>, StorageError> {
    let mut found = Found { rows: Vec::new() };
    scan_prefix(storage, prefix, Order::Rising, &mut |key, value| {
        found.rows.extend(row::<T>(storage, key, value));
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
        if let Some(task) = one(storage, &key)? {
            return Ok(Some(task));
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
    let Some(opened) = one(storage, &key)? else {
        return Ok(None);
    };
    let topics = collect(storage, &topic_prefix(id))?.rows;
    let prefix = message_prefix(id);
    let mut messages = Vec::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let id = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        if let Some(row) = row(storage, key, value) {
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
    Ok(Some(ChannelHistory { row: opened, topics, messages, said }))
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
    scan_prefix(storage, &outbox_prefix(id), Order::Rising, &mut |key, value| {
        match value.and_then(|value| acked::frames(key, value)) {
            Ok(stored) => frames.extend(stored),
            Err(error) => report(storage, key, &error),
        }
        ControlFlow::Continue(())
    })?;
    Ok(frames)
}

/// Those of some frames of a channel's outbox that are there.
pub fn frames(
    storage: &dyn Storage,
    id: &ChannelId,
    ordinals: &[u64],
) -> Result<Vec<Frame>, StorageError> {
    let stored = outbox(storage, id)?.into_iter();
    let wanted = stored.filter(|stored| ordinals.contains(&stored.ordinal));
    Ok(wanted.map(|stored| stored.frame).collect())
}

/// The newest ordinal of a channel's outbox; 0 if it never had one.
pub fn newest_ordinal(storage: &dyn Storage, id: &ChannelId) -> Result<u64, StorageError> {
    let mut newest = 0;
    scan_prefix(storage, &outbox_prefix(id), Order::Falling, &mut |key, _| {
        newest = number_at_end(key).unwrap_or(0);
        ControlFlow::Break(())
    })?;
    Ok(newest)
}

/// What went wrong last in each team that something went wrong in, by the team's key.
pub fn team_errors(storage: &dyn Storage) -> Result<HashMap<String, TeamError>, StorageError> {
    let prefix = records::prefix(&ERRORS);
    let mut errors = HashMap::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let name = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default());
        // One that cannot be read is not missed.
        if let Some(error) = row::<TeamError>(storage, key, value) {
            errors.insert(name.into_owned(), error);
        }
        ControlFlow::Continue(())
    })?;
    Ok(errors)
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
            let event = row(storage, key, value);
            events.extend(number_at_end(key).zip(event));
            ControlFlow::Continue(())
        },
    )?;
    Ok(events)
}

/// An event that was shown to a turn of this lane in part.
pub fn shown_event(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    id: &str,
) -> Result<Option<InboxEvent>, StorageError> {
    one(storage, &records::shown_key(lane, generation, id))
}

/// The keys of all that waits for a team.
pub fn inbox_keys(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    scan_prefix(storage, &records::inboxes_of(team), Order::Rising, &mut |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

/// The key prefixes of all inboxes that hold something.
pub fn inboxes(storage: &dyn Storage) -> Result<HashSet<Vec<u8>>, StorageError> {
    let mut lanes = HashSet::new();
    scan_prefix(storage, &records::inboxes_prefix(), Order::Rising, &mut |key, _| {
        lanes.insert(key[..key.len().saturating_sub(8)].to_vec());
        ControlFlow::Continue(())
    })?;
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
        if let Some(row) = row(storage, key, value) {
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
    scan_prefix(storage, &records::interactions_prefix(), Order::Rising, &mut |key, value| {
        let old = row::<Interaction>(storage, key, value).is_some_and(|row| row.at < before);
        if old {
            keys.push(key.to_vec());
        }
        ControlFlow::Continue(())
    })?;
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
    storage.scan(&start, &end, Order::Rising, &mut |key, value| {
        row(storage, key, value).map_or(ControlFlow::Continue(()), &mut *visit)
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
        if let Some(row) = row(storage, key, value) {
            visit(row);
        }
        ControlFlow::Continue(())
    })
}

/// All notices, oldest first.
pub fn notices(storage: &dyn Storage) -> Result<Vec<Notice>, StorageError> {
    let mut notices: Vec<Notice> = Vec::new();
    scan_prefix(storage, &records::notices_prefix(), Order::Rising, &mut |key, value| {
        notices.extend(row::<Notice>(storage, key, value));
        ControlFlow::Continue(())
    })?;
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
    scan_prefix(storage, &prefix, Order::Falling, &mut |key, value| {
        row(storage, key, value).map_or(ControlFlow::Continue(()), &mut *visit)
    })
}

/// The records that the ids under a prefix name.
fn marked<Id: DeserializeOwned, T: DeserializeOwned>(
    storage: &dyn Storage,
    marks: &[u8],
    key: impl Fn(&Id) -> Vec<u8>,
) -> Result<Found<T>, StorageError> {
    let ids: Found<Id> = collect(storage, marks)?;
    let mut found = Found { rows: Vec::new() };
    for id in &ids.rows {
        found.rows.extend(readable::<T>(storage, &key(id))?);
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
    let (start, end) =
        (records::ended_since(since), records::after_prefix(&records::ended_prefix()));
    storage.scan(&start, &end, Order::Falling, &mut |key, value| {
        if tasks.len() >= most {
            return ControlFlow::Break(());
        }
        let found = records::ended_task(key, value.unwrap_or_default());
        match found.filter(&mut of).map(|ended| task(storage, &ended.id)) {
            Some(Ok(Some(task))) if wanted(&task) => tasks.push(task),
            // It is reported, and takes no other with it.
            Some(Err(StorageError::Damaged { .. })) => {}
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
    let (start, end) =
        (records::ended_since(since), records::after_prefix(&records::ended_prefix()));
    storage.scan(&start, &end, Order::Falling, &mut |key, value| {
        let found = records::ended_task(key, value.unwrap_or_default());
        let Some(ended) = found.filter(&mut of) else {
            return ControlFlow::Continue(());
        };
        match task(storage, &ended.id) {
            Ok(Some(task)) => visit(ended.at, task),
            Ok(None) | Err(StorageError::Damaged { .. }) => ControlFlow::Continue(()),
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
    one(storage, &records::answer_key(call))
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
            && let Some(topic) = row(storage, key, value)
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
        if let Some(row) = row(storage, key, value) {
            rows.push((ChannelId::from(id), row));
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Every key of a channel: for when it is forgotten.
pub fn channel_keys(storage: &dyn Storage, id: &ChannelId) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = vec![channel_key(id)];
    for prefix in [topic_prefix(id), message_prefix(id), outbox_prefix(id), interaction_prefix(id)]
    {
        scan_prefix(storage, &prefix, Order::Rising, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(keys)
}
