//! Gateway: one connection to what happens on Discord, from its hello to its end.

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use hivewright_actors::ids::Entropy as _;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use serenity::model::{
    application::{ComponentInteraction, Interaction},
    channel::Message,
    gateway::GatewayIntents,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, sleep_until, timeout},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        self,
        protocol::{WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{settings::secret::Secret, system::Randomness};

/// From the first packet to Discord's hello, and from our answer to its welcome.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Guilds come in one event each, and may be large.
const LARGEST_EVENT: usize = 32 * 1024 * 1024;
/// Beats outside these bounds are not Discord's.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);
const LONGEST_BEAT: Duration = Duration::from_secs(10 * 60);
/// What Discord means by its close codes 4013 and 4014.
const NO_CONTENT: &str =
    "turn on the Message Content Intent of the bot in Discord's developer portal";
/// Tells Discord that we come again.
const RESUMABLE: u16 = 4000;

pub(super) enum Event {
    /// The connection stands. If it went on with its session, nothing was missed.
    Ready {
        is_resumed: bool,
    },
    Message(Box<Message>),
    Press(Box<ComponentInteraction>),
}

/// A session that a later connection can go on with, without missing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    id: String,
    /// Where it is gone on with.
    pub(super) url: String,
    seq: u64,
}

/// Who we are to Discord.
pub(super) struct Identity {
    pub(super) token: Secret,
    pub(super) direct_messages: bool,
}

impl Identity {
    fn intents(&self) -> GatewayIntents {
        let intents = GatewayIntents::GUILDS
            | GatewayIntents::GUILD_MESSAGES
            | GatewayIntents::MESSAGE_CONTENT;
        if self.direct_messages { intents | GatewayIntents::DIRECT_MESSAGES } else { intents }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Another one may be tried.
    Broken(String),
    /// None will do until the settings change.
    Refused(String),
}

/// What Discord sends.
#[derive(Deserialize)]
struct Envelope<'a> {
    op: u8,
    s: Option<u64>,
    t: Option<String>,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Hello {
    heartbeat_interval: u64,
}

#[derive(Deserialize)]
struct Welcome {
    session_id: String,
    resume_gateway_url: String,
}

/// Operations of the protocol.
mod op {
    pub(super) const DISPATCH: u8 = 0;
    pub(super) const HEARTBEAT: u8 = 1;
    pub(super) const IDENTIFY: u8 = 2;
    pub(super) const RESUME: u8 = 6;
    pub(super) const RECONNECT: u8 = 7;
    pub(super) const INVALID_SESSION: u8 = 9;
    pub(super) const HELLO: u8 = 10;
    pub(super) const HEARTBEAT_ACK: u8 = 11;
}

/// Connects, and tells what happens until the connection ends. The session is kept as far as it can be resumed.
pub(super) async fn listen(
    url: &str,
    identity: &Identity,
    session: &mut Option<Session>,
    heard: &mut dyn FnMut(Event),
) -> End {
    let opened = match timeout(CONNECT_TIMEOUT, open(url)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(reason)) => return End::Broken(reason),
        Err(_) => return End::Broken(late()),
    };
    let (socket, beat) = opened;
    let now = Instant::now();
    let mut connection = Connection {
        socket,
        beat,
        // Not all bots of the world at once, after an outage.
        due: now + beat.mul_f64(Randomness.fraction()),
        answered: true,
        welcome_by: Some(now + CONNECT_TIMEOUT),
        session,
    };
    let end = match connection.introduce(identity).await {
        Ok(()) => connection.run(heard).await,
        Err(end) => end,
    };
    connection.close().await;
    end
}

fn late() -> String {
    format!("Discord's gateway did not answer within {} s", CONNECT_TIMEOUT.as_secs())
}

/// What a connection runs over.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

type Socket = WebSocketStream<Box<dyn Wire>>;

