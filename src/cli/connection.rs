//! WebSocket connection of a chat: reconnects by itself after a break, and goes on where it was.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hivewright_actors::ids::{ChannelId, TopicId};
use reqwest::{Upgraded, header};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role},
    },
};

use super::{
    channel_state::{ChannelState, Incoming, Words, cancel},
    client::Service,
    context::Context,
    earlier::Earlier,
    failure::{Exit, Failure},
};

/// The service gives a sign of life more often than this.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
/// How long a lost service may take to come back.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Something that happened on the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// A frame came in: what it says, and as it was.
    Frame(Box<Incoming>, String),
    /// The connection broke, and is being made again.
    Lost,
    /// It goes on where it was.
    Back,
    /// It goes on, and nothing more is known of what was said before.
    Renewed,
}

enum Order {
    Say(Words),
    Cancel(TopicId),
}

type Socket = WebSocketStream<Upgraded>;

/// A chat connection. Dropping it ends it; what was said goes on.
#[derive(Debug)]
pub(super) struct Connection {
    /// Its channel; none if the service does not name it. One that is forgotten is followed by another.
    pub(super) channel: Option<ChannelId>,
    orders: mpsc::UnboundedSender<Order>,
    events: mpsc::UnboundedReceiver<Result<Event, Failure>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Begins a conversation, or goes on with an earlier one.
    pub(super) async fn open(
        context: &Context,
        earlier: Option<&Earlier>,
    ) -> Result<Self, Failure> {
        let mut line = earlier.map_or_else(ChannelState::default, |earlier| {
            ChannelState::earlier(earlier.channel.clone(), earlier.seq)
        });
        let socket = connect(context, &mut line).await?;
        let (order_sender, orders) = mpsc::unbounded_channel();
        let (event_sender, events) = mpsc::unbounded_channel();
        let channel = line.channel().cloned();
        let worker = Worker { context: context.clone(), line, orders, events: event_sender };
        let task = hivewright_actors::spawn::anywhere(worker.run(socket)).abort_handle();
        Ok(Self { channel, orders: order_sender, events, task })
    }

    /// Says something. It is said again after a break, unless it is known to have arrived.
    pub(super) fn say(&self, words: Words) {
        // A connection that has ended says so at the next event.
        let _ended = self.orders.send(Order::Say(words));
    }

    /// Stops the turn of a topic.
    pub(super) fn cancel(&self, topic: TopicId) {
        let _ended = self.orders.send(Order::Cancel(topic));
    }

    /// What happens next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Event, Failure> {
        let ended = || Err(Failure::failed("the connection has ended"));
        let event = self.events.recv().await.unwrap_or_else(ended)?;
        if let Event::Frame(frame, _) = &event {
            self.channel = Some(frame.channel_id.clone());
        }
        Ok(event)
    }
}

/// Why a connection is over.
enum Ended {
    Broken,
    ForGood(Failure),
    /// Nobody listens any more.
    Unwanted,
}

struct Worker {
    context: Context,
    line: ChannelState,
    orders: mpsc::UnboundedReceiver<Order>,
    events: mpsc::UnboundedSender<Result<Event, Failure>>,
}

impl Worker {
    async fn run(mut self, mut socket: Socket) {
        loop {
            let failure = match self.serve(&mut socket).await {
                Ended::Unwanted => return,
                Ended::ForGood(failure) => failure,
                Ended::Broken => {
                    let _unwanted = self.events.send(Ok(Event::Lost));
                    match self.reconnect().await {
                        Ok(again) => {
                            socket = again;
                            continue;
                        }
                        Err(failure) => failure,
                    }
                }
            };
            let _unwanted = self.events.send(Err(failure));
            return;
        }
    }

    async fn serve(&mut self, socket: &mut Socket) -> Ended {
        loop {
            let outcome = tokio::select! {
                received = timeout(SILENCE, socket.next()) => match received {
                    Ok(Some(Ok(message))) => self.received(message, socket).await,
                    _ => Err(Ended::Broken),
                },
                order = self.orders.recv() => match order {
                    Some(Order::Say(words)) => {
                        send(socket, self.line.say(words)).await
                    }
                    Some(Order::Cancel(topic)) => send(socket, [cancel(&topic)]).await,
                    None => Err(Ended::Unwanted),
                },
            };
            if let Err(ended) = outcome {
                return ended;
            }
        }
    }

