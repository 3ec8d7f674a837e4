//! Records of the router: messages, topics, and what the trust gate decided.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    audit::AuditRow,
    grants::{Grantee, Grants, SenderGrant},
    score::MAX_REMEMBERED,
    topics::Topic,
};
use crate::{
    admission::Admission,
    approvals::{question::Question, record::Approval, records as approvals},
    channel::records::{ChannelRow, DeliveryMark, OutboxRow},
    clock::Timestamp,
    conversation_log::ConversationEntry,
    file::records::FileRow,
    identities,
    ids::{ChannelId, MessageId, TaskId, TeamName, TopicId},
    interactions::Interaction,
    journal::stored::StoredSession,
    live::event::{Event, Kind},
    storage::{Order, Storage, StorageError},
    store::{
        keys::{Key, KeyReader, KeyWriter, Parts, key_of},
        reads::{Range, contains, get, get_readable, parse, scan, scan_keyed},
        records::{Record, Writes},
        redact::{Owner, Texts},
    },
    task::{
        Label, Lane, Source,
        cause::Cause,
        ended,
        query::TaskQuery,
        records::{self as tasks, LaneKey},
    },
};

pub const TEXTS: &[Texts] = &[
    Texts::of(Undecided::KIND, Owner::Main, &["content", "files/*/name"]),
    Texts::of(Topic::KIND, Owner::Main, &[]).named(&["name"]),
];

crate::records! {
    MessageRow: "msg", (ChannelId, MessageId);
    /// By the channel, and by the topic; by the channel again for what belongs to no topic.
    ReadMark: "read", (ChannelId, String);
    TopicChannel: "tchan", TopicId;
    /// By what its owner is let in by.
    HomeChannel: "home", String;
    Undecided: "und", (ChannelId, MessageId), |row| (row.channel.clone(), row.id.clone());
    /// A grant, in place of the one that its grantee had.
    SenderGrant: "trust\0grant", Grantee, |row| row.grantee.clone();
    /// A decision that no task stands for.
    AuditRow: "trust\0audit", (Timestamp, String), |row| (row.at, row.id.clone());
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRow {
    /// Tells a repeat from another message under the same id.
    pub digest: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// The work it became, once its topic was known.
    pub task: Option<TaskId>,
}

/// Up to when somebody has read what was said in one place, on whichever device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReadMark(pub Timestamp);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicChannel(pub ChannelId);

/// The channel that all connections of its owner share which ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HomeChannel(pub ChannelId);

/// An accepted message whose topic is not yet known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    pub channel: ChannelId,
    pub id: MessageId,
    pub sender: String,
    pub content: String,
    /// The topic that its sender chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    pub at: Timestamp,
    /// The ack frame has been stored.
    pub acked: bool,
    /// Other connections of the channel have been told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told: bool,
    /// Its sender named it, and may send it again.
    pub named: bool,
    /// How it got past the trust gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    #[serde(default)]
    pub label: Label,
    /// Who is behind it, if that is not simply its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<ChannelId>,
    /// The team that it is for; none is the main one. A message to another team needs no topic, and is never stored as one
    /// that waits for it.
    #[serde(skip)]
    pub team: Option<TeamName>,
    /// It is for the turn that runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steers: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRow>,
}

impl Record for Topic {
    const KIND: &'static str = "topic";
    type Key = (ChannelId, TopicId);

    fn told(&self, (channel, _): &Self::Key) -> Option<Event> {
        let state = if self.closed { "done" } else { "active" };
        let data = json!({
            "id": self.id,
            "channel_id": channel,
            "name": self.name,
            "state": state,
            "pinned": self.pinned,
            "last_activity": self.last_activity.date(),
        });
        Some(Event::new(Kind::TopicChanged, data).of_topic(Some(&self.id)))
    }

    fn along(&self, (channel, id): &Self::Key, writes: Writes) -> Writes {
        writes.put_at(id, &TopicChannel(channel.clone()))
    }
}

impl Topic {
    /// What it is found by in its channel.
    pub fn key(&self, channel: &ChannelId) -> (ChannelId, TopicId) {
        (channel.clone(), self.id.clone())
    }
}

impl Parts for Grantee {
    fn write(&self, key: &mut KeyWriter) {
        key.text(&self.channel_type.to_string());
        key.text(&self.sender);
        key.text(self.channel.as_ref().map_or("", |channel| channel.as_str()));
    }
}

impl Key for Grantee {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        let (channel_type, sender) = (key.text()?, key.text()?);
        let channel = key.text().filter(|channel| !channel.is_empty());
        Self::read(channel_type.parse().ok()?, sender, channel).ok()
    }
}

/// What is known of a channel, but for its messages.
#[derive(Debug)]
pub struct ChannelHistory {
    /// Who opened it.
    pub row: ChannelRow,
    pub topics: Vec<Topic>,
    /// What people said in each of its topics lately, oldest first.
    pub said: Vec<(TopicId, Timestamp, String)>,
    /// Up to when each place was read.
    pub read: Vec<(String, Timestamp)>,
}