/// A connection that Discord has greeted, and how often it wants a sign of life.
async fn open(url: &str) -> Result<(Socket, Duration), String> {
    let unreachable = |error: std::io::Error| format!("the gateway cannot be reached: {error}");
    let mut address = reqwest::Url::parse(url).map_err(|error| format!("gateway URL: {error}"))?;
    address.set_query(Some("v=10&encoding=json"));
    let is_safe = address.scheme() == "wss";
    let host = address.host_str().unwrap_or_default().to_owned();
    let port = address.port().unwrap_or(if is_safe { 443 } else { 80 });
    let wire = TcpStream::connect((host.trim_matches(['[', ']']), port)).await;
    let wire = wire.map_err(unreachable)?;
    let _slower = wire.set_nodelay(true);
    let wire: Box<dyn Wire> = if is_safe {
        Box::new(tls()?.connect(name(&host)?, wire).await.map_err(unreachable)?)
    } else {
        Box::new(wire)
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_EVENT))
        .max_frame_size(Some(LARGEST_EVENT));
    let (mut socket, _) = client_async_with_config(address.as_str(), wire, Some(config))
        .await
        .map_err(|error| format!("the gateway refuses the connection: {error}"))?;
    let text = next_text(&mut socket).await.map_err(|lost| lost.to_string())?;
    let strange = || "the gateway does not speak Discord's protocol".to_owned();
    let envelope: Envelope<'_> = serde_json::from_str(&text).map_err(|_| strange())?;
    if envelope.op != op::HELLO {
        return Err(strange());
    }
    let hello: Hello = read(envelope.d).ok_or_else(strange)?;
    let beat = Duration::from_millis(hello.heartbeat_interval);
    Ok((socket, beat.clamp(SHORTEST_BEAT, LONGEST_BEAT)))
}

fn tls() -> Result<TlsConnector, String> {
    use rustls_platform_verifier::ConfigVerifierExt;

    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = rustls::ClientConfig::with_platform_verifier();
    let config = config.map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(TlsConnector::from(Arc::new(config)))
}

fn name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|_| format!("`{host}` is no host name"))
}

struct Connection<'a> {
    socket: Socket,
    beat: Duration,
    /// When the next sign of life is due.
    due: Instant,
    /// The last one was answered.
    answered: bool,
    /// Until when Discord has to take us in.
    welcome_by: Option<Instant>,
    session: &'a mut Option<Session>,
}

