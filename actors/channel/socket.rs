//! Socket: the frames that wait for one connection. The channel fills it, the connection's adapter empties it.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::outbound::Outbound;
use crate::ids::ChannelId;

/// So many frames may wait …
const MOST_FRAMES: usize = 1_000;
/// … or so many bytes.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// A client that lets more wait for this long is cut off. Its durable frames stay in the outbox.
const SLOW_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections of networks, which no client has the number of.
static NETWORK_CONNECTIONS: AtomicU64 = AtomicU64::new(1 << 63);

/// Something for a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Frame(Arc<Outbound>),
    /// The connection now speaks for this channel.
    Adopted(ChannelId),
    /// It does not; it keeps the channel it has.
    NotAdopted,
    /// The connection is to close.
    Close(Closing),
}

/// Why a connection is closed from our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Shutdown,
    /// The client does not read.
    Slow,
    CredentialEnded,
    /// Its channel has as many connections as it may have.
    Crowded,
    /// What was to be sent cannot be read.
    Internal,
    /// The client sent a frame that is too big.
    TooBig,
    /// The client sent text that is not UTF-8.
    BadText,
    /// Its sender is kept out.
    Denied,
    /// The operator wants all clients to come again.
    Reconnect,
}

/// What waits for one connection.
#[derive(Debug)]
pub struct Socket {
    connection: u64,
    /// At the other end is a chat network, not a client of ours.
    is_network: bool,
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Item, bool)>,
    bytes: usize,
    overfull_since: Option<Instant>,
    closing: bool,
}

impl Socket {
    /// Nothing waits for a new connection.
    pub fn new(connection: u64) -> Self {
        Self { connection, is_network: false, state: Mutex::default(), filled: Notify::new() }
    }

    /// Nothing waits for a channel of a chat network, which has a number of its own.
    pub fn of_network() -> Self {
        let connection = NETWORK_CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Self { is_network: true, ..Self::new(connection) }
    }

    /// At the other end is a client of ours, which comes again by itself.
    pub fn is_client(&self) -> bool {
        !self.is_network
    }

    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Adds a frame. A durable one may wait for a slow client; others are dropped for it.
    pub fn push(&self, frame: Arc<Outbound>, durable: bool) {
        let mut state = self.state.lock();
        if state.closing {
            return;
        }
        state.bytes += frame.text.len();
        state.waiting.push_back((Item::Frame(frame), durable));
        if state.is_overfull() {
            state.drop_passing();
        }
        let now = Instant::now();
        if !state.is_overfull() {
            state.overfull_since = None;
        } else if now.duration_since(*state.overfull_since.get_or_insert(now)) > SLOW_TIMEOUT {
            state.close(Closing::Slow);
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Adds something that is not a frame.
    pub fn tell(&self, item: Item) {
        let mut state = self.state.lock();
        match item {
            Item::Close(closing) => state.close(closing),
            item => state.waiting.push_back((item, true)),
        }
        drop(state);
        self.filled.notify_one();
    }

    /// The next thing, as soon as there is one. Cancel-safe.
    pub async fn next(&self) -> Item {
        loop {
            if let Some(item) = self.take() {
                return item;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Item> {
        let mut state = self.state.lock();
        let (item, _) = state.waiting.pop_front()?;
        if let Item::Frame(frame) = &item {
            state.bytes -= frame.text.len();
        }
        Some(item)
    }
}

impl State {
    fn is_overfull(&self) -> bool {
        self.waiting.len() > MOST_FRAMES || self.bytes > MOST_BYTES
    }

    fn drop_passing(&mut self) {
        let bytes = &mut self.bytes;
        self.waiting.retain(|(item, durable)| {
            if let (Item::Frame(frame), false) = (item, durable) {
                *bytes -= frame.text.len();
                return false;
            }
            true
        });
    }

    /// What waits for a client that does not read is not sent; durable frames are in the outbox.
    fn close(&mut self, closing: Closing) {
        if closing == Closing::Slow {
            self.waiting.clear();
            self.bytes = 0;
        }
        self.waiting.push_back((Item::Close(closing), true));
        self.closing = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Timestamp,
        frame::{Body, Frame, Progress, ProgressKind},
    };

    fn frame(content: &str) -> Arc<Outbound> {
        let body = Body::Progress(Progress::new(ProgressKind::Note, content));
        let frame = Frame { topic: None, ts: Timestamp::default(), body };
        Arc::new(Outbound::new(&"ws:1".into(), 1, Arc::new(frame)))
    }

    /// CH-71
    #[tokio::test(start_paused = true)]
    async fn a_slow_client_loses_passing_frames_first_and_is_cut_off_at_last() {
        let socket = Socket::new(1);
        for number in 0..600 {
            socket.push(frame(&format!("delta {number}")), false);
            socket.push(frame(&format!("kept {number}")), true);
        }
        assert_eq!(socket.next().await, Item::Frame(frame("kept 0")));
        for number in 600..1_700 {
            socket.push(frame(&format!("kept {number}")), true);
        }
        tokio::time::advance(SLOW_TIMEOUT + Duration::from_secs(1)).await;
        socket.push(frame("one more"), true);

        assert_eq!(socket.next().await, Item::Close(Closing::Slow));
    }

    #[tokio::test]
    async fn frames_leave_in_the_order_they_came() {
        let socket = Socket::new(1);
        socket.push(frame("a"), false);
        socket.push(frame("b"), true);
        socket.tell(Item::Close(Closing::Shutdown));

        assert_eq!(socket.next().await, Item::Frame(frame("a")));
        assert_eq!(socket.next().await, Item::Frame(frame("b")));
        assert_eq!(socket.next().await, Item::Close(Closing::Shutdown));
    }
}
