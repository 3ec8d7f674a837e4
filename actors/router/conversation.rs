//! Conversation: a channel that is connected or has open work, as the router keeps it, and what comes in on it.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use super::{
    sender::Sender,
    topics::{STORE_INTERVAL, Topic, Topics},
};
use crate::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    clock::Timestamp,
    file::records::FileRow,
    frame::TopicRow,
    identities::Owner,
    ids::{ChannelId, MessageId, TeamKey, TopicId},
    router::records::{ChannelHistory, MessageRow, Undecided},
    task::TopicRef,
};

/// A channel that is connected or has open work.
pub(super) struct Conversation {
    pub(super) row: ChannelRow,
    /// The channel is in the store: it has had a message, or its owner's connections share it.
    pub(super) stored: bool,
    pub(super) sender: Sender,
    /// The connection that they write over.
    pub(super) speaking: Option<u64>,
    /// Who writes over each connection.
    pub(super) connections: HashMap<u64, Sender>,
    /// Who opened it over a connection: they may take up an earlier one instead.
    pub(super) owner: Option<Owner>,
    pub(super) topics: Topics,
    /// The last activity of each topic as it is stored.
    pub(super) stored_topics: HashMap<TopicId, Timestamp>,
    /// Up to when each topic was read, and by the channel's name what belongs to none.
    pub(super) read: HashMap<String, Timestamp>,
    /// Messages by the names that their senders gave them.
    pub(super) known: HashMap<MessageId, MessageRow>,
    /// Those are all that the channel has. Only whoever is connected needs them: others wait for a look at the store.
    pub(super) knows_all: bool,
    pub(super) work: HashMap<TopicId, OpenWork>,
    /// Messages whose topic is being found out, in order of arrival.
    pub(super) deciding: VecDeque<Undecided>,
    /// A model has been asked about the first of them.
    pub(super) asking: bool,
    /// Commits under way that change it: until they are made the store does not know it as it is.
    pub(super) storing: usize,
    /// Looks into the store that began while it was known: it is known until they end.
    pub(super) looks: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenWork {
    pub(super) queued: u64,
    pub(super) running: u64,
}

/// A message as it comes in.
pub(super) struct Incoming {
    pub(super) content: String,
    /// The topic, if its sender chose one.
    pub(super) topic: Option<String>,
    /// Its sender's name for it.
    pub(super) id: Option<MessageId>,
    /// Another channel that hears of the work.
    pub(super) notify: Option<ChannelId>,
    /// Whose it is; none is the main team.
    pub(super) team: Option<TeamKey>,
    pub(super) files: Vec<FileRow>,
}

/// Where a message becomes work.
pub(super) enum Destination {
    /// In a topic of the main team.
    Topic(TopicRef),
    /// In the one lane of another team.
    Team(TeamKey),
}

impl Conversation {
    /// A new channel that nobody is connected to.
    pub(super) fn new(row: ChannelRow, sender: Sender) -> Self {
        Self {
            row,
            stored: false,
            sender,
            speaking: None,
            connections: HashMap::new(),
            owner: None,
            topics: Topics::default(),
            stored_topics: HashMap::new(),
            read: HashMap::new(),
            known: HashMap::new(),
            knows_all: true,
            work: HashMap::new(),
            deciding: VecDeque::new(),
            asking: false,
            storing: 0,
            looks: 0,
        }
    }

    /// A channel as the store knows it.
    pub(super) fn from_history(history: ChannelHistory) -> Self {
        let sender = Sender::of(&history.row.principal, history.row.channel_type.clone());
        let stored = history.topics.iter().map(|topic| (topic.id.clone(), topic.last_activity));
        let stored_topics = stored.collect();
        let mut topics: Topics = history.topics.into_iter().collect();
        for (topic, at, words) in history.said {
            topics.record(&topic, &words, at);
        }
        Self {
            knows_all: false,
            topics,
            stored_topics,
            read: history.read.into_iter().collect(),
            stored: true,
            ..Self::new(history.row, sender)
        }
    }

    /// The same with the sender's connection.
    pub(super) fn connected(mut self, connection: u64) -> Self {
        self.speaking = Some(connection);
        self.connections.insert(connection, self.sender.clone());
        self
    }

    /// Whether the store need not be asked if it has a message of this name.
    pub(super) fn has_looked_for(&self, message: &MessageId) -> bool {
        self.knows_all || self.known.contains_key(message)
    }

    /// All messages that the store knows by name. What happened since counts.
    pub(super) fn learn(&mut self, messages: HashMap<MessageId, MessageRow>) {
        if !std::mem::replace(&mut self.knows_all, true) {
            let newer = std::mem::replace(&mut self.known, messages);
            self.known.extend(newer);
        }
    }

    /// Its topics as lists show them.
    pub(super) fn topic_rows(&self, now: Timestamp, idle_after: Duration) -> Vec<TopicRow> {
        let mut rows = self.topics.rows(now, idle_after, |topic| {
            let work = self.work.get(topic).copied().unwrap_or_default();
            (work.queued, work.running > 0)
        });
        for row in &mut rows {
            row.read_until = self.read.get(row.id.as_str()).copied();
        }
        rows
    }

    /// Someone speaks over one of the connections.
    pub(super) fn speaks(&mut self, connection: u64) {
        if let Some(sender) = self.connections.get(&connection) {
            self.sender = sender.clone();
            self.speaking = Some(connection);
        }
    }

    /// A topic is no more.
    pub(super) fn forget_topic(&mut self, topic: &TopicId) {
        self.topics.remove(topic);
        self.stored_topics.remove(topic);
        self.read.remove(topic.as_str());
    }

    /// What is said is told to all connections of the channel.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.row.channel_type, ChannelType::Ws | ChannelType::Cli)
    }

    /// Notes whose it is. Returns whether only a name was known, and the row is to be stored.
    pub(super) fn claim(&mut self, owner: Owner) -> bool {
        let former = self.row.grant.replace(owner.grant);
        former.is_none() && self.stored
    }

    /// A topic's row is written when it is new, and after that only from time to time: what it held
    /// last is in the interaction log.
    pub(super) fn is_topic_due(&mut self, topic: &Topic) -> bool {
        let stored = self.stored_topics.get(&topic.id);
        let due = stored.is_none_or(|stored| *stored + STORE_INTERVAL < topic.last_activity);
        if due {
            self.stored_topics.insert(topic.id.clone(), topic.last_activity);
        }
        due
    }

    pub(super) fn has_open_work(&self, topic: &TopicId) -> bool {
        self.work.contains_key(topic)
    }

    /// Nobody is connected and nothing is to be done: the store knows the rest.
    pub(super) fn can_be_put_away(&self) -> bool {
        self.connections.is_empty()
            && self.work.is_empty()
            && self.deciding.is_empty()
            && self.storing == 0
            && self.looks == 0
    }

    /// Counts work of a topic up or down.
    pub(super) fn count(&mut self, topic: &TopicId, queued: i64, running: i64) {
        let work = self.work.entry(topic.clone()).or_default();
        work.queued = work.queued.saturating_add_signed(queued);
        work.running = work.running.saturating_add_signed(running);
        if work.queued == 0 && work.running == 0 {
            self.work.remove(topic);
        }
    }
}
