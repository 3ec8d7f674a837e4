//! Router: the actor that is the way in. What a message of a person passes before it is work.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Recipient, WrapFuture,
};
use tokio::sync::oneshot;

use crate::{
    approvals::{self, Approvals},
    channel::{
        Attach, Channel, Deliver, Detach, HangUp, Reply, Tell,
        records::ChannelRow,
        socket::{Closing, Socket},
    },
    channel_type::ChannelType,
    classifier::Classifier,
    clock::{Clock, Timestamp},
    file::records::FileRow,
    frame::{Body, ErrorBody, Frame},
    identities::{Identities, Owner},
    ids::{ChannelId, GrantId, Ids, MAIN, MessageId, TaskId, TopicId},
    org::record::TeamRecord,
    queue::{Cancel, Origin, Progressed, Queue, causes::Counts},
    router::records::{ChannelHistory, MessageRow, Undecided},
    scheduler::{
        self,
        index::{Heard, MessageTriggers},
    },
    storage::StorageError,
    store::{StoreHandle, reads::get_readable, records::Writes},
    task::{Lane, Tasks, TopicRef, outcome::Ending, records::LaneKey},
};

mod answers;
pub mod audit;
pub mod card_buttons;
mod choice;
pub mod commands;
mod conversation;
mod decision_commands;
pub mod deleting;
mod expiry;
pub mod gate;
pub mod granting;
pub mod grants;
mod intake;
pub mod managing;
mod names;
pub mod posted_messages;
pub mod rate;
mod reading;
pub mod records;
mod refusal;
pub mod resolve;
mod resume;
mod score;
pub mod sender;
mod sweep;
#[cfg(test)]
mod tests;
mod titles;
pub mod topics;
pub mod trust;
mod words;

use conversation::{Conversation, Incoming};
use grants::Grants;
use rate::{Bucket, Rate};
use sender::Sender;
use trust::Policy;

/// A sweep looks at all channels: a process that begins does more urgent things first.
const FIRST_SWEEP: Duration = Duration::from_secs(60);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// A connection has been made; it speaks for a new channel.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Open {
    pub channel: ChannelId,
    pub owner: Owner,
    pub sender: Sender,
    /// What waits for the connection.
    pub socket: Arc<Socket>,
}

/// A connection has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Close {
    pub channel: ChannelId,
    pub connection: u64,
}

/// Someone said something.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Receive {
    pub channel: ChannelId,
    /// The connection that they said it over.
    pub connection: u64,
    pub inbound: Inbound,
}

/// A connection wants to go on with an earlier channel.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Resume {
    /// The channel it has now.
    pub fresh: ChannelId,
    /// The channel it wants; of its home, the one that becomes it if there is none yet.
    pub channel: Option<ChannelId>,
    /// It wants the channel that the connections of its owner share.
    pub home: bool,
    /// The newest number that the client has of the channel that it names.
    pub last_seq: u64,
    pub socket: Arc<Socket>,
}

/// What can be said on a channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Inbound {
    /// Words for the main team.
    Message {
        content: String,
        topic: Option<String>,
        /// The sender's name for the message, if there is one.
        id: Option<MessageId>,
        notify: Option<ChannelId>,
        /// What comes with the words. It is the adapter's to see that the sender may name it.
        files: Vec<FileRow>,
    },
    /// A request for the list of topics.
    TopicList,
    /// All that was told up to a moment has been read.
    Read {
        /// In which topic; without one, what belongs to none.
        topic: Option<TopicId>,
        until: Timestamp,
    },
    /// A request to stop a turn.
    Cancel {
        topic: TopicId,
        /// And what waits in it.
        queued: bool,
    },
    /// A frame that could not be read: its sender is told, and cut off if there is a reason.
    Malformed(ErrorBody, Option<Closing>),
}

/// A message that is on its way, or was answered at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub message: MessageId,
    /// The work it becomes; a command becomes none.
    pub task: Option<TaskId>,
    pub topic: Option<TopicId>,
    /// The answer to a command.
    pub reply: Option<String>,
    pub duplicate: bool,
}

/// Other rules from now on.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Reconfigure(pub Settings);

