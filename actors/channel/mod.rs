//! Channel: the way out. Numbers frames, keeps those that must arrive, and brings a client that
//! comes back up to date.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, MessageResult, WrapFuture,
};

use serde_json::json;

use crate::{
    clock::{Clock, Timestamp},
    event::{Body, Frame, Progress, ProgressKind, WireFrame},
    ids::{ChannelId, Ids},
    live::{
        Publisher,
        event::{Event, Kind},
    },
    store::{Numbered, StoreHandle, reads, records::Writes},
};

pub mod outbox;
pub mod socket;
mod spoken;
#[cfg(test)]
mod tests;
pub mod undelivered;

use outbox::{Outbox, Replay};
use socket::{Closing, Item, Socket};
use spoken::Spoken;

/// A stored frame that waits longer than this for one before it is looked up.
const OVERDUE: Duration = Duration::from_secs(1);
/// How often old frames are looked for.
const SWEEP: Duration = Duration::from_secs(600);

/// Frames that are stored go out.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// The frames, with their ordinals.
    pub frames: Vec<Numbered>,
}

/// A frame that need not arrive goes out.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Tell {
    /// To whom.
    pub channel: ChannelId,
    /// What.
    pub frame: Frame,
}

/// A connection speaks for a channel that is new.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Attach {
    /// The channel.
    pub channel: ChannelId,
    /// The connection.
    pub socket: Arc<Socket>,
}

/// A connection speaks for an earlier channel, and gets what it misses.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Adopt {
    /// The channel that it had until now, which is discarded.
    pub fresh: ChannelId,
    /// The channel.
    pub channel: ChannelId,
    /// The connection.
    pub socket: Arc<Socket>,
    /// The newest number that the client has.
    pub last_seq: u64,
}

/// Frames of a channel may be stored that nobody announced: whoever stored them died.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Recheck {
    /// The channel.
    pub channel: ChannelId,
}

/// A connection has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Detach {
    /// The channel it spoke for.
    pub channel: ChannelId,
    /// The connection.
    pub connection: u64,
}

/// The channel is gone for good.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Forget {
    /// The channel.
    pub channel: ChannelId,
}

/// Closes the connection of a channel, behind what has been sent to it so far.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HangUp {
    /// The channel.
    pub channel: ChannelId,
    /// Why.
    pub closing: Closing,
}

/// Closes all connections.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Shutdown;

/// Closes all connections, for their clients to come again. Returns how many there were.
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct Reconnect;

/// How many connections there are.
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
    spoken: HashMap<ChannelId, Spoken>,
    unheard: HashMap<ChannelId, Unheard>,
}

/// A channel that nobody listens to, and that was told something.
#[derive(Default)]
struct Unheard {
    outbox: Outbox,
    /// What is stored of it has been read: its bounds count.
    loaded: bool,
    /// When it was last connected.
    connected_until: Timestamp,
    /// What comes of its messages is fetched.
    fetched: bool,
}

#[derive(Default)]
struct Conversation {
    outbox: Outbox,
    socket: Option<Arc<Socket>>,
    /// The outbox is being read: what is stored meanwhile waits for that.
    loading: bool,
}

