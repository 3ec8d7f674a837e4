//! Channel: the way out. Numbers frames, keeps those that must arrive, and brings a client that
//! comes back up to date.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, MessageResult, WrapFuture,
};

use serde_json::json;

use crate::{
    channel::records::{self as outboxes, OutboxWrites},
    clock::{Clock, Timestamp},
    frame::{Body, Frame},
    ids::{ChannelId, Ids, MessageId},
    live::{
        Publisher,
        event::{Event, Kind},
    },
    store::{Numbered, StoreHandle, records::Writes},
};

pub mod adapter;
mod conversation;
pub mod network;
mod offline;
pub mod outbound;
pub mod outbox;
mod partial_output;
pub mod records;
pub mod renumber;
pub mod socket;
#[cfg(test)]
mod tests;
pub mod undelivered;

use adapter::Undelivered;
use conversation::{Conversation, Joining, OfflineChannel};
use outbound::Outbound;
use outbox::Replay;
use partial_output::PartialOutput;
use socket::{Closing, Item, Socket};

/// A stored frame that waits longer than this for one before it is looked up.
const GAP_TIMEOUT: Duration = Duration::from_secs(1);
pub const MOST_CONNECTIONS: usize = 16;
/// Of so many messages it is known which connection they came from.
const MOST_ORIGINS: usize = 1_000;
/// How often old frames are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// Frames that are stored go out.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Deliver {
    pub frames: Vec<Numbered>,
}

/// A frame that need not arrive goes out.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Tell {
    pub channel: ChannelId,
    pub frame: Frame,
}

/// A frame that need not arrive goes to one connection: what is wrong with something it sent.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Reply {
    /// The channel it speaks for.
    pub channel: ChannelId,
    pub connection: u64,
    pub frame: Frame,
}

/// A connection said something: once that is accepted, the others of its channel are told, it is not.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Said {
    pub channel: ChannelId,
    pub connection: u64,
    pub message: MessageId,
}

/// A connection speaks for a channel that is new.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Attach {
    pub channel: ChannelId,
    pub socket: Arc<Socket>,
}

/// A connection speaks for an earlier channel, beside others that do, and gets what it misses.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Adopt {
    pub channel: ChannelId,
    pub socket: Arc<Socket>,
    pub last_seq: u64,
}

/// Frames of a channel may be stored that nobody announced: whoever stored them died.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Recheck {
    pub channel: ChannelId,
}

/// A connection has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Detach {
    pub channel: ChannelId,
    pub connection: u64,
}

/// The channel is gone for good.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Forget {
    pub channel: ChannelId,
}

/// Closes a connection of a channel, behind what has been sent to it so far.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HangUp {
    pub channel: ChannelId,
    /// The connection; none means all of them.
    pub connection: Option<u64>,
    pub closing: Closing,
}

/// Closes all connections.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Shutdown;

/// Closes all connections of clients, for these to come again. Returns how many there were.
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct Reconnect;

#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct CountConnections;

/// How many durable frames wait for a client, of channels that were told something since the start.
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct CountPending;

/// The way out of all channels of one kind.
pub struct Channel {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    ids: Ids,
    live: Option<Publisher>,
    conversations: HashMap<ChannelId, Conversation>,
    /// Also of channels that nobody listens to now.
    partial_output: HashMap<ChannelId, PartialOutput>,
    offline: HashMap<ChannelId, OfflineChannel>,
    /// How often an outbox was read.
    reads: u64,
}

impl Channel {
    /// A way out that nobody uses yet.
    pub fn new(store: StoreHandle, clock: Arc<dyn Clock>, ids: Ids) -> Self {
        Self {
            store,
            clock,
            ids,
            live: None,
            conversations: HashMap::new(),
            partial_output: HashMap::new(),
            offline: HashMap::new(),
            reads: 0,
        }
    }

    /// Tells whoever watches how many connections there are.
    pub fn publishing(mut self, live: Publisher) -> Self {
        self.live = Some(live);
        self
    }

    fn sockets(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.conversations.values().flat_map(Conversation::all)
    }

    fn clients(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.sockets().filter(|socket| socket.is_client())
    }

    fn connections(&self) -> usize {
        self.clients().count()
    }

    fn tell_connections(&self) {
        if let Some(live) = &self.live {
            let data = json!({ "type": "ws", "state": "on", "connected": self.connections() });
            live.publish(Event::new(Kind::ChannelChanged, data));
        }
    }