/// The rules of the way in.
#[derive(Clone, Debug)]
pub struct Settings {
    pub topics: resolve::Settings,
    /// Whether a model is asked when words don't tell the topic.
    pub ask_model: bool,
    /// Whether a model makes titles of topics.
    pub titles: bool,
    /// Of messages per sender.
    pub rate: Rate,
    /// The same for senders of Discord.
    pub discord_rate: Rate,
    /// Of who is let in.
    pub trust: Policy,
    /// A channel is kept this long after it was last used, with its topics; a topic this long after something was last
    /// said in it.
    pub channels_kept: Duration,
}

impl Settings {
    fn rate_of(&self, channel_type: &ChannelType) -> Rate {
        match channel_type {
            ChannelType::Discord => self.discord_rate,
            _ => self.rate,
        }
    }
}

/// What the router goes on with after a restart.
#[derive(Default)]
pub struct Recovered {
    /// Tasks without an outcome.
    pub tasks: Tasks,
    /// Those among them whose records are damaged, for the queue to end.
    pub lost: HashSet<TaskId>,
    /// Messages without a topic.
    pub undecided: Vec<Undecided>,
    /// The channels of both.
    pub channels: HashMap<ChannelId, ChannelHistory>,
    /// Who is trusted by name.
    pub grants: Grants,
    /// How much each open cause has led to, for the queue.
    pub causes: Vec<(TaskId, Counts)>,
    pub approvals: approvals::records::Recovered,
    /// Inboxes that hold something, for the queue.
    pub inboxes: HashSet<LaneKey>,
    /// The records of all teams, for the organisation.
    pub teams: Vec<TeamRecord>,
    pub triggers: scheduler::records::Recovered,
    /// When old records were last removed.
    pub retained_at: Option<Timestamp>,
}

/// Who waits for the fate of a message.
type Waiter = oneshot::Sender<Result<Accepted, ErrorBody>>;

/// Everything that the router talks to.
pub(crate) struct Neighbours {
    pub(crate) store: StoreHandle,
    pub(crate) queue: Addr<Queue>,
    pub(crate) approvals: Addr<Approvals>,
    pub(crate) channel: Addr<Channel>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
    pub(crate) classifier: Arc<dyn Classifier>,
    pub(crate) message_triggers: MessageTriggers,
    pub(crate) triggers: Recipient<Heard>,
}

/// The way in: check → trust → accept → commands → topic → task, in order within a channel.
pub struct Router {
    to: Neighbours,
    settings: Settings,
    conversations: HashMap<ChannelId, Conversation>,
    /// The channels that connections of one owner share, as far as this process was asked for them.
    homes: HashMap<GrantId, ChannelId>,
    /// What each sender may still send: messages …
    buckets: HashMap<(ChannelType, String), Bucket>,
    /// … and control frames.
    control_buckets: HashMap<(ChannelType, String), Bucket>,
    grants: Grants,
    /// Who waits for the fate of a message: first whoever sent it, then who sent it again.
    waiters: HashMap<(ChannelId, MessageId), Vec<Waiter>>,
    /// Topics that this process has deleted: what was read of their channels before must not bring them back.
    deleted: HashSet<TopicId>,
    /// The same of those that the last sweep that found some has forgotten.
    expired: HashSet<TopicId>,
    /// Topics whose title a model is being asked for.
    untitled: HashSet<TopicId>,
    identities: Option<Arc<dyn Identities>>,
    /// How many rows of the audit this process has written.
    audit_rows: Cell<u32>,
}

impl Router {
    /// A router that goes on where the last process stopped. It leaves the tasks, which are the queue's.
    pub(crate) fn new(to: Neighbours, settings: Settings, recovered: &mut Recovered) -> Self {
        let channels = std::mem::take(&mut recovered.channels).into_iter();
        let mut conversations: HashMap<_, _> =
            channels.map(|(id, history)| (id, Conversation::from_history(history))).collect();
        for task in &recovered.tasks {
            if let (Some(source), Some(topic)) = (&task.source, &task.lane.topic)
                && let Some(conversation) = conversations.get_mut(&source.channel)
            {
                conversation.count(topic, 1, 0);
                conversation.topics.record(topic, &task.body, task.created_at);
            }
        }
        for message in std::mem::take(&mut recovered.undecided) {
            if let Some(conversation) = conversations.get_mut(&message.channel) {
                conversation.deciding.push_back(message);
            }
        }
        for conversation in conversations.values_mut() {
            conversation.deciding.make_contiguous().sort_by_key(|message| message.at);
        }
        Self {
            to,
            settings,
            conversations,
            homes: HashMap::new(),
            buckets: HashMap::new(),
            control_buckets: HashMap::new(),
            grants: std::mem::take(&mut recovered.grants),
            waiters: HashMap::new(),
            deleted: HashSet::new(),
            expired: HashSet::new(),
            untitled: HashSet::new(),
            identities: None,
            audit_rows: Cell::default(),
        }
    }