impl Conversation {
    fn connection(&self) -> Option<u64> {
        self.socket.as_ref().map(|socket| socket.connection())
    }
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
            spoken: HashMap::new(),
            unheard: HashMap::new(),
        }
    }

    /// Tells whoever watches how many connections there are.
    pub fn publishing(mut self, live: Publisher) -> Self {
        self.live = Some(live);
        self
    }

    fn hang_up_all(&self, closing: Closing) {
        let sockets = self.conversations.values();
        for socket in sockets.filter_map(|conversation| conversation.socket.as_ref()) {
            socket.tell(Item::Close(closing));
        }
    }

    fn connections(&self) -> usize {
        self.conversations
            .values()
            .filter(|conversation| conversation.socket.is_some())
            .count()
    }

    fn tell_connections(&self) {
        if let Some(live) = &self.live {
            let data = json!({ "type": "ws", "state": "on", "connected": self.connections() });
            live.publish(Event::new(Kind::ChannelChanged, data));
        }
    }

    /// Reads the outbox and sends what the client misses.
    fn load(&mut self, channel: &ChannelId, last_seq: u64, first: bool, ctx: &mut Context<Self>) {
        let Some(conversation) = self.conversations.get_mut(channel) else {
            return;
        };
        conversation.loading = true;
        let connection = conversation.connection();
        let store = self.store.clone();
        let id = channel.clone();
        let read = async move { store.read(move |storage| reads::outbox(storage, &id)).await };
        let channel = channel.clone();
        ctx.spawn(read.into_actor(self).map(move |rows, this, ctx| {
            // Another connection has taken the channel meanwhile, and reads for itself.
            let Some(conversation) = this
                .conversations
                .get_mut(&channel)
                .filter(|conversation| conversation.connection() == connection)
            else {
                return;
            };
            conversation.loading = false;
            let rows = match rows {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::error!(%channel, %error, "outbox cannot be read");
                    return;
                }
            };
            let rows = rows
                .into_iter()
                .map(|row| (row.ordinal, row.bytes, Arc::new(row.frame)))
                .collect();
            this.loaded(&channel, rows, last_seq, first, ctx);
        }));
    }

    fn loaded(
        &mut self,
        channel: &ChannelId,
        rows: Vec<(u64, usize, Arc<Frame>)>,
        last_seq: u64,
        first: bool,
        ctx: &mut Context<Self>,
    ) {
        let now = self.clock.now();
        let Some(conversation) = self.conversations.get_mut(channel) else {
            return;
        };
        let spoken = self.spoken.entry(channel.clone()).or_default();
        spoken.found(rows.iter().map(|(ordinal, _, frame)| (*ordinal, &**frame)));
        let replay = conversation.outbox.reload(rows, last_seq);
        let Some(socket) = &conversation.socket else {
            return;
        };
        if first {
            socket.tell(Item::Adopted(channel.clone()));
        }
        let mut sent = last_seq;
        for part in replay {
            match part {
                Replay::Frame(ordinal, frame) => {
                    if let Some(text) = spoken.before(ordinal, &frame) {
                        socket.push(wire(channel, &text, sent + 1), true);
                    }
                    sent = outbox::seq(ordinal);
                    socket.push(wire(channel, &frame, sent), true);
                }
                Replay::Hole(gap) => {
                    let mut note = Progress::new(ProgressKind::Note, "Some frames are gone.");
                    note.gap = Some(gap);
                    let frame = Frame {
                        topic: None,
                        ts: now,
                        body: Body::Progress(note),
                    };
                    sent = gap.to_seq;
                    socket.push(wire(channel, &frame, sent), true);
                }
            }
        }
        // What passed while nobody listened, or while the outbox was read. What passes from here
        // on is sent behind it.
        for text in spoken.present() {
            if let Some(seq) = conversation.outbox.passing() {
                socket.push(wire(channel, &text, seq), true);
            }
        }
        let mut gone = conversation.outbox.excess(now);
        if first {
            gone.extend(conversation.outbox.confirm(last_seq));
            spoken.confirm(outbox::ordinal(last_seq));
        }
        self.drop_frames(channel, gone, ctx);
        self.expect_missing(channel, ctx);
    }

    /// Looks a frame up that is stored but was not announced: whoever stored it may have died.
    fn expect_missing(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        let waiting_for = |this: &Self, channel: &ChannelId| {
            let conversation = this.conversations.get(channel)?;
            (conversation.outbox.is_waiting() && !conversation.loading)
                .then(|| conversation.outbox.next())
        };
        let Some(missing) = waiting_for(self, channel) else {
            return;
        };
        let channel = channel.clone();
        ctx.run_later(OVERDUE, move |this, ctx| {
            if waiting_for(this, &channel) == Some(missing) {
                this.recheck(&channel, ctx);
            }
        });
    }

    /// Sends what is stored and was not sent yet.
    fn recheck(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        if let Some(conversation) = self.conversations.get(channel)
            && !conversation.loading
        {
            self.load(channel, conversation.outbox.newest_seq(), false, ctx);
        }
    }

    fn drop_frames(&self, channel: &ChannelId, ordinals: Vec<u64>, ctx: &mut Context<Self>) {
        if ordinals.is_empty() {
            return;
        }
        let commit = self
            .store
            .commit(Writes::new().drop_frames(channel, ordinals));
        ctx.spawn(commit.into_actor(self).map(|_, _, _| ()));
    }

    /// A frame waits in the store until someone resumes its channel, within the bounds of an outbox.
    fn keep_unheard(
        &mut self,
        channel: &ChannelId,
        ordinal: u64,
        frame: &Frame,
        ctx: &mut Context<Self>,
    ) {
        let size = frame_size(frame);
        if let Some(unheard) = self.unheard.get_mut(channel) {
            unheard.outbox.keep(ordinal, size, frame);
            if unheard.loaded {
                let excess = unheard.outbox.excess(self.clock.now());
                self.drop_unheard(channel, excess, ctx);
            }
            return;
        }
        let mut unheard = Unheard::default();
        unheard.outbox.keep(ordinal, size, frame);
        self.unheard.insert(channel.clone(), unheard);
        let (store, id) = (self.store.clone(), channel.clone());
        let read = async move {
            let before = store.read(move |storage| {
                let row = reads::channel_row(storage, &id)?;
                Ok((row, reads::outbox(storage, &id)?))
            });
            before.await
        };
        let channel = channel.clone();
        ctx.spawn(read.into_actor(self).map(move |before, this, ctx| {
            let now = this.clock.now();
            // Someone may have resumed it meanwhile.
            let Some(unheard) = this.unheard.get_mut(&channel) else {
                return;
            };
            unheard.loaded = true;
            match before {
                Ok((row, frames)) => {
                    unheard.fetched = undelivered::is_fetched(row.as_ref());
                    unheard.connected_until = row.map_or(Timestamp::default(), |row| row.last_seen);
                    for stored in &frames {
                        unheard
                            .outbox
                            .keep(stored.ordinal, stored.bytes, &stored.frame);
                    }
                }
                Err(error) => tracing::error!(%channel, %error, "outbox cannot be read"),
            }
            let excess = unheard.outbox.excess(now);
            this.drop_unheard(&channel, excess, ctx);
        }));
    }

    /// Removes frames that nobody had, and tells the operator in the same commit.
    fn drop_unheard(&self, channel: &ChannelId, ordinals: Vec<u64>, ctx: &mut Context<Self>) {
        if ordinals.is_empty() {
            return;
        }
        let (store, id, gone) = (self.store.clone(), channel.clone(), ordinals.clone());
        let read = async move {
            let going = store.read(move |storage| {
                let row = reads::channel_row(storage, &id)?;
                Ok((row, reads::frames(storage, &id, &gone)?))
            });
            going.await
        };
        let channel = channel.clone();
        ctx.spawn(read.into_actor(self).map(move |going, this, ctx| {
            // Someone may have resumed it meanwhile, and had them.
            if this.conversations.contains_key(&channel) {
                return;
            }
            let (row, frames) = match going {
                Ok(going) => going,
                Err(error) => {
                    tracing::error!(%channel, %error, "outbox cannot be read");
                    return;
                }
            };
            let (id, now) = (this.ids.notice(), this.clock.now());
            let notice = undelivered::notice(&channel, row.as_ref(), &frames, id, now);
            let writes = Writes::new().drop_frames(&channel, ordinals);
            let writes = match &notice {
                Some(notice) => writes.notice(notice),
                None => writes,
            };
            let commit = this.store.commit(writes);
            ctx.spawn(commit.into_actor(this).map(|_, _, _| ()));
        }));
    }

    fn pending(&self) -> usize {
        let early = self.conversations.values();
        let early = early.map(|conversation| conversation.outbox.early());
        let unheard = self.unheard.values().filter(|unheard| !unheard.fetched);
        let unheard = unheard.map(|unheard| unheard.outbox.since(unheard.connected_until));
        early.sum::<usize>() + unheard.sum::<usize>()
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
            .unheard
            .iter_mut()
            .filter(|(_, unheard)| unheard.loaded)
            .map(|(channel, unheard)| (channel.clone(), unheard.outbox.excess(now)))
            .collect();
        for (channel, ordinals) in excess {
            self.drop_unheard(&channel, ordinals, ctx);
        }
    }
}