/// A channel, if it exists. What was said is read of the topics in which something happened since a moment, and of pinned
/// ones: of others nothing is compared.
pub fn channel(
    storage: &dyn Storage,
    id: &ChannelId,
    said_since: Timestamp,
) -> Result<Option<ChannelHistory>, StorageError> {
    let Some(row) = get::<ChannelRow>(storage, id)? else { return Ok(None) };
    let read = scan_keyed::<ReadMark>(storage, Range::under(&(id,)))?.into_iter();
    let topics = scan::<Topic>(storage, Range::under(&(id,)))?;
    let mut said = Vec::new();
    let is_compared = |topic: &Topic| topic.pinned || topic.last_activity >= said_since;
    for topic in topics.iter().filter(|topic| !topic.closed && is_compared(topic)) {
        said.extend(said_in(storage, &topic.id)?);
    }
    Ok(Some(ChannelHistory {
        row,
        topics,
        said,
        read: read.map(|((_, place), ReadMark(until))| (place, until)).collect(),
    }))
}

/// The messages of a channel that are known by name: there may be thousands. Whoever needs one looks for that.
pub fn messages(
    storage: &dyn Storage,
    channel: &ChannelId,
) -> Result<HashMap<MessageId, MessageRow>, StorageError> {
    let rows = scan_keyed::<MessageRow>(storage, Range::under(&(channel,)))?;
    Ok(rows.into_iter().map(|((_, id), row)| (id, row)).collect())
}