    /// Tells a channel something that need not arrive.
    fn tell(&self, channel: &ChannelId, topic: Option<TopicRef>, body: Body) {
        self.to.channel.do_send(Tell {
            channel: channel.clone(),
            frame: Frame { topic, ts: self.to.clock.now(), body },
        });
    }

    /// Answers one connection with something that need not arrive; without one, all of the channel.
    fn answer(
        &self,
        channel: &ChannelId,
        connection: Option<u64>,
        topic: Option<TopicRef>,
        body: Body,
    ) {
        let Some(connection) = connection else { return self.tell(channel, topic, body) };
        self.to.channel.do_send(Reply {
            channel: channel.clone(),
            connection,
            frame: Frame { topic, ts: self.to.clock.now(), body },
        });
    }

    /// Makes something durable, if there is any, and sends the frames in it.
    fn commit(&self, writes: Writes, ctx: &mut Context<Self>) {
        if writes.is_empty() {
            return;
        }
        let committed = self.to.store.commit(writes);
        ctx.spawn(committed.into_actor(self).map(|result, router, _| {
            if let Ok(frames) = result
                && !frames.is_empty()
            {
                router.to.channel.do_send(Deliver { frames });
            }
        }));
    }

    /// The same for a channel, which is not put away before.
    fn commit_for(&mut self, channel: &ChannelId, writes: Writes, ctx: &mut Context<Self>) {
        if let Some(conversation) = self.conversations.get_mut(channel) {
            conversation.storing += 1;
        }
        let (committed, channel) = (self.to.store.commit(writes), channel.clone());
        ctx.spawn(committed.into_actor(self).map(move |result, router, _| {
            if let Ok(frames) = result {
                router.to.channel.do_send(Deliver { frames });
            }
            if let Some(conversation) = router.conversations.get_mut(&channel) {
                conversation.storing = conversation.storing.saturating_sub(1);
            }
            router.put_away_if_idle(&channel);
        }));
    }

    /// The channel that a connection speaks for. One that does not know yet that it has resumed another names its
    /// first.
    fn spoken_for_by(&self, connection: u64, named: ChannelId) -> ChannelId {
        let speaks = |found: &Conversation| found.connections.contains_key(&connection);
        if self.conversations.get(&named).is_some_and(speaks) {
            return named;
        }
        let found = self.conversations.iter().find(|(_, found)| speaks(found));
        found.map_or(named, |(channel, _)| channel.clone())
    }

    /// From when on what was said in a topic is compared with new messages.
    fn said_since(&self) -> Timestamp {
        topics::Topic::over_before(self.to.clock.now(), self.settings.topics.idle_after)
    }

    /// Reads a channel that is not known here. Whoever reads says with [`Self::know`] that they have.
    fn read_channel(
        &mut self,
        channel: &ChannelId,
    ) -> impl Future<Output = Result<Option<ChannelHistory>, StorageError>> + use<> {
        let is_known = self.begin_look(channel);
        let (channel, since) = (channel.clone(), self.said_since());
        let read = self.to.store.read(move |storage| records::channel(storage, &channel, since));
        async move { if is_known { Ok(None) } else { read.await } }
    }

