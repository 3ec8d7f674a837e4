//! Keys: under what records are stored, in an order that they are read in.

use super::rows::{Interaction, digest};
use crate::{
    audit::Audit,
    budget::{Day, Tally},
    clock::Timestamp,
    ids::{
        ApprovalId, ChannelId, MessageId, NoticeId, QuestionId, TaskId, TeamKey, TeamName, TopicId,
        TurnId,
    },
    task::{Kind, Lane, Task},
};

/// A key of the edges: a kind and a name, apart from all keys of the spine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeKey {
    kind: &'static str,
    name: String,
}

impl EdgeKey {
    /// The record `name` among those of a kind.
    pub fn new(kind: &'static str, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// As it is stored.
    pub fn bytes(&self) -> Vec<u8> {
        join(&["edge", self.kind, &self.name])
    }

    /// What the keys of all records of a kind begin with.
    pub fn prefix(kind: &str) -> Vec<u8> {
        prefix(&["edge", kind])
    }
}

/// Parts separated by a byte that is in none of them: whatever an id holds, it never reaches into
/// the keys of another.
pub(in crate::store) fn join(parts: &[&str]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len() + 1).sum();
    let mut key = Vec::with_capacity(length);
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            key.push(0);
        }
        extend(&mut key, part);
    }
    key
}

/// Adds a part to a key.
fn extend(key: &mut Vec<u8>, part: &str) {
    if !part.contains('\0') {
        key.extend_from_slice(part.as_bytes())
    } else {
        key.extend(part.replace('\0', "\u{fffd}").bytes())
    }
}

pub(in crate::store) fn prefix(parts: &[&str]) -> Vec<u8> {
    let mut key = join(parts);
    key.push(0);
    key
}

/// The first key after all that begin with a prefix.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// What the keys of all errors of teams begin with.
pub(in crate::store) const ERRORS: [&str; 1] = ["team_error"];

pub(super) fn error_key(team: &TeamKey) -> Vec<u8> {
    join(&[ERRORS[0], &team.to_string()])
}

/// When the conversation of a lane was begun anew.
pub(in crate::store) fn began_key(lane: &Lane, generation: u32) -> Vec<u8> {
    join(&["began", &lane.session_id(generation)])
}

/// Which event of a journal summarises what was said before it.
pub(in crate::store) fn summary_key(lane: &Lane, generation: u32) -> Vec<u8> {
    join(&["summary", &lane.session_id(generation)])
}

pub(in crate::store) fn task_key(id: &TaskId) -> Vec<u8> {
    join(&["task", id.as_str()])
}

pub(crate) fn task_prefix() -> Vec<u8> {
    prefix(&["task"])
}

pub(in crate::store) fn finished_key(id: &TaskId) -> Vec<u8> {
    join(&["done", id.as_str()])
}

pub(crate) fn finished_prefix() -> Vec<u8> {
    prefix(&["done"])
}

/// The order in which tasks ended, with their teams: what lists of finished work are made from.
pub(crate) fn ended_key(task: &Task) -> Vec<u8> {
    let at = task.outcome.as_ref().map(|outcome| outcome.finished_at);
    let mut key = ended_since(at.unwrap_or_default());
    key.extend(join(&[task.lane.team.as_str(), task.id.as_str()]));
    key
}

pub(in crate::store) fn ended_prefix() -> Vec<u8> {
    prefix(&["end"])
}

/// The first key of tasks that ended then or later.
pub(in crate::store) fn ended_since(at: Timestamp) -> Vec<u8> {
    let mut key = ended_prefix();
    key.extend(at.0.to_be_bytes());
    key
}

/// What stands under such a key: messages are many, and passed over without looking them up where
/// other work is wanted.
pub(super) fn ended_mark(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Chat => b"chat",
        _ => b"",
    }
}

/// A task that ended, as the order of ends has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTask {
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub team: TeamName,
    /// Which.
    pub id: TaskId,
    /// It was a message of a person.
    pub is_chat: bool,
}

/// What such a record says.
pub(in crate::store) fn ended_task(key: &[u8], value: &[u8]) -> Option<EndedTask> {
    let (at, rest) = key.get(ended_prefix().len()..)?.split_first_chunk()?;
    let (team, task) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    Some(EndedTask {
        at: Timestamp(u64::from_be_bytes(*at)),
        team: team.into(),
        id: task.into(),
        is_chat: value.starts_with(ended_mark(Kind::Chat)),
    })
}

/// What the calls for such a task came to. Records of former versions don't say.
pub(in crate::store) fn ended_tally(value: &[u8]) -> Option<Tally> {
    let mark = ended_mark(Kind::Chat);
    let tally = value.strip_prefix(mark).unwrap_or(value);
    serde_json::from_slice(tally).ok()
}

pub(in crate::store) fn message_key(channel: &ChannelId, id: &MessageId) -> Vec<u8> {
    join(&["msg", channel.as_str(), id.as_str()])
}

pub(in crate::store) fn message_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["msg", channel.as_str()])
}