    async fn received(&mut self, message: Message, socket: &mut Socket) -> Result<(), Ended> {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(frame) => return Err(closed(frame)),
            // Pings are answered below us, and nothing else is meant for us.
            _ => return Ok(()),
        };
        // What a newer service says beyond our words is not for us either.
        let Ok(frame) = serde_json::from_str::<Incoming>(&text) else {
            return Ok(());
        };
        let taken = self.line.take(&frame);
        let happened = [
            (taken.back, Event::Back),
            (taken.renewed, Event::Renewed),
            (taken.fresh, Event::Frame(frame.into(), text.to_string())),
        ];
        for (_, event) in happened.into_iter().filter(|(did, _)| *did) {
            self.events.send(Ok(event)).map_err(|_| Ended::Unwanted)?;
        }
        send(socket, taken.send).await
    }

    /// Tries again until the service is there, or was away for too long.
    async fn reconnect(&mut self) -> Result<Socket, Failure> {
        let mut retries = Retries::new();
        loop {
            match connect(&self.context, &mut self.line).await {
                Ok(socket) => return Ok(socket),
                Err(failure) => retries.pause_after(failure).await?,
            }
        }
    }
}

/// Tries again until it works, or the service was away for too long.
pub(super) async fn with_retries<T>(
    attempt: impl AsyncFn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut retries = Retries::new();
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(failure) => retries.pause_after(failure).await?,
        }
    }
}

/// Retries while a service is lost, with growing pauses, for a limited time.
#[derive(Debug)]
pub(super) struct Retries {
    end: Instant,
    pause: Duration,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self { end: Instant::now() + RECONNECT_TIMEOUT, pause: FIRST_PAUSE }
    }

    /// Waits until the next try. The failure is back if there is to be none.
    pub(super) async fn pause_after(&mut self, failure: Failure) -> Result<(), Failure> {
        let passing = matches!(failure.exit, Exit::NotReachable | Exit::TimedOut);
        if !passing || Instant::now() >= self.end {
            return Err(failure);
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Makes a connection and says what the line wants said first.
///
/// The service is looked for each time: it may have come back elsewhere.
async fn connect(context: &Context, line: &mut ChannelState) -> Result<Socket, Failure> {
    let service = Service::find(context)?;
    let key = generate_key();
    let answer = service.upgrade(&key).await?;
    let header = |name| answer.headers().get(name)?.to_str().ok();
    if header(header::SEC_WEBSOCKET_ACCEPT.as_str()) != Some(&derive_accept_key(key.as_bytes())) {
        let message = format!("{} does not speak WebSocket; check `--url`", service.url());
        return Err(Failure::failed(message));
    }
    let fresh = header("x-channel-id").map(Into::into);
    let broken = |error| Failure::system("the connection broke", error);
    let upgraded = answer.upgrade().await.map_err(broken)?;
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    match send(&mut socket, line.opened(fresh)).await {
        Ok(()) => Ok(socket),
        Err(_) => Err(Failure::new(
            Exit::NotReachable,
            format!("the service at {} closed the connection at once", service.url()),
        )),
    }
}

async fn send(socket: &mut Socket, frames: impl IntoIterator<Item = Value>) -> Result<(), Ended> {
    for frame in frames {
        socket.send(Message::text(frame.to_string())).await.map_err(|_| Ended::Broken)?;
    }
    Ok(())
}

fn closed(frame: Option<CloseFrame>) -> Ended {
    match frame.map(|frame| u16::from(frame.code)) {
        Some(4401) => Ended::ForGood(Failure::new(
            Exit::NotAllowed,
            "the token was revoked or replaced while it was in use; see `--token-file`",
        )),
        Some(4403) => Ended::ForGood(Failure::new(
            Exit::NotAllowed,
            "the service ended the connection: this sender is kept out; an operator sees why with `hivewright trust audit`",
        )),
        Some(1009) => {
            Ended::ForGood(Failure::failed("the message is too large: 1 MiB is the most"))
        }
        _ => Ended::Broken,
    }
}