impl Connection<'_> {
    /// Says who we are, or which session we go on with.
    async fn introduce(&mut self, identity: &Identity) -> Result<(), End> {
        let token = identity.token.expose();
        let message = match &*self.session {
            Some(session) => json!({
                "op": op::RESUME,
                "d": { "token": token, "session_id": session.id, "seq": session.seq },
            }),
            None => json!({
                "op": op::IDENTIFY,
                "d": {
                    "token": token,
                    "intents": identity.intents().bits(),
                    "properties": { "os": "linux", "browser": "hivewright", "device": "hivewright" },
                },
            }),
        };
        self.send(message).await
    }

    async fn run(&mut self, heard: &mut dyn FnMut(Event)) -> End {
        loop {
            let by = self.welcome_by.map_or(self.due, |by| by.min(self.due));
            let text = tokio::select! {
                text = next_text(&mut self.socket) => match text {
                    Ok(text) => text,
                    Err(lost) => return self.ended(&lost),
                },
                () = sleep_until(by) => {
                    match self.passed().await {
                        Ok(()) => continue,
                        Err(end) => return end,
                    }
                }
            };
            if let Err(end) = self.take(&text, heard).await {
                return end;
            }
        }
    }

    /// A moment has come by which something is due.
    async fn passed(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if self.welcome_by.is_some_and(|by| by <= now) {
            return Err(End::Broken(late()));
        }
        if self.due > now {
            return Ok(());
        }
        if !std::mem::take(&mut self.answered) {
            return Err(End::Broken("the gateway gives no sign of life".to_owned()));
        }
        self.due = now + self.beat;
        self.send_beat().await
    }

    async fn send_beat(&mut self) -> Result<(), End> {
        let seq = self.session.as_ref().map(|session| session.seq);
        self.send(json!({ "op": op::HEARTBEAT, "d": seq })).await
    }

    async fn send(&mut self, message: Value) -> Result<(), End> {
        let sent = self.socket.send(tungstenite::Message::text(message.to_string()));
        let lost = match timeout(CONNECT_TIMEOUT, sent).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => format!("broke: {error}"),
            Err(_) => "does not move".to_owned(),
        };
        Err(End::Broken(Lost::Gone(lost).to_string()))
    }

    async fn take(&mut self, text: &str, heard: &mut dyn FnMut(Event)) -> Result<(), End> {
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else {
            tracing::warn!("an event of Discord cannot be read, and is left out");
            return Ok(());
        };
        match envelope.op {
            op::DISPATCH => self.dispatch(&envelope, heard),
            op::HEARTBEAT => self.send_beat().await?,
            op::HEARTBEAT_ACK => self.answered = true,
            op::RECONNECT => return Err(End::Broken("Discord asks to connect again".to_owned())),
            op::INVALID_SESSION => {
                if !read::<bool>(envelope.d).unwrap_or(false) {
                    *self.session = None;
                }
                return Err(End::Broken("Discord has ended the session".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, envelope: &Envelope<'_>, heard: &mut dyn FnMut(Event)) {
        if let (Some(seq), Some(session)) = (envelope.s, self.session.as_mut()) {
            session.seq = seq;
        }
        let name = envelope.t.as_deref().unwrap_or_default();
        match name {
            "READY" => {
                if let Some(welcome) = parse::<Welcome>(name, envelope.d) {
                    *self.session = Some(Session {
                        id: welcome.session_id,
                        url: welcome.resume_gateway_url,
                        seq: envelope.s.unwrap_or_default(),
                    });
                    self.welcome_by = None;
                    heard(Event::Ready { is_resumed: false });
                }
            }
            "RESUMED" => {
                self.welcome_by = None;
                heard(Event::Ready { is_resumed: true });
            }
            "MESSAGE_CREATE" => {
                if let Some(message) = parse(name, envelope.d) {
                    heard(Event::Message(Box::new(message)));
                }
            }
            "INTERACTION_CREATE" => {
                if let Some(Interaction::Component(press)) = parse(name, envelope.d) {
                    heard(Event::Press(Box::new(press)));
                }
            }
            _ => {}
        }
    }

    /// The other end has closed, or is gone. Some closings end the session, and some all hope.
    fn ended(&mut self, lost: &Lost) -> End {
        let refused = |why: &str| End::Refused(format!("Discord refuses the bot: {why}"));
        match lost {
            Lost::Closed(4004) => return refused("its token is not accepted"),
            Lost::Closed(4010 | 4011) => {
                return refused("it is in too many servers for one connection");
            }
            Lost::Closed(4012) => {
                return refused("this version of the gateway is gone; update Hivewright");
            }
            Lost::Closed(4013 | 4014) => return refused(NO_CONTENT),
            Lost::Closed(1000 | 1001 | 4007 | 4009) => *self.session = None,
            Lost::Closed(_) | Lost::Gone(_) => {}
        }
        End::Broken(lost.to_string())
    }

    /// Leaves so that the session stays, if there is one.
    async fn close(&mut self) {
        let frame = tungstenite::protocol::CloseFrame {
            code: CloseCode::from(RESUMABLE),
            reason: "".into(),
        };
        let _gone = timeout(Duration::from_secs(1), self.socket.close(Some(frame))).await;
    }
}

/// How a connection is lost.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("Discord closed the connection with code {0}")]
    Closed(u16),
    #[error("the connection to the gateway {0}")]
    Gone(String),
}

async fn next_text(socket: &mut Socket) -> Result<String, Lost> {
    loop {
        return match socket.next().await {
            Some(Ok(tungstenite::Message::Text(text))) => Ok(text.as_str().to_owned()),
            Some(Ok(tungstenite::Message::Close(Some(frame)))) => {
                Err(Lost::Closed(frame.code.into()))
            }
            Some(Ok(tungstenite::Message::Close(None))) | None => {
                Err(Lost::Gone("ended".to_owned()))
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => Err(Lost::Gone(format!("broke: {error}"))),
        };
    }
}

fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// What an event tells. One that cannot be read is left out.
fn parse<'a, T: Deserialize<'a>>(name: &str, raw: Option<&'a RawValue>) -> Option<T> {
    match serde_json::from_str(raw?.get()) {
        Ok(event) => Some(event),
        Err(error) => {
            // The error itself may repeat what somebody wrote.
            let at = error.column();
            tracing::warn!(event = name, at, "an event of Discord cannot be read, and is left out");
            None
        }
    }
}