    /// Reads the outbox, and sends what is missed: by the next connection that waits for it, and by
    /// those that are there. One read at a time.
    fn load(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        let Some(conversation) = self.conversations.get_mut(channel) else { return };
        if conversation.loading.is_some() {
            return;
        }
        self.reads += 1;
        let number = self.reads;
        conversation.loading = Some(number);
        let store = self.store.clone();
        let id = channel.clone();
        let read = async move { store.read(move |storage| outboxes::outbox(storage, &id)).await };
        let channel = channel.clone();
        ctx.spawn(read.into_actor(self).map(move |rows, this, ctx| {
            // Everyone may have gone meanwhile, and others come, who read for themselves.
            let Some(conversation) = this
                .conversations
                .get_mut(&channel)
                .filter(|conversation| conversation.loading == Some(number))
            else {
                return;
            };
            conversation.loading = None;
            match rows {
                Ok(rows) => {
                    let rows = rows
                        .into_iter()
                        .map(|row| (row.ordinal, row.bytes, Arc::new(row.frame)))
                        .collect();
                    this.loaded(&channel, rows, ctx);
                }
                Err(error) => {
                    tracing::error!(%channel, %error, "outbox cannot be read; connections are closed, for clients to come back");
                    for socket in conversation.all() {
                        socket.tell(Item::Close(Closing::Internal));
                    }
                }
            }
        }));
    }

    fn loaded(
        &mut self,
        channel: &ChannelId,
        rows: Vec<(u64, usize, Arc<Frame>)>,
        ctx: &mut Context<Self>,
    ) {
        let now = self.clock.now();
        let Some(conversation) = self.conversations.get_mut(channel) else { return };
        let partial_output = self.partial_output.entry(channel.clone()).or_default();
        partial_output.found(rows.iter().map(|(ordinal, _, frame)| (*ordinal, &**frame)));
        let joining = conversation.joining.pop_front();
        let had = match &joining {
            Some(joining) if !conversation.loaded => joining.last_seq,
            _ => conversation.outbox.newest_seq(),
        };
        conversation.loaded = true;
        let mut stored: BTreeMap<_, _> =
            rows.iter().map(|(ordinal, _, frame)| (*ordinal, frame.clone())).collect();
        let news = conversation.outbox.reload(rows, had);
        stored.extend(news.iter().filter_map(|part| match part {
            Replay::Frame(ordinal, frame) => Some((*ordinal, frame.clone())),
            Replay::Hole(_) => None,
        }));
        for socket in &conversation.sockets {
            conversation.replay(channel, socket, &news, had, partial_output, now);
        }
        // What passed while nobody listened, or while the outbox was read. What passes from here
        // on is sent behind it.
        let mut behind = if std::mem::take(&mut conversation.dropped) {
            conversation.sockets.clone()
        } else {
            Vec::new()
        };
        if let Some(Joining { socket, last_seq }) = joining {
            socket.tell(Item::Adopted(channel.clone()));
            conversation.outbox.catch_up(last_seq);
            let missed = outbox::missed(stored, last_seq);
            conversation.replay(channel, &socket, &missed, last_seq, partial_output, now);
            behind.push(socket.clone());
            conversation.sockets.push(socket);
        }
        for text in partial_output.present() {
            if !behind.is_empty()
                && let Some(seq) = conversation.outbox.passing()
            {
                let outbound = Arc::new(Outbound::new(channel, seq, Arc::new(text)));
                for socket in &behind {
                    socket.push(outbound.clone(), true);
                }
            }
        }
        let is_next = !conversation.joining.is_empty();
        if !is_next {
            for (to, frame) in std::mem::take(&mut conversation.held) {
                conversation.pass(channel, to, frame);
            }
        }
        let gone = conversation.outbox.excess(now);
        self.drop_frames(channel, gone, ctx);
        if is_next {
            self.load(channel, ctx);
        } else {
            self.expect_missing(channel, ctx);
        }
    }

    /// Looks a frame up that is stored but was not announced: whoever stored it may have died.
    fn expect_missing(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        let waiting_for = |this: &Self, channel: &ChannelId| {
            let conversation = this.conversations.get(channel)?;
            (conversation.outbox.is_waiting() && conversation.loading.is_none())
                .then(|| conversation.outbox.next())
        };
        let Some(missing) = waiting_for(self, channel) else { return };
        let channel = channel.clone();
        ctx.run_later(GAP_TIMEOUT, move |this, ctx| {
            if waiting_for(this, &channel) == Some(missing) {
                this.load(&channel, ctx);
            }
        });
    }

    fn drop_frames(&self, channel: &ChannelId, ordinals: Vec<u64>, ctx: &mut Context<Self>) {
        if ordinals.is_empty() {
            return;
        }
        let commit = self.store.commit(Writes::new().drop_frames(channel, ordinals));
        ctx.spawn(commit.into_actor(self).map(|_, _, _| ()));
    }

