//! Adapter: the port of everything that carries frames to people, such as a WebSocket or a chat network.
#![warn(missing_docs)]

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use actix::{Message, Recipient};
use futures_util::{FutureExt, future::BoxFuture};

use super::{
    outbound::Outbound,
    socket::{Closing, Item, Socket},
};
use crate::{clock::doubling, ids::ChannelId};

/// The first pause after an adapter's own failure; each one more doubles it, up to the longest.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(300);

/// One way to reach people. It translates, and holds no queue, topic or decision.
///
/// What it cannot show, such as progress, it may leave out by its own rule; never an answer, an error or a notification.
pub trait Adapter: Send + Sync + 'static {
    /// Begins: what people write goes to the router from now on.
    fn connect(&self) -> BoxFuture<'static, Result<(), ConnectError>>;

    /// Brings one frame to its channel. The next one waits for the outcome.
    fn deliver(&self, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery>;

    /// The client goes on with this earlier channel, or cannot. Only a client that asked is told.
    fn resumed(&self, channel: Option<ChannelId>);

    /// Ends, and tells the other end why if it can be told.
    fn disconnect(&self, closing: Closing) -> BoxFuture<'static, ()>;
}

/// Why an adapter does not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub String);

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is with the person, by this id of the network if it gives one, or left out by rule.
    Delivered(Option<String>),
    /// Not now: the network is busy or away.
    RetryAfter(Duration),
    /// Never, and why.
    Undeliverable(String),
}

/// A frame that cannot reach its channel: the operator is told.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Undelivered {
    /// The frame.
    pub frame: Arc<Outbound>,
    /// Why not.
    pub reason: String,
}

/// Connects an adapter and brings it what comes to its socket, in order, until the socket is closed.
pub async fn serve(
    adapter: Arc<dyn Adapter>,
    socket: Arc<Socket>,
    undelivered: Recipient<Undelivered>,
) {
    if let Err(error) = adapter.connect().await {
        tracing::warn!(%error, connection = socket.connection(), "channel cannot connect");
        return;
    }
    let closing = loop {
        match socket.next().await {
            Item::Frame(frame) => {
                if let Err(reason) = carry(&*adapter, &frame).await {
                    undelivered.do_send(Undelivered { frame, reason });
                }
            }
            Item::Adopted(channel) => adapter.resumed(Some(channel)),
            Item::NotAdopted => adapter.resumed(None),
            Item::Close(closing) => break closing,
        }
    };
    adapter.disconnect(closing).await;
}

/// Brings one frame to its channel, however often that takes. One that need not arrive is tried once.
async fn carry(adapter: &dyn Adapter, frame: &Arc<Outbound>) -> Result<(), String> {
    let mut failures = 0;
    loop {
        let attempt = async { adapter.deliver(frame.clone()).await };
        let pause = match AssertUnwindSafe(attempt).catch_unwind().await {
            Ok(Delivery::Delivered(native_id)) => {
                tracing::trace!(channel = %frame.channel, seq = frame.seq, native_id, "delivered");
                return Ok(());
            }
            Ok(Delivery::Undeliverable(reason)) => return Err(reason),
            Ok(Delivery::RetryAfter(pause)) => pause,
            // A panic in there ends one attempt and nothing else.
            Err(_) => {
                tracing::error!(channel = %frame.channel, "the adapter of a channel panicked; the frame is tried again");
                failures += 1;
                doubling(FIRST_RETRY_PAUSE, LONGEST_RETRY_PAUSE, failures - 1)
            }
        };
        if !frame.frame.body.is_durable() {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests;