/// A frame for the wire.
fn wire(channel: &ChannelId, frame: &Frame, seq: u64) -> String {
    let wire = WireFrame {
        body: &frame.body,
        topic_id: frame.topic.as_ref().map(|topic| &topic.id),
        topic_name: frame.topic.as_ref().map(|topic| topic.name.as_str()),
        channel_id: channel,
        seq,
        ts: frame.ts,
    };
    serde_json::to_string(&wire).unwrap_or_default()
}

impl Actor for Channel {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(SWEEP, Self::sweep);
    }
}

impl Handler<Deliver> for Channel {
    type Result = ();

    fn handle(&mut self, Deliver { frames }: Deliver, ctx: &mut Self::Context) {
        let now = self.clock.now();
        for Numbered {
            channel,
            ordinal,
            frame,
        } in frames
        {
            let spoken = self.spoken.entry(channel.clone()).or_default();
            spoken.stored(ordinal, &frame);
            let Some(conversation) = self.conversations.get_mut(&channel) else {
                self.keep_unheard(&channel, ordinal, &frame, ctx);
                continue;
            };
            let size = frame_size(&frame);
            conversation.outbox.stored(ordinal, size, frame);
            if let Some(socket) = &conversation.socket
                && !conversation.loading
            {
                for (ordinal, frame) in conversation.outbox.take_ready() {
                    socket.push(wire(&channel, &frame, outbox::seq(ordinal)), true);
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
        if let Some(text) = spoken::text(&frame) {
            let spoken = self.spoken.entry(channel.clone()).or_default();
            spoken.said(&frame, text);
        }
        if let Some(conversation) = self.conversations.get_mut(&channel)
            && !conversation.loading
            && let Some(socket) = &conversation.socket
            && let Some(seq) = conversation.outbox.passing()
        {
            socket.push(wire(&channel, &frame, seq), false);
        }
    }
}

impl Handler<Attach> for Channel {
    type Result = ();

    fn handle(&mut self, Attach { channel, socket }: Attach, _: &mut Self::Context) {
        let conversation = Conversation {
            socket: Some(socket),
            ..Conversation::default()
        };
        self.conversations.insert(channel, conversation);
        self.tell_connections();
    }
}

impl Handler<Adopt> for Channel {
    type Result = ();

    fn handle(&mut self, adopt: Adopt, ctx: &mut Self::Context) {
        let Adopt {
            fresh,
            channel,
            socket,
            last_seq,
        } = adopt;
        self.conversations.remove(&fresh);
        self.spoken.remove(&fresh);
        self.unheard.remove(&channel);
        let conversation = self.conversations.entry(channel.clone()).or_default();
        if let Some(older) = conversation.socket.replace(socket) {
            older.tell(Item::Close(Closing::TakenOver));
        }
        self.tell_connections();
        self.load(&channel, last_seq, true, ctx);
    }
}

impl Handler<Recheck> for Channel {
    type Result = ();

    fn handle(&mut self, Recheck { channel }: Recheck, ctx: &mut Self::Context) {
        self.recheck(&channel, ctx);
    }
}

impl Handler<Detach> for Channel {
    type Result = ();

    fn handle(&mut self, detach: Detach, _: &mut Self::Context) {
        let Detach {
            channel,
            connection,
        } = detach;
        if self
            .conversations
            .get(&channel)
            .is_some_and(|conversation| conversation.connection() == Some(connection))
        {
            self.conversations.remove(&channel);
            self.tell_connections();
        }
    }
}

impl Handler<Forget> for Channel {
    type Result = ();

    fn handle(&mut self, Forget { channel }: Forget, _: &mut Self::Context) {
        self.conversations.remove(&channel);
        self.spoken.remove(&channel);
        self.unheard.remove(&channel);
    }
}

impl Handler<HangUp> for Channel {
    type Result = ();

    fn handle(&mut self, HangUp { channel, closing }: HangUp, _: &mut Self::Context) {
        if let Some(conversation) = self.conversations.get(&channel)
            && let Some(socket) = &conversation.socket
        {
            socket.tell(Item::Close(closing));
        }
    }
}

impl Handler<Shutdown> for Channel {
    type Result = ();

    fn handle(&mut self, Shutdown: Shutdown, _: &mut Self::Context) {
        self.hang_up_all(Closing::Shutdown);
    }
}

impl Handler<Reconnect> for Channel {
    type Result = MessageResult<Reconnect>;

    fn handle(&mut self, Reconnect: Reconnect, _: &mut Self::Context) -> Self::Result {
        let connections = self.connections();
        self.hang_up_all(Closing::Reconnect);
        MessageResult(connections)
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