    fn pending(&self) -> usize {
        let early = self.conversations.values();
        let early = early.map(|conversation| conversation.outbox.early());
        let offline = self.offline.values().filter(|offline| !offline.fetched);
        let offline = offline.map(|offline| offline.outbox.since(offline.connected_until));
        early.sum::<usize>() + offline.sum::<usize>()
    }

    fn sweep(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let excess: Vec<_> = self
            .conversations
            .iter_mut()
            .map(|(channel, conversation)| (channel.clone(), conversation.outbox.excess(now)))
            .collect();
        for (channel, ordinals) in excess {
            self.drop_frames(&channel, ordinals, ctx);
        }
        let excess: Vec<_> = self
            .offline
            .iter_mut()
            .filter(|(_, offline)| offline.loaded)
            .map(|(channel, offline)| (channel.clone(), offline.outbox.excess(now)))
            .collect();
        for (channel, ordinals) in excess {
            self.drop_offline_frames(&channel, ordinals, ctx);
        }
        self.forget_quiet(now);
    }

    /// Lets go of what is held for channels that nobody listens to and that are told nothing any more: the store has their
    /// frames.
    fn forget_quiet(&mut self, now: Timestamp) {
        let conversations = &self.conversations;
        self.partial_output.retain(|channel, partial_output| {
            conversations.contains_key(channel)
                || !partial_output.is_over(now - SWEEP_INTERVAL, now - outbox::MOST_AGE)
        });
        let is_waited_for =
            |offline: &OfflineChannel| offline.outbox.since(now - outbox::MOST_AGE) > 0;
        self.offline.retain(|_, offline| !offline.loaded || is_waited_for(offline));
    }
}

impl Actor for Channel {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(SWEEP_INTERVAL, Self::sweep);
    }
}

impl Handler<Deliver> for Channel {
    type Result = ();

    fn handle(&mut self, Deliver { frames }: Deliver, ctx: &mut Self::Context) {
        let now = self.clock.now();
        for Numbered { channel, ordinal, frame } in frames {
            let partial_output = self.partial_output.entry(channel.clone()).or_default();
            partial_output.stored(ordinal, &frame);
            let Some(conversation) = self.conversations.get_mut(&channel) else {
                self.keep_offline_frame(&channel, ordinal, &frame, ctx);
                continue;
            };
            let size = frame_size(&frame);
            conversation.outbox.stored(ordinal, size, frame);
            if conversation.loading.is_none() {
                for (ordinal, frame) in conversation.outbox.take_ready() {
                    conversation.send(&channel, ordinal, frame);
                }
            }
            let excess = conversation.outbox.excess(now);
            let waiting = conversation.outbox.is_waiting();
            self.drop_frames(&channel, excess, ctx);
            if waiting {
                self.expect_missing(&channel, ctx);
            }
        }
    }
}

/// Roughly what a frame takes in the store.
fn frame_size(frame: &Frame) -> usize {
    let text = match &frame.body {
        Body::Ack(ack) => ack.content.len(),
        Body::Progress(progress) => {
            progress.content.len() + progress.preview.as_ref().map_or(0, String::len)
        }
        Body::Response(response) => response.content.len(),
        Body::Notification(notification) => notification.content.len(),
        Body::Error(error) => error.error.len() + error.content.as_ref().map_or(0, String::len),
        Body::TopicList { .. } => 0,
    };
    text + 256
}

impl Handler<Tell> for Channel {
    type Result = ();

    fn handle(&mut self, Tell { channel, frame }: Tell, _: &mut Self::Context) {
        if let Some(text) = partial_output::text(&frame) {
            let partial_output = self.partial_output.entry(channel.clone()).or_default();
            partial_output.said(&frame, text);
        }
        let Some(conversation) = self.conversations.get_mut(&channel) else { return };
        if conversation.loading.is_none() {
            conversation.pass(&channel, None, frame);
        } else if partial_output::text(&frame).is_some() {
            conversation.dropped = true;
        } else {
            conversation.held.push((None, frame));
        }
    }
}

impl Handler<Undelivered> for Channel {
    type Result = ();

    fn handle(&mut self, undelivered: Undelivered, ctx: &mut Self::Context) {
        let Undelivered { frame, reason } = undelivered;
        tracing::warn!(channel = %frame.channel, seq = frame.seq, error = reason, "frame cannot be delivered, and is not tried again");
        let (id, now) = (self.ids.notice(), self.clock.now());
        if let Some(notice) = undelivered::refused(&frame.channel, &frame.frame, &reason, id, now) {
            let commit = self.store.commit(Writes::new().put(&notice));
            ctx.spawn(commit.into_actor(self).map(|_, _, _| ()));
        }
    }
}