/// What people said in a topic lately, oldest first: as much as tells what it is about.
fn said_in(
    storage: &dyn Storage,
    topic: &TopicId,
) -> Result<Vec<(TopicId, Timestamp, String)>, StorageError> {
    let mut messages = Vec::new();
    let range = Range::<ConversationEntry>::under(&(&topic.to_string(),));
    range.walk(storage, Order::Falling, &mut |key, entry| {
        if let Ok(ConversationEntry::Message) = entry {
            messages.extend(parse::<ConversationEntry>(key).map(|(_, at, task)| (at, task)));
        }
        if messages.len() < MAX_REMEMBERED {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let mut said = Vec::new();
    for (at, task) in messages.into_iter().rev() {
        // A damaged one is reported, and takes no other with it.
        if let Ok(Some(task)) = tasks::find(storage, &task.into()) {
            said.push((topic.clone(), at, task.body));
        }
    }
    Ok(said)
}

/// The channel that the connections of an owner share, if there is one.
pub fn home(
    storage: &dyn Storage,
    owner: &identities::Owner,
) -> Result<Option<ChannelId>, StorageError> {
    let Some(HomeChannel(channel)) = get_readable(storage, owner.grant.as_str())? else {
        return Ok(None);
    };
    let row = get::<ChannelRow>(storage, &channel)?;
    Ok(row.filter(|row| row.belongs_to(owner)).map(|_| channel))
}

/// The channel that a topic is of. One that a former version wrote last is not in the index: it is looked for in the channel
/// that the connections of whoever asks share.
pub fn channel_of(
    storage: &dyn Storage,
    owner: &identities::Owner,
    topic: &TopicId,
) -> Result<Option<ChannelId>, StorageError> {
    let channel = match get_readable(storage, topic)? {
        Some(TopicChannel(channel)) => Some(channel),
        None => home(storage, owner)?,
    };
    match channel {
        Some(channel) if contains::<Topic>(storage, &(&channel, topic))? => Ok(Some(channel)),
        _ => Ok(None),
    }
}

/// A topic, and its channel. One that a former version wrote last is not in the index: it is looked for among all.
pub fn find_topic(
    storage: &dyn Storage,
    wanted: &TopicId,
) -> Result<Option<(ChannelId, Topic)>, StorageError> {
    if let Some(TopicChannel(channel)) = get_readable(storage, wanted)?
        && let Some(topic) = get_readable(storage, &(&channel, wanted))?
    {
        return Ok(Some((channel, topic)));
    }
    let mut found = None;
    each_topic(storage, &mut |channel, topic| {
        if topic.id == *wanted {
            found = Some((channel, topic));
        }
    })?;
    Ok(found)
}

pub fn each_topic(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(ChannelId, Topic),
) -> Result<(), StorageError> {
    Range::<Topic>::all().for_each_keyed(storage, &mut |(channel, _), topic| visit(channel, topic))
}

/// Topics for which something is done, by other teams too, or which somebody is asked about. Work is looked at last: an answer
/// is stored with the task that brings it.
pub(super) fn topics_in_use(storage: &dyn Storage) -> Result<HashSet<TopicId>, StorageError> {
    let mut in_use = HashSet::new();
    let mut add = |lane: Option<Lane>, source: Option<Source>| {
        in_use.extend(lane.and_then(|lane| lane.topic));
        in_use.extend(source.and_then(|source| source.topic).map(|topic| topic.id));
    };
    approvals::each_waiting(storage, &mut |approval: Approval| {
        add(approval.lane, approval.source);
    })?;
    approvals::each_waiting(storage, &mut |question: Question| {
        add(Some(question.lane), question.source);
    })?;
    for task in tasks::open_work(storage)? {
        add(Some(task.lane), task.source);
    }
    Ok(in_use)
}

/// A topic is no more in its channel.
pub(super) fn topic_removed(channel: &ChannelId, topic: &TopicId) -> Writes {
    let told = json!({"id": topic, "channel_id": channel, "state": "deleted"});
    Writes::new()
        .delete::<Topic>(&(channel.clone(), topic.clone()))
        .delete::<TopicChannel>(topic)
        .delete::<ReadMark>(&(channel.clone(), topic.to_string()))
        .tell(Event::new(Kind::TopicChanged, told).of_topic(Some(topic)))
}

/// The stored keys of the session of a topic; none while one of its tasks is kept, with which they go then.
pub(super) fn session_keys(
    storage: &dyn Storage,
    topic: &TopicId,
) -> Result<Option<Vec<Vec<u8>>>, StorageError> {
    let session = StoredSession::read(storage, &LaneKey::of_topic(topic))?;
    for task in &session.tasks {
        if tasks::exists(storage, task)? {
            return Ok(None);
        }
    }
    Ok(Some(session.keys))
}

/// Every stored key of a channel: for when it is forgotten.
pub fn channel_keys(storage: &dyn Storage, id: &ChannelId) -> Result<Vec<Vec<u8>>, StorageError> {
    let topics = Range::<Topic>::under(&(id,)).keys(storage)?;
    let entries = |place: String| Range::<ConversationEntry>::under(&(&place,)).keys(storage);
    let (mut said, mut index) = (entries(id.to_string())?, Vec::new());
    for (_, topic) in topics.iter().filter_map(|key| parse::<Topic>(key)) {
        said.extend(entries(topic.to_string())?);
        said.extend(session_keys(storage, &topic)?.into_iter().flatten());
        index.push(key_of(TopicChannel::KIND, &topic));
    }
    let grant = get::<ChannelRow>(storage, id)?.and_then(|row| row.grant);
    let shared = match &grant {
        Some(grant) => get_readable(storage, grant.as_str())?,
        None => None,
    };
    if let (Some(grant), Some(HomeChannel(home))) = (&grant, &shared)
        && home == id
    {
        index.push(key_of(HomeChannel::KIND, grant.as_str()));
    }
    Ok([
        vec![key_of(ChannelRow::KIND, id), key_of(DeliveryMark::KIND, id)],
        topics,
        index,
        said,
        Range::<ReadMark>::under(&(id,)).keys(storage)?,
        Range::<MessageRow>::under(&(id,)).keys(storage)?,
        Range::<OutboxRow>::under(&(id,)).keys(storage)?,
        Range::<Interaction>::under(&(id,)).keys(storage)?,
    ]
    .concat())
}

/// All grants. One that is damaged is kept as such: its sender is not let in.
pub fn grants(storage: &dyn Storage) -> Result<Grants, StorageError> {
    let mut grants = Grants::default();
    let mut lost = None;
    Range::<SenderGrant>::all().walk(storage, Order::Rising, &mut |key, grant| {
        match grant {
            Ok(grant) => grants.put(grant),
            Err(error) => {
                tracing::error!(%error, "a grant cannot be read: its sender is not let in; revoke it or grant it anew");
                match parse::<SenderGrant>(key) {
                    Some(grantee) => grants.put_damaged(grantee),
                    None => lost = Some(error),
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    lost.map_or(Ok(grants), Err)
}

/// Which decisions are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    pub since: Timestamp,
    /// Only those that let in, or only those that did not.
    pub allowed: Option<bool>,
    pub sender: Option<String>,
}

impl AuditFilter {
    fn fits(&self, row: &AuditRow) -> bool {
        row.at >= self.since
            && self.allowed.is_none_or(|allowed| row.decision.allowed == allowed)
            && self.sender.as_ref().is_none_or(|sender| row.sender == *sender)
    }

    /// The tasks that stand for decisions which are wanted; none if no task does.
    pub fn tasks(&self) -> Option<TaskQuery> {
        (self.allowed != Some(false)).then(|| TaskQuery {
            admitted: true,
            sender: self.sender.clone(),
            since: self.since,
            ..TaskQuery::default()
        })
    }
}

/// Shows decisions that no task stands for, by when they were made, until the visitor has enough.
pub fn each_decision(
    storage: &dyn Storage,
    filter: &AuditFilter,
    order: Order,
    visit: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let own = Range::<AuditRow>::all().since(&filter.since);
    own.each(storage, order, &mut |row| {
        if filter.fits(&row) { visit(row) } else { ControlFlow::Continue(()) }
    })
}

/// A decision by its moment and its id, or the one that the task of that id stands for.
pub fn decision(
    storage: &dyn Storage,
    at: Timestamp,
    id: &str,
) -> Result<Option<AuditRow>, StorageError> {
    if let Some(row) = get_readable::<AuditRow>(storage, &(at, id.to_owned()))? {
        return Ok(Some(row));
    }
    let task = ended::find_readable(storage, &id.into())?;
    Ok(task.as_ref().and_then(AuditRow::of_task))
}