/// What the keys of all messages begin with.
pub(crate) fn messages_prefix() -> Vec<u8> {
    prefix(&["msg"])
}

/// The channel and the message that the end of a key names.
pub(crate) fn named_message(end: &[u8]) -> Option<(ChannelId, MessageId)> {
    let (channel, message) = std::str::from_utf8(end).ok()?.split_once('\0')?;
    Some((channel.into(), message.into()))
}

/// The message whose topic was still being found out, if the key is of such a record.
pub(crate) fn undecided_message(key: &[u8]) -> Option<(ChannelId, MessageId)> {
    named_message(key.strip_prefix(undecided_prefix().as_slice())?)
}

/// The copy of a damaged record. Keys have a limit, so that of a long one its end is told by its digest.
pub(crate) fn quarantine_key(record: &[u8]) -> Vec<u8> {
    let mut key = quarantine_prefix();
    match record.get(..LONGEST_NAMED) {
        Some(start) => {
            key.extend(start);
            key.extend(format!("{:016x}", digest(&printable(record))).bytes());
        }
        None => key.extend(record),
    }
    key
}

/// The longest key that its copy in the quarantine is named by in full.
const LONGEST_NAMED: usize = 900;

pub(in crate::store) fn quarantine_prefix() -> Vec<u8> {
    prefix(&["quarantine"])
}

pub(in crate::store) fn undecided_key(channel: &ChannelId, id: &MessageId) -> Vec<u8> {
    join(&["und", channel.as_str(), id.as_str()])
}

pub(in crate::store) fn undecided_prefix() -> Vec<u8> {
    prefix(&["und"])
}

pub(in crate::store) fn channel_key(channel: &ChannelId) -> Vec<u8> {
    join(&["chan", channel.as_str()])
}

pub(in crate::store) fn channels_prefix() -> Vec<u8> {
    prefix(&["chan"])
}

/// The channel whose row stands under a key, if it is such a key.
pub(crate) fn channel_of(key: &[u8]) -> Option<ChannelId> {
    let name = key.strip_prefix(channels_prefix().as_slice())?;
    std::str::from_utf8(name).ok().map(ChannelId::from)
}

pub(in crate::store) fn topic_key(channel: &ChannelId, id: &TopicId) -> Vec<u8> {
    join(&["topic", channel.as_str(), id.as_str()])
}

pub(crate) fn topics_prefix() -> Vec<u8> {
    prefix(&["topic"])
}

pub(in crate::store) fn topic_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["topic", channel.as_str()])
}

pub(in crate::store) fn outbox_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["out", channel.as_str()])
}

pub(crate) fn outbox_key(channel: &ChannelId, ordinal: u64) -> Vec<u8> {
    let mut key = outbox_prefix(channel);
    key.extend(ordinal.to_be_bytes());
    key
}

/// The channel and the ordinal of the frame that stands under a key, if it is such a key.
pub(crate) fn outbox_place(key: &[u8]) -> Option<(ChannelId, u64)> {
    let place = key.strip_prefix(prefix(&["out"]).as_slice())?;
    let (name, ordinal) = place.split_last_chunk()?;
    let name = std::str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
    Some((name.into(), u64::from_be_bytes(*ordinal)))
}

pub(in crate::store) fn notice_key(id: &NoticeId) -> Vec<u8> {
    join(&["notice", id.as_str()])
}

pub(crate) fn notices_prefix() -> Vec<u8> {
    prefix(&["notice"])
}

pub(crate) fn approval_key(id: &ApprovalId) -> Vec<u8> {
    join(&["apr", id.as_str()])
}

pub(in crate::store) fn approvals_prefix() -> Vec<u8> {
    prefix(&["apr"])
}

pub(super) fn approval_mark(id: &ApprovalId) -> Vec<u8> {
    join(&["apr-open", id.as_str()])
}

pub(in crate::store) fn short_id_key(short_id: &str) -> Vec<u8> {
    join(&["apr-short", short_id])
}

pub(crate) fn approval_marks() -> Vec<u8> {
    prefix(&["apr-open"])
}

pub(in crate::store) fn question_key(id: &QuestionId) -> Vec<u8> {
    join(&["qst", id.as_str()])
}

pub(in crate::store) fn questions_prefix() -> Vec<u8> {
    prefix(&["qst"])
}

pub(super) fn question_mark(id: &QuestionId) -> Vec<u8> {
    join(&["qst-open", id.as_str()])
}

pub(in crate::store) fn question_marks() -> Vec<u8> {
    prefix(&["qst-open"])
}

/// In the order of time.
pub(super) fn audit_key(audit: &Audit) -> Vec<u8> {
    let mut key = audits_prefix();
    key.extend(audit.at.0.to_be_bytes());
    key.extend(audit.id.bytes());
    key
}

pub(crate) fn audits_prefix() -> Vec<u8> {
    prefix(&["audit"])
}

pub(super) fn team_key(name: &TeamName, generation: u32) -> Vec<u8> {
    join(&["team", name.as_str(), &format!("{generation:08x}")])
}

pub(crate) fn teams_prefix() -> Vec<u8> {
    prefix(&["team"])
}