impl Handler<Reply> for Channel {
    type Result = ();

    fn handle(&mut self, Reply { channel, connection, frame }: Reply, _: &mut Self::Context) {
        let Some(conversation) = self.conversations.get_mut(&channel) else { return };
        if conversation.loading.is_none() {
            conversation.pass(&channel, Some(connection), frame);
        } else {
            conversation.held.push((Some(connection), frame));
        }
    }
}

impl Handler<Said> for Channel {
    type Result = ();

    fn handle(&mut self, said: Said, _: &mut Self::Context) {
        if let Some(conversation) = self.conversations.get_mut(&said.channel) {
            let origins = &mut conversation.origins;
            origins.push_back((said.message, said.connection));
            if origins.len() > MOST_ORIGINS {
                origins.pop_front();
            }
        }
    }
}

impl Handler<Attach> for Channel {
    type Result = ();

    fn handle(&mut self, Attach { channel, socket }: Attach, _: &mut Self::Context) {
        let conversation =
            Conversation { sockets: vec![socket], loaded: true, ..Conversation::default() };
        self.conversations.insert(channel, conversation);
        self.tell_connections();
    }
}

impl Handler<Adopt> for Channel {
    type Result = ();

    fn handle(&mut self, Adopt { channel, socket, last_seq }: Adopt, ctx: &mut Self::Context) {
        self.offline.remove(&channel);
        let conversation = self.conversations.entry(channel.clone()).or_default();
        conversation.joining.push_back(Joining { socket, last_seq });
        self.tell_connections();
        self.load(&channel, ctx);
    }
}

impl Handler<Recheck> for Channel {
    type Result = ();

    fn handle(&mut self, Recheck { channel }: Recheck, ctx: &mut Self::Context) {
        self.load(&channel, ctx);
    }
}

impl Handler<Detach> for Channel {
    type Result = ();

    fn handle(&mut self, Detach { channel, connection }: Detach, _: &mut Self::Context) {
        let Some(conversation) = self.conversations.get_mut(&channel) else { return };
        let stays = |socket: &Arc<Socket>| socket.connection() != connection;
        if conversation.all().all(stays) {
            return;
        }
        conversation.sockets.retain(stays);
        conversation.joining.retain(|joining| stays(&joining.socket));
        if conversation.is_empty() {
            self.conversations.remove(&channel);
        }
        self.tell_connections();
    }
}

impl Handler<Forget> for Channel {
    type Result = ();

    fn handle(&mut self, Forget { channel }: Forget, _: &mut Self::Context) {
        // A channel of a network may be told something again, with numbers that begin anew.
        for socket in self.conversations.remove(&channel).iter().flat_map(Conversation::all) {
            socket.tell(Item::Close(Closing::Reconnect));
        }
        self.partial_output.remove(&channel);
        self.offline.remove(&channel);
    }
}

impl Handler<HangUp> for Channel {
    type Result = ();

    fn handle(&mut self, HangUp { channel, connection, closing }: HangUp, _: &mut Self::Context) {
        let sockets = self.conversations.get(&channel).into_iter();
        for socket in sockets.flat_map(Conversation::all) {
            if connection.is_none_or(|connection| connection == socket.connection()) {
                socket.tell(Item::Close(closing));
            }
        }
    }
}

impl Handler<Shutdown> for Channel {
    type Result = ();

    fn handle(&mut self, Shutdown: Shutdown, _: &mut Self::Context) {
        for socket in self.sockets() {
            socket.tell(Item::Close(Closing::Shutdown));
        }
    }
}

impl Handler<Reconnect> for Channel {
    type Result = MessageResult<Reconnect>;

    fn handle(&mut self, Reconnect: Reconnect, _: &mut Self::Context) -> Self::Result {
        for socket in self.clients() {
            socket.tell(Item::Close(Closing::Reconnect));
        }
        MessageResult(self.connections())
    }
}

impl Handler<CountConnections> for Channel {
    type Result = MessageResult<CountConnections>;

    fn handle(
        &mut self,
        CountConnections: CountConnections,
        _: &mut Self::Context,
    ) -> Self::Result {
        MessageResult(self.connections())
    }
}

impl Handler<CountPending> for Channel {
    type Result = MessageResult<CountPending>;

    fn handle(&mut self, CountPending: CountPending, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.pending())
    }
}
