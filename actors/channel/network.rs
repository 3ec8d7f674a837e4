//! Delivery to a chat network: the frames of one channel in order, from the first that the network does not have. How far it
//! is stands in the store, so that a restart goes on there.
#![warn(missing_docs)]

use std::{sync::Arc, time::Duration};

use actix::Addr;
use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;

use super::{
    Adopt, Channel, Detach,
    adapter::{Adapter, ConnectError, Delivery, serve},
    outbound::Outbound,
    records::DeliveryMark,
    socket::{Closing, Socket},
};
use crate::{
    clock::doubling,
    ids::ChannelId,
    store::{StoreHandle, records::Writes},
};

/// The first pause after a failure; each one more doubles it.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A channel that was closed from our side is opened again after this.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// One channel of a chat network.
pub trait Network: Send + Sync + 'static {
    /// How far its delivery is.
    fn cursor(&self) -> &Cursor;

    /// Brings one frame to the channel, and moves the cursor.
    fn post(self: Arc<Self>, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery>;

    /// Frames come from where the cursor is, perhaps once more.
    fn connected(&self) {}
}

/// Brings a channel what it is told, until the service stops.
pub async fn run<N: Network>(network: Arc<N>) {
    let cursor = network.cursor();
    loop {
        let socket = Arc::new(Socket::of_network());
        cursor.state.lock().socket = Some(socket.clone());
        let served = Arc::new(Served(network.clone()));
        serve(served, socket, cursor.hub.clone().recipient()).await;
        cursor.detach();
        if cursor.state.lock().closing == Some(Closing::Shutdown) {
            return;
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}

/// How far the delivery of a channel is.
pub struct Cursor {
    channel: ChannelId,
    store: StoreHandle,
    hub: Addr<Channel>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    socket: Option<Arc<Socket>>,
    closing: Option<Closing>,
    mark: DeliveryMark,
    failures: u32,
}

impl Cursor {
    /// Of a channel, as far as the store knows once it is connected.
    pub fn new(channel: ChannelId, store: StoreHandle, hub: Addr<Channel>) -> Self {
        Self { channel, store, hub, state: Mutex::default() }
    }

    /// The channel that is delivered to.
    pub fn channel(&self) -> &ChannelId {
        &self.channel
    }

    /// What the network has.
    pub fn mark(&self) -> DeliveryMark {
        self.state.lock().mark.clone()
    }

    /// Notes what the network has without a commit: what led to it makes nothing to be posted, now and after a restart.
    pub fn set(&self, mark: DeliveryMark) {
        self.state.lock().mark = mark;
    }

    /// Notes what the network has, in the store before the next part is posted.
    pub async fn keep(&self, mark: DeliveryMark) {
        {
            let mut state = self.state.lock();
            state.failures = 0;
            state.mark = mark.clone();
        }
        if let Err(error) = self.store.commit(Writes::new().put_at(&self.channel, &mark)).await {
            tracing::error!(channel = %self.channel, %error, "what was posted cannot be noted; after a restart it may be posted again");
        }
    }

    /// A frame is done with, whether or not it is there: it is not posted again.
    pub async fn pass(&self, seq: u64) {
        let mark = self.mark();
        self.keep(DeliveryMark { seq: mark.seq.max(seq), partly: None, ..mark }).await;
    }

    /// How long a frame waits that could not be posted.
    pub fn pause(&self, longest: Duration) -> Duration {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        doubling(FIRST_RETRY_PAUSE, longest, state.failures - 1)
    }

    /// Nothing is brought from here any more; what comes waits in the outbox.
    pub fn detach(&self) {
        if let Some(socket) = self.state.lock().socket.take() {
            let (channel, connection) = (self.channel.clone(), socket.connection());
            self.hub.do_send(Detach { channel, connection });
        }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        let id = self.channel.clone();
        let read = self.store.read(move |storage| DeliveryMark::read(storage, &id));
        let mark = read.await.map_err(|error| ConnectError(error.to_string()))?;
        let mut state = self.state.lock();
        state.closing = None;
        // What was taken in since the mark was stored made no post.
        let last_seq = mark.seq;
        state.mark = mark;
        if let Some(socket) = state.socket.clone() {
            self.hub.do_send(Adopt { channel: self.channel.clone(), socket, last_seq });
        }
        Ok(())
    }
}

/// A channel of a network as [`serve`] knows it.
struct Served<N>(Arc<N>);

impl<N: Network> Adapter for Served<N> {
    fn connect(&self) -> BoxFuture<'static, Result<(), ConnectError>> {
        let network = self.0.clone();
        async move {
            network.cursor().connect().await?;
            network.connected();
            Ok(())
        }
        .boxed()
    }

    fn deliver(&self, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery> {
        self.0.clone().post(frame)
    }

    fn resumed(&self, _: Option<ChannelId>) {}

    fn disconnect(&self, closing: Closing) -> BoxFuture<'static, ()> {
        self.0.cursor().state.lock().closing = Some(closing);
        std::future::ready(()).boxed()
    }
}