    /// The same with one message, if it is known by name, for whoever says it without a connection.
    fn read_message(
        &mut self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> impl Future<Output = Result<(Option<ChannelHistory>, Option<MessageRow>), StorageError>> + use<>
    {
        let is_known = self.begin_look(channel);
        let conversation = self.conversations.get(channel);
        let has_looked = conversation.is_some_and(|known| known.has_looked_for(message));
        let (key, since) = ((channel.clone(), message.clone()), self.said_since());
        let read = self.to.store.read(move |storage| {
            let history = if is_known { None } else { records::channel(storage, &key.0, since)? };
            Ok((history, get_readable::<MessageRow>(storage, &key)?))
        });
        async move { if has_looked { Ok((None, None)) } else { read.await } }
    }

    /// Somebody looks into the store: a channel that is known is not put away before they have. Returns whether it is.
    fn begin_look(&mut self, channel: &ChannelId) -> bool {
        let known = self.conversations.get_mut(channel);
        known.is_some_and(|known| {
            known.looks += 1;
            true
        })
    }

    /// What was read of a channel is known from now on, unless the channel is used meanwhile. Nothing is read of one that
    /// was known.
    fn know(&mut self, channel: &ChannelId, history: Option<ChannelHistory>) {
        if let Some(known) = self.conversations.get_mut(channel) {
            if history.is_none() {
                known.looks = known.looks.saturating_sub(1);
            }
        } else if let Some(history) = history {
            let conversation = self.conversation(history);
            self.conversations.insert(channel.clone(), conversation);
        }
    }

    /// A channel as it was read, without topics that are gone since.
    fn conversation(&self, mut history: ChannelHistory) -> Conversation {
        let is_gone = |id: &TopicId| self.deleted.contains(id) || self.expired.contains(id);
        history.topics.retain(|topic| !is_gone(&topic.id));
        Conversation::from_history(history)
    }

    /// The connection over which somebody speaks on a channel just now.
    fn speaking(&self, channel: &ChannelId) -> Option<u64> {
        self.conversations.get(channel).and_then(|conversation| conversation.speaking)
    }

    fn put_away_if_idle(&mut self, channel: &ChannelId) {
        let is_idle = self.conversations.get(channel).is_some_and(Conversation::can_be_put_away);
        // Somebody else may have been asked what becomes of a message.
        if is_idle && !self.waiters.keys().any(|(of, _)| of == channel) {
            self.conversations.remove(channel);
        }
    }

    fn list_topics(&self, channel: &ChannelId) {
        self.list_topics_without(channel, Vec::new());
    }

    /// The same after some were deleted.
    fn list_topics_without(&self, channel: &ChannelId, deleted: Vec<TopicId>) {
        let Some(conversation) = self.conversations.get(channel) else { return };
        let topics = conversation.topic_rows(self.to.clock.now(), self.settings.topics.idle_after);
        self.tell(channel, None, Body::TopicList { topics, deleted });
    }

    fn cancel(
        &mut self,
        channel: &ChannelId,
        topic: TopicId,
        queued: bool,
        ctx: &mut Context<Self>,
    ) {
        if !self.admit_control(channel, channel, ctx) {
            return;
        }
        let Some(conversation) = self.conversations.get(channel) else { return };
        if conversation.topics.get(topic.as_str()).is_none() {
            return self.refuse(channel, self.unknown_topic(channel, &topic));
        }
        let ended = if queued { self.cancel_undecided(channel, &topic, ctx) } else { 0 };
        self.to.queue.do_send(Cancel {
            lane: main_lane(topic),
            queued,
            // Something was cancelled then.
            channel: (ended == 0).then(|| channel.clone()),
            behind: None,
        });
    }

    /// Ends messages for a topic that wait behind one whose own is being found out. Returns how many.
    fn cancel_undecided(
        &mut self,
        channel: &ChannelId,
        topic: &TopicId,
        ctx: &mut Context<Self>,
    ) -> usize {
        let Some(conversation) = self.conversations.get_mut(channel) else { return 0 };
        let deciding = std::mem::take(&mut conversation.deciding).into_iter();
        let is_meant = |message: &Undecided| message.topic.as_deref() == Some(topic.as_str());
        let (meant, others): (Vec<_>, Vec<_>) = deciding.partition(is_meant);
        conversation.deciding = others.into();
        let topic = conversation.topics.get(topic.as_str());
        let topic = topic.map(|topic| TopicRef { id: topic.id.clone(), name: topic.name.clone() });
        for message in &meant {
            self.end_cancelled(message, topic.clone(), ctx);
        }
        meant.len()
    }
}

fn main_lane(topic: TopicId) -> Lane {
    Lane { team: MAIN.into(), topic: Some(topic) }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_later(FIRST_SWEEP, |router, ctx| {
            router.sweep(ctx);
            ctx.run_interval(SWEEP_INTERVAL, Self::sweep);
        });
        let waiting: Vec<ChannelId> = self.conversations.keys().cloned().collect();
        for channel in waiting {
            self.decide(&channel, ctx);
            self.expect_acks(&channel, ctx);
        }
    }
}