pub(in crate::store) fn answer_key(call: &str) -> Vec<u8> {
    join(&["call", call])
}

/// What the keys of the answers to a turn's calls begin with.
pub(crate) fn answers_prefix(turn: &TurnId) -> Vec<u8> {
    answer_key(&format!("{turn}:"))
}

pub(in crate::store) fn interactions_prefix() -> Vec<u8> {
    prefix(&["log"])
}

pub(in crate::store) fn interaction_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["log", channel.as_str()])
}

pub(super) fn interaction_key(row: &Interaction, name: &str) -> Vec<u8> {
    let mut key = interaction_prefix(&row.channel);
    key.extend(row.at.0.to_be_bytes());
    key.extend(name.bytes());
    key
}

pub(crate) fn journals_prefix() -> Vec<u8> {
    prefix(&["hist"])
}

pub(in crate::store) fn journal_prefix(lane: &Lane, generation: u32) -> Vec<u8> {
    lane_prefix("hist", lane, generation)
}

pub(in crate::store) fn journal_key(lane: &Lane, generation: u32, seq: u64) -> Vec<u8> {
    let mut key = journal_prefix(lane, generation);
    key.extend(seq.to_be_bytes());
    key
}

pub(crate) fn inbox_prefix(lane: &Lane, generation: u32) -> Vec<u8> {
    lane_prefix("inbox", lane, generation)
}

pub(in crate::store) fn inboxes_of(team: &TeamKey) -> Vec<u8> {
    let mut key = inboxes_prefix();
    key.extend(lane_team(team));
    key.push(0);
    key
}

pub(crate) fn inboxes_prefix() -> Vec<u8> {
    prefix(&["inbox"])
}

pub(super) fn inbox_key(lane: &Lane, generation: u32, number: u64) -> Vec<u8> {
    let mut key = inbox_prefix(lane, generation);
    key.extend(number.to_be_bytes());
    key
}

/// Where an event of an inbox is that was shown in part. It goes with its team and its age as those
/// that wait do; no topic's name begins with this byte.
pub(in crate::store) fn shown_key(lane: &Lane, generation: u32, event: &str) -> Vec<u8> {
    let mut key = inboxes_of(&TeamKey { name: lane.team.clone(), generation });
    key.push(1);
    let topic = lane.topic.as_ref().map_or(NO_TOPIC, TopicId::as_str);
    extend(&mut key, topic);
    key.push(0);
    extend(&mut key, event);
    key
}

pub(in crate::store) fn day_prefix(kind: &str, day: Day) -> Vec<u8> {
    prefix(&[kind, &day.number.to_string()])
}

pub(in crate::store) fn cause_key(root: &TaskId) -> Vec<u8> {
    join(&["cause", root.as_str()])
}

pub(super) fn cost_key(root: &TaskId, task: &TaskId) -> Vec<u8> {
    join(&["cost", root.as_str(), task.as_str()])
}

pub(in crate::store) fn costs_prefix() -> Vec<u8> {
    prefix(&["cost"])
}

pub(in crate::store) fn causes_prefix() -> Vec<u8> {
    prefix(&["cause"])
}

/// How keys name the lane of work that has no topic.
pub(crate) const NO_TOPIC: &str = "main";

/// A team with its life, as keys name it. The first life has none.
pub(super) fn life(team: &TeamKey) -> String {
    match team.generation {
        1 => team.name.to_string(),
        later => format!("{}~{later}", team.name),
    }
}

/// The team that [`life`] names.
pub(in crate::store) fn team_of(life: &str) -> TeamKey {
    let parts = life.rsplit_once('~');
    match parts.and_then(|(name, later)| Some((name, later.parse().ok()?))) {
        Some((name, generation)) => TeamKey { name: name.into(), generation },
        None => TeamKey::first(life),
    }
}

/// What the keys of a lane's rows begin with.
fn lane_prefix(kind: &str, lane: &Lane, generation: u32) -> Vec<u8> {
    let mut key = prefix(&[kind]);
    key.extend(lane_name(lane, generation));
    key.push(0);
    key
}

/// How keys name a lane.
pub(crate) fn lane_name(lane: &Lane, generation: u32) -> Vec<u8> {
    let mut name = lane_team(&TeamKey { name: lane.team.clone(), generation });
    name.push(0);
    let topic = lane.topic.as_ref().map_or(NO_TOPIC, TopicId::as_str);
    extend(&mut name, topic);
    name
}

/// How the keys of lanes name their team. The first team of a name has no generation in it.
pub(crate) fn lane_team(team: &TeamKey) -> Vec<u8> {
    match team.generation {
        1 => team.name.as_str().as_bytes().to_vec(),
        later => format!("{}~{later}", team.name).into_bytes(),
    }
}

/// The number at the end of an outbox or journal key.
pub(in crate::store) fn number_at_end(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// A key for people.
pub fn printable(key: &[u8]) -> String {
    key.iter()
        .map(|byte| match byte {
            0 => '/',
            b'!'..=b'~' => char::from(*byte),
            _ => '.',
        })
        .collect()
}
