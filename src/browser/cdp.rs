//! Connection to a browser: commands of the DevTools protocol, their answers and events, over a pair of pipes.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot},
};

use super::BrowserError;

/// The largest message of a browser, in bytes: a picture of a long page.
const LARGEST: usize = 64 << 20;
/// What is read at once, in bytes.
const PIPE: usize = 64 << 10;
/// What ends a message.
const END: u8 = 0;

/// A connection. Cheap to clone; commands of all are in one order.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    orders: mpsc::UnboundedSender<Vec<u8>>,
    pending: Mutex<Option<Pending>>,
    next: AtomicU64,
    /// The browser held more bytes on the disk than these.
    excess: OnceLock<u64>,
}

/// Who waits for an answer, by the number of the command.
type Pending = HashMap<u64, oneshot::Sender<Result<Value, BrowserError>>>;

/// Something that happened in the browser.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) method: String,
    pub(super) params: Value,
    /// The page that it happened in.
    pub(super) session: Option<String>,
}

/// An answer, which has a number, or an event, which has a name.
#[derive(Deserialize)]
struct Heard {
    id: Option<u64>,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Link {
    /// Runs until the connection ends, and tells of events meanwhile.
    pub(super) fn over(
        streams: UnixStream,
    ) -> (Self, BoxFuture<'static, ()>, mpsc::UnboundedReceiver<Event>) {
        let (from, to) = streams.into_split();
        let (orders, written) = mpsc::unbounded_channel();
        let (happened, events) = mpsc::unbounded_channel();
        let inner = Inner {
            orders,
            pending: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
            excess: OnceLock::new(),
        };
        let link = Self(Arc::new(inner));
        let heard = link.clone();
        let running = async move {
            tokio::select! {
                () = write(to, written) => {}
                () = heard.listen(from, happened) => {}
            }
            heard.close();
        };
        (link, Box::pin(running), events)
    }

    /// Whoever waits hears that nothing will come.
    pub(super) fn close(&self) {
        self.0.pending.lock().take();
    }

    /// The browser is ended since it holds more bytes on the disk than these.
    pub(super) fn exceeded(&self, disk: u64) {
        tracing::warn!(disk, "a browser holds too much on the disk, and is ended");
        // The first reason counts.
        let _ = self.0.excess.set(disk);
    }

    pub(super) fn why_closed(&self) -> BrowserError {
        self.0.excess.get().map_or(BrowserError::Ended, |disk| BrowserError::Disk(*disk))
    }

    /// Says a command to the browser, or to one of its pages.
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        let (answer, answered) = oneshot::channel();
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        match &mut *self.0.pending.lock() {
            Some(pending) => drop(pending.insert(id, answer)),
            None => return Err(self.why_closed()),
        }
        self.send(id, session, method, params);
        answered.await.unwrap_or_else(|_| Err(self.why_closed()))
    }

    /// The same for one whose answer nobody waits for.
    pub(super) fn tell(&self, session: Option<&str>, method: &str, params: Value) {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.send(id, session, method, params);
    }

    fn send(&self, id: u64, session: Option<&str>, method: &str, params: Value) {
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(END);
        // One that has ended has told whoever waits.
        let _ = self.0.orders.send(bytes);
    }

    async fn listen(&self, from: OwnedReadHalf, happened: mpsc::UnboundedSender<Event>) {
        let (mut from, mut message) = (BufReader::with_capacity(PIPE, from), Vec::new());
        loop {
            let read = (&mut from).take(LARGEST as u64 + 1).read_until(END, &mut message).await;
            if read.is_err() || message.pop() != Some(END) {
                if message.len() >= LARGEST {
                    tracing::warn!("a browser sent a message that is too large, and is ended");
                }
                return;
            }
            self.hear(&message, &happened);
            message.clear();
        }
    }

    fn hear(&self, message: &[u8], happened: &mpsc::UnboundedSender<Event>) {
        let heard = match serde_json::from_slice(message) {
            Ok(heard) => heard,
            Err(error) => {
                tracing::warn!(%error, "a browser said something that cannot be read, and that is left out");
                return;
            }
        };
        match heard {
            Heard { id: Some(id), result, error, .. } => {
                let waiting =
                    self.0.pending.lock().as_mut().and_then(|pending| pending.remove(&id));
                let answer = match error {
                    Some(Refusal { message }) => Err(BrowserError::Refused(message)),
                    None => Ok(result),
                };
                // A call that was stopped waits for nothing.
                let _ = waiting.map(|waiting| waiting.send(answer));
            }
            Heard { method: Some(method), params, session, .. } => {
                // Nobody listens any more when the browser is let go.
                let _ = happened.send(Event { method, params, session });
            }
            _ => {}
        }
    }
}

async fn write(mut to: OwnedWriteHalf, mut orders: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(order) = orders.recv().await {
        if to.write_all(&order).await.is_err() {
            return;
        }
    }
}