impl Handler<Open> for Router {
    type Result = ();

    fn handle(&mut self, Open { channel, owner, sender, socket }: Open, _: &mut Self::Context) {
        let (now, channel_type) = (self.to.clock.now(), sender.channel_type.clone());
        let row = ChannelRow::new(owner.clone(), now, channel_type);
        let conversation = Conversation::new(row, sender).connected(socket.connection());
        let conversation = Conversation { owner: Some(owner), ..conversation };
        self.conversations.insert(channel.clone(), conversation);
        self.to.channel.do_send(Attach { channel, socket });
    }
}

impl Handler<Close> for Router {
    type Result = ();

    fn handle(&mut self, Close { channel, connection }: Close, ctx: &mut Self::Context) {
        let channel = self.spoken_for_by(connection, channel);
        self.to.channel.do_send(Detach { channel: channel.clone(), connection });
        let now = self.to.clock.now();
        let Some(conversation) = self.conversations.get_mut(&channel) else { return };
        let was_there = conversation.connections.remove(&connection).is_some();
        if !was_there || !conversation.connections.is_empty() {
            return;
        }
        if conversation.stored {
            conversation.row.last_seen = now;
            let writes = Writes::new().put_at(&channel, &conversation.row);
            self.commit(writes, ctx);
        }
        self.put_away_if_idle(&channel);
    }
}

impl Handler<Receive> for Router {
    type Result = ();

    fn handle(&mut self, receive: Receive, ctx: &mut Self::Context) {
        let Receive { channel, connection, inbound } = receive;
        let channel = self.spoken_for_by(connection, channel);
        if let Some(conversation) = self.conversations.get_mut(&channel) {
            conversation.speaks(connection);
        }
        match inbound {
            Inbound::Message { content, topic, id, notify, files } => {
                let incoming = Incoming { content, topic, id, notify, team: None, files };
                self.receive(&channel, incoming, ctx);
            }
            Inbound::TopicList => self.list_topics(&channel),
            Inbound::Cancel { topic, queued } => self.cancel(&channel, topic, queued, ctx),
            Inbound::Read { topic, until } => self.mark_read(&channel, topic, until, ctx),
            Inbound::Malformed(error, closing) => {
                self.answer(&channel, Some(connection), None, Body::Error(error));
                if let Some(closing) = closing {
                    self.to.channel.do_send(HangUp {
                        channel,
                        connection: Some(connection),
                        closing,
                    });
                }
            }
        }
    }
}

impl Handler<Reconfigure> for Router {
    type Result = ();

    fn handle(&mut self, Reconfigure(settings): Reconfigure, _: &mut Self::Context) {
        let rates = |settings: &Settings| (settings.rate, settings.discord_rate);
        if rates(&settings) != rates(&self.settings) {
            self.buckets.clear();
            self.control_buckets.clear();
        }
        self.settings = settings;
    }
}

impl Handler<Progressed> for Router {
    type Result = ();

    fn handle(&mut self, progressed: Progressed, ctx: &mut Self::Context) {
        let (origin, queued, running) = match &progressed {
            Progressed::Refused { task, .. } => (Origin::of(task), -1, 0),
            Progressed::Started(origin) => (Some(origin.clone()), -1, 1),
            Progressed::Returned(origin) => (Some(origin.clone()), 1, -1),
            Progressed::Ended { task, was_running: true, .. } => (Origin::of(task), 0, -1),
            Progressed::Ended { task, was_running: false, .. } => (Origin::of(task), -1, 0),
        };
        let Some(Origin { channel, topic }) = origin else { return };
        if let Some(conversation) = self.conversations.get_mut(&channel)
            && let Some(topic) = &topic
        {
            conversation.count(topic, queued, running);
            if matches!(progressed, Progressed::Ended { .. }) {
                conversation.topics.touch(topic, self.to.clock.now());
            }
        }
        match &progressed {
            Progressed::Refused { task, full } => self.queue_refused(task, *full, ctx),
            Progressed::Ended { task, ending: Ending::Done, .. } => {
                self.seek_title(&channel, task, ctx);
            }
            _ => {}
        }
        self.put_away_if_idle(&channel);
    }
}
