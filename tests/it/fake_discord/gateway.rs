//! The gateway: hello, identify or resume, heartbeats, events.

use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{Request, Response},
        protocol::CloseFrame,
    },
};

use super::{BOT, State, lock, user};

/// How the gateway behaves, and what it saw.
pub(crate) struct Gateway {
    pub(crate) url: String,
    /// Milliseconds between heartbeats.
    pub(crate) interval: u64,
    /// Whoever introduces themselves is sent away with this code.
    pub(crate) refuses: Option<u16>,
    /// Heartbeats are not answered.
    pub(crate) is_deaf: bool,
    /// No session can be resumed.
    pub(crate) forgets: bool,
    pub(crate) introductions: Vec<(String, Value)>,
    /// The addresses that were asked for.
    pub(crate) asked_for: Vec<String>,
    pub(crate) welcomes: usize,
    pub(crate) heartbeats: usize,
    /// All events, each under its number.
    events: Vec<Value>,
    connection: Option<UnboundedSender<Connection>>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            url: String::new(),
            interval: 41_250,
            refuses: None,
            is_deaf: false,
            forgets: false,
            introductions: Vec::new(),
            asked_for: Vec::new(),
            welcomes: 0,
            heartbeats: 0,
            events: Vec::new(),
            connection: None,
        }
    }
}

/// What is done to a connection.
pub(crate) enum Connection {
    Send(Value),
    Close(u16),
    /// Cut, without a word.
    Cut,
}

impl Gateway {
    /// Something happens. Whoever is not connected hears of it when they resume.
    pub(super) fn dispatch(&mut self, name: &str, data: Value) {
        let seq = self.events.len() + 1;
        let event = json!({"op": 0, "t": name, "s": seq, "d": data});
        self.events.push(event.clone());
        self.tell(Connection::Send(event));
    }

    /// The last event happens once more, as if it had not been sent.
    pub(crate) fn repeat(&mut self) {
        let mut event = self.events.last().expect("an event").clone();
        event["s"] = json!(self.events.len() + 1);
        self.events.push(event.clone());
        self.tell(Connection::Send(event));
    }

    pub(super) fn tell(&mut self, what: Connection) {
        if let Some(connection) = &self.connection {
            let _gone = connection.send(what);
        }
    }
}

pub(super) async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        actix_web::rt::spawn(greet(stream, state.clone()));
    }
}

type Socket = WebSocketStream<TcpStream>;

async fn greet(stream: TcpStream, state: Arc<Mutex<State>>) {
    let asked = state.clone();
    #[allow(clippy::result_large_err, reason = "the library's own type")]
    let look = move |request: &Request, response: Response| {
        lock(&asked).gateway.asked_for.push(request.uri().to_string());
        Ok(response)
    };
    let Ok(mut socket) = accept_hdr_async(stream, look).await else { return };
    let interval = lock(&state).gateway.interval;
    let hello = json!({"op": 10, "d": {"heartbeat_interval": interval}});
    if socket.send(Message::text(hello.to_string())).await.is_err() {
        return;
    }
    let (sender, orders) = unbounded_channel();
    converse(socket, orders, sender, state).await;
}

async fn converse(
    mut socket: Socket,
    mut orders: UnboundedReceiver<Connection>,
    sender: UnboundedSender<Connection>,
    state: Arc<Mutex<State>>,
) {
    loop {
        let answers = tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let frame = serde_json::from_str(&text).expect("JSON");
                    heard(&frame, &sender, &mut lock(&state))
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => Vec::new(),
                _ => return,
            },
            Some(order) = orders.recv() => vec![order],
        };
        for answer in answers {
            match answer {
                Connection::Send(frame) => {
                    if socket.send(Message::text(frame.to_string())).await.is_err() {
                        return;
                    }
                }
                Connection::Close(code) => {
                    let frame = CloseFrame { code: code.into(), reason: "".into() };
                    let _gone = socket.close(Some(frame)).await;
                    return;
                }
                Connection::Cut => return,
            }
        }
    }
}

fn heard(
    frame: &Value,
    sender: &UnboundedSender<Connection>,
    state: &mut State,
) -> Vec<Connection> {
    let token = state.token.clone();
    let gateway = &mut state.gateway;
    let name = match frame["op"].as_u64() {
        Some(1) => {
            gateway.heartbeats += 1;
            let ack = Connection::Send(json!({"op": 11}));
            return if gateway.is_deaf { Vec::new() } else { vec![ack] };
        }
        Some(2) => "IDENTIFY",
        Some(6) => "RESUME",
        _ => return vec![Connection::Close(4001)],
    };
    let introduction = &frame["d"];
    gateway.introductions.push((name.to_owned(), introduction.clone()));
    if introduction["token"] != token.as_str() {
        return vec![Connection::Close(4004)];
    }
    if let Some(code) = gateway.refuses {
        return vec![Connection::Close(code)];
    }
    if name == "RESUME" && gateway.forgets {
        return vec![Connection::Send(json!({"op": 9, "d": false}))];
    }
    gateway.connection = Some(sender.clone());
    gateway.welcomes += 1;
    if name == "RESUME" {
        let seq = introduction["seq"].as_u64().expect("a number") as usize;
        let missed = gateway.events.iter().skip(seq).cloned().map(Connection::Send);
        let resumed = json!({"op": 0, "t": "RESUMED", "s": gateway.events.len(), "d": {}});
        return missed.chain([Connection::Send(resumed)]).collect();
    }
    let ready = json!({"op": 0, "t": "READY", "s": gateway.events.len(), "d": {
        "v": 10, "user": user(BOT, "hive"), "guilds": [], "session_id": "session-1",
        "resume_gateway_url": gateway.url, "application": {"id": BOT.to_string(), "flags": 0},
    }});
    vec![Connection::Send(ready)]
}
