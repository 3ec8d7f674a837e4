//! WebSocket: one actor per connection. It translates, and holds no queue, topic or decision.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Handler, Recipient, StreamHandler,
    WrapFuture,
};
use actix_http::ws::Item as Fragment;
use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{HeaderName, HeaderValue},
    web::{self, Bytes, BytesMut},
};
use actix_web_actors::ws::{
    CloseCode, CloseReason, Message, ProtocolError, WebsocketContext, WsResponseBuilder,
};
use futures_util::future::{self, BoxFuture};
use hivewright_actors::{
    channel::{
        adapter::{Adapter, ConnectError, Delivery, Undelivered, serve},
        outbound::Outbound,
        socket::{Closing, Item, Socket},
    },
    file::records::FileRow,
    frame::ErrorBody,
    identities::Owner,
    ids::{ChannelId, Ids, MessageId},
    router::{Close, Inbound, Open, Receive, Resume, Router, sender::Sender},
};

use super::{
    frames::{self, ClientFrame, Refusal},
    framing::{Framed, LARGEST_FRAME, Verdict, Violation},
};

use crate::{
    files::{self, FileError, FileStore},
    vault::scrubbers::Scrubbers,
};

/// How often the client is asked for a sign of life.
const PING: Duration = Duration::from_secs(20);
/// Without one for this long, the connection is closed.
const SILENCE: Duration = Duration::from_secs(60);
/// Frames that may wait while an earlier channel is being looked up.
const HELD_FRAMES: usize = 1_000;
/// After our close frame the client has this long to answer it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// A frame that a connection did not take is offered again after this, if the connection is still there.
const OFFERED_AGAIN: Duration = Duration::from_secs(1);

/// What connections need from the rest.
pub struct Door {
    pub router: Addr<Router>,
    /// Told of frames that cannot be delivered.
    pub undelivered: Recipient<Undelivered>,
    pub ids: Ids,
    pub connections: AtomicU64,
    /// What must not be seen, of all teams.
    pub secrets: Scrubbers,
    /// What messages may name.
    pub files: FileStore,
}

/// Who is at the other end, and how to learn that they may not be any more.
pub struct Guest {
    /// Whose the channel is.
    pub owner: Owner,
    /// Who writes the messages.
    pub sender: Sender,
    /// Another channel that hears of the work.
    pub notify: Option<ChannelId>,
    /// Ends when the credential does.
    pub ended: std::pin::Pin<Box<dyn Future<Output = ()>>>,
}

/// Turns an authenticated request into a connection.
pub fn upgrade(
    request: &HttpRequest,
    payload: web::Payload,
    door: Arc<Door>,
    guest: Guest,
) -> Result<HttpResponse, actix_web::Error> {
    let channel = door.ids.websocket_channel();
    let verdict = Verdict::default();
    let payload = Framed::new(payload, verdict.clone());
    let connection = Connection {
        owner: guest.owner.clone(),
        socket: Arc::new(Socket::new(door.connections.fetch_add(1, Ordering::Relaxed) + 1)),
        channel: channel.clone(),
        notify: guest.notify.clone(),
        guest: Some(guest),
        used: false,
        held: None,
        fragments: None,
        verdict,
        closed: false,
        last_sign: Instant::now(),
        door,
    };
    let mut response =
        WsResponseBuilder::new(connection, request, payload).frame_size(LARGEST_FRAME).start()?;
    if let Ok(value) = HeaderValue::from_str(channel.as_str()) {
        let name = HeaderName::from_static("x-channel-id");
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

struct Connection {
    door: Arc<Door>,
    owner: Owner,
    socket: Arc<Socket>,
    channel: ChannelId,
    notify: Option<ChannelId>,
    guest: Option<Guest>,
    /// A message has been sent: it is too late to resume another channel.
    used: bool,
    /// An earlier channel is being looked up, or files are; what comes meanwhile waits.
    held: Option<VecDeque<Result<ClientFrame, Refusal>>>,
    fragments: Option<Fragments>,
    /// Why the client is not listened to any more.
    verdict: Verdict,
    /// Our close frame was sent: it is the last one, and answers that of the client too.
    closed: bool,
    last_sign: Instant,
}

/// A message whose files are not known yet.
struct Said {
    content: String,
    topic_id: Option<String>,
    message_id: Option<MessageId>,
}

/// What its sender hears of a frame that comes while as many wait as may.
fn overflowing(frame: Result<ClientFrame, Refusal>) -> Refusal {
    let message_id = match frame {
        Ok(ClientFrame::Message { message_id, .. }) => message_id,
        Ok(_) => None,
        Err(refusal) => refusal.message_id,
    };
    let error = format!("more than {HELD_FRAMES} frames wait for an earlier one; slow down");
    Refusal { code: "rate_limited", error, message_id }
}

fn refusal_code(error: &FileError) -> &'static str {
    match error {
        FileError::Unknown(_) => "unknown_file",
        FileError::TooMany => "too_many_files",
        _ => "internal",
    }
}

/// The parts of a message that have come so far.
enum Fragments {
    Text(BytesMut),
    Binary,
}

impl Connection {
    fn close(&mut self, code: CloseCode, reason: &str, ctx: &mut WebsocketContext<Self>) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        ctx.close(Some(CloseReason { code, description: Some(reason.to_owned()) }));
        ctx.run_later(CLOSE_TIMEOUT, |_, ctx| ctx.stop());
    }

    fn say(&self, inbound: Inbound) {
        self.door.router.do_send(Receive {
            channel: self.channel.clone(),
            connection: self.socket.connection(),
            inbound,
        });
    }

    fn refuse(&self, refusal: Refusal) {
        self.say(Inbound::Malformed(refusal.into(), None));
    }

    /// Tells the client what is wrong with its frame, and closes.
    fn refuse_and_close(&self, code: &str, error: &str, closing: Closing) {
        let error = ErrorBody::refusal(code, error);
        self.say(Inbound::Malformed(error, Some(closing)));
    }

    fn text(&mut self, text: &str, ctx: &mut WebsocketContext<Self>) {
        let frame = frames::parse(text);
        match &mut self.held {
            None => self.frame(frame, ctx),
            Some(held) if held.len() < HELD_FRAMES => held.push_back(frame),
            Some(_) => self.refuse(overflowing(frame)),
        }
    }

    fn frame(&mut self, frame: Result<ClientFrame, Refusal>, ctx: &mut WebsocketContext<Self>) {
        match frame {
            Ok(ClientFrame::Message { content, topic_id, message_id, files }) => {
                self.used = true;
                let said = Said { content, topic_id, message_id };
                if files.is_empty() {
                    return self.message(said, Vec::new());
                }
                self.held = Some(VecDeque::new());
                self.look_up(said, files, ctx);
            }
            Ok(ClientFrame::TopicListRequest) => self.say(Inbound::TopicList),
            Ok(ClientFrame::Cancel { topic_id, queued }) => {
                self.say(Inbound::Cancel { topic: topic_id, queued })
            }
            Ok(ClientFrame::Read { topic_id, until }) => {
                self.say(Inbound::Read { topic: topic_id, until });
            }
            Ok(ClientFrame::Resume { channel_id, home, last_seq }) => {
                self.resume(channel_id, home, last_seq);
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn message(&self, said: Said, files: Vec<FileRow>) {
        let Said { content, topic_id, message_id } = said;
        let content = files::words(content, &files);
        self.say(Inbound::Message {
            content: self.door.secrets.everything().scrub_known(&content).into_owned(),
            topic: topic_id,
            id: message_id,
            notify: self.notify.clone(),
            files,
        });
    }

    /// Finds the files of a message. What comes meanwhile waits, so that messages keep their order.
    fn look_up(&self, said: Said, ids: Vec<String>, ctx: &mut WebsocketContext<Self>) {
        let (files, owner) = (self.door.files.clone(), self.owner.clone());
        let found = async move { files.named(&owner, &ids).await };
        ctx.spawn(found.into_actor(self).map(|found, connection, ctx| {
            match found {
                Ok(files) => connection.message(said, files),
                Err(error) => connection.refuse(Refusal {
                    code: refusal_code(&error),
                    error: error.to_string(),
                    message_id: said.message_id,
                }),
            }
            connection.release_held_frames(ctx);
        }));
    }

    fn resume(&mut self, channel: Option<ChannelId>, home: bool, last_seq: u64) {
        if self.used {
            return self.refuse(Refusal {
                code: "resume_too_late",
                error: "`resume` must come before the first message".to_owned(),
                message_id: None,
            });
        }
        self.held = Some(VecDeque::new());
        self.door.router.do_send(Resume {
            fresh: self.channel.clone(),
            channel,
            home,
            last_seq,
            socket: self.socket.clone(),
        });
    }

    /// What was looked up is known: what came meanwhile goes in now.
    fn release_held_frames(&mut self, ctx: &mut WebsocketContext<Self>) {
        let mut waiting = self.held.take().unwrap_or_default();
        while let Some(frame) = waiting.pop_front() {
            self.frame(frame, ctx);
            if let Some(later) = &mut self.held {
                later.append(&mut waiting);
            }
        }
    }

    fn fragment(&mut self, item: Fragment, ctx: &mut WebsocketContext<Self>) {
        match item {
            Fragment::FirstText(bytes) => {
                self.fragments = Some(Fragments::Text(BytesMut::from(&bytes[..])));
            }
            Fragment::FirstBinary(_) => self.fragments = Some(Fragments::Binary),
            Fragment::Continue(bytes) => self.join(&bytes),
            Fragment::Last(bytes) => {
                self.join(&bytes);
                match self.fragments.take() {
                    Some(Fragments::Text(bytes)) => match std::str::from_utf8(&bytes) {
                        Ok(text) => self.text(text, ctx),
                        Err(_) => self.bad_text(),
                    },
                    Some(Fragments::Binary) => self.refuse(Refusal::binary_frame()),
                    None => {}
                }
            }
        }
    }

    fn join(&mut self, more: &Bytes) {
        if let Some(Fragments::Text(bytes)) = &mut self.fragments {
            if bytes.len() + more.len() > LARGEST_FRAME {
                self.fragments = None;
                return self.too_big();
            }
            bytes.extend_from_slice(more);
        }
    }

    fn too_big(&self) {
        let error = "a frame may have at most 1 MiB";
        self.refuse_and_close("frame_too_large", error, Closing::TooBig);
    }

    fn bad_text(&self) {
        let error = "a text frame must be UTF-8";
        self.refuse_and_close("invalid_json", error, Closing::BadText);
    }

    fn check_signs_of_life(&mut self, ctx: &mut WebsocketContext<Self>) {
        if self.last_sign.elapsed() >= SILENCE {
            self.close(CloseCode::Other(4408), "no sign of life", ctx);
        } else if !self.closed {
            ctx.ping(b"");
        }
    }
}

impl Actor for Connection {
    type Context = WebsocketContext<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(guest) = self.guest.take() {
            let client = Client {
                connection: ctx.address(),
                frames: ctx.address().recipient(),
                router: self.door.router.clone(),
                channel: self.channel.clone(),
                owner: guest.owner,
                sender: guest.sender,
                socket: self.socket.clone(),
            };
            let undelivered = self.door.undelivered.clone();
            let serving = serve(Arc::new(client), self.socket.clone(), undelivered);
            ctx.spawn(serving.into_actor(self));
            ctx.spawn(guest.ended.into_actor(self).map(|(), connection, _| {
                connection.socket.tell(Item::Close(Closing::CredentialEnded));
            }));
        }
        ctx.run_interval(PING, Self::check_signs_of_life);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        let (channel, connection) = (self.channel.clone(), self.socket.connection());
        self.door.router.do_send(Close { channel, connection });
    }
}

/// The client of a connection, as the way out reaches it: all it does is done by the connection's actor.
struct Client {
    connection: Addr<Connection>,
    frames: Recipient<Write>,
    router: Addr<Router>,
    channel: ChannelId,
    owner: Owner,
    sender: Sender,
    socket: Arc<Socket>,
}

impl Adapter for Client {
    /// The client is there already: it is its channel that begins.
    fn connect(&self) -> BoxFuture<'static, Result<(), ConnectError>> {
        self.router.do_send(Open {
            channel: self.channel.clone(),
            owner: self.owner.clone(),
            sender: self.sender.clone(),
            socket: self.socket.clone(),
        });
        Box::pin(future::ready(Ok(())))
    }

    fn deliver(&self, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery> {
        let written = self.frames.send(Write(frame));
        Box::pin(async move {
            match written.await {
                Ok(()) => Delivery::Delivered(None),
                Err(_) => Delivery::RetryAfter(OFFERED_AGAIN),
            }
        })
    }

    fn resumed(&self, channel: Option<ChannelId>) {
        self.connection.do_send(Resumed(channel));
    }

    fn disconnect(&self, closing: Closing) -> BoxFuture<'static, ()> {
        self.connection.do_send(HangUp(closing));
        Box::pin(future::ready(()))
    }
}

/// A frame for the client.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Write(Arc<Outbound>);

impl Handler<Write> for Connection {
    type Result = ();

    fn handle(&mut self, Write(outbound): Write, ctx: &mut Self::Context) {
        if self.closed {
            return;
        }
        let scrubber = self.door.secrets.everything();
        ctx.text(scrubber.scrub_known(&outbound.text).as_ref());
    }
}

/// The client speaks for an earlier channel from now on, or still for the one that it has.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Resumed(Option<ChannelId>);

impl Handler<Resumed> for Connection {
    type Result = ();

    fn handle(&mut self, Resumed(channel): Resumed, ctx: &mut Self::Context) {
        if let Some(channel) = channel {
            self.channel = channel;
        }
        self.release_held_frames(ctx);
    }
}

/// The connection ends from our side.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct HangUp(Closing);

impl Handler<HangUp> for Connection {
    type Result = ();

    fn handle(&mut self, HangUp(closing): HangUp, ctx: &mut Self::Context) {
        let (code, reason) = match closing {
            Closing::Shutdown => (CloseCode::Away, "the service stops"),
            Closing::Slow => (CloseCode::Again, "too many frames wait"),
            Closing::CredentialEnded => (CloseCode::Other(4401), "credential ended"),
            Closing::Crowded => (CloseCode::Again, "too many connections of this channel"),
            Closing::Internal => (CloseCode::Error, "the channel cannot be read"),
            Closing::TooBig => (CloseCode::Size, "frame too large"),
            Closing::BadText => (CloseCode::Invalid, "invalid UTF-8"),
            Closing::Reconnect => (CloseCode::Restart, "connect again"),
            Closing::Denied => (CloseCode::Other(4403), "denied"),
        };
        self.close(code, reason, ctx);
    }
}

impl StreamHandler<Result<Message, ProtocolError>> for Connection {
    fn handle(&mut self, message: Result<Message, ProtocolError>, ctx: &mut Self::Context) {
        self.last_sign = Instant::now();
        if self.closed {
            // What comes behind our close frame is only read for the client's own.
            if let Ok(Message::Close(_)) | Err(_) = message {
                ctx.stop();
            }
            return;
        }
        match message {
            Ok(Message::Text(text)) => self.text(&text, ctx),
            Ok(Message::Binary(_)) => self.refuse(Refusal::binary_frame()),
            Ok(Message::Continuation(item)) => self.fragment(item, ctx),
            Ok(Message::Ping(data)) => ctx.pong(&data),
            Ok(Message::Pong(_) | Message::Nop) => {}
            Ok(Message::Close(reason)) => {
                self.closed = true;
                ctx.close(reason);
                ctx.stop();
            }
            // The one thing that this layer reports so is text that is not UTF-8.
            Err(ProtocolError::Io(error)) if error.kind() == std::io::ErrorKind::Other => {
                self.bad_text();
            }
            Err(error) => self.close(CloseCode::Protocol, &error.to_string(), ctx),
        }
    }

    /// The client sends nothing more, or nothing that is listened to. A close that we are about to
    /// send still goes out.
    fn finished(&mut self, ctx: &mut Self::Context) {
        match self.verdict.get() {
            Some(Violation::TooBig) => self.too_big(),
            Some(Violation::Protocol(what)) => self.close(CloseCode::Protocol, what, ctx),
            None => {}
        }
        ctx.run_later(CLOSE_TIMEOUT, |_, ctx| ctx.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-91: whoever sends too much while a channel is looked up hears which message was not taken.
    #[test]
    fn a_frame_that_cannot_wait_is_refused_by_its_name() {
        let message = frames::parse(r#"{"type":"message","content":"hello","message_id":"m1"}"#);
        let misspelt = frames::parse(r#"{"type":"message","content":1,"message_id":"m2"}"#);

        let refused = [message, misspelt, frames::parse("{")].map(overflowing);

        assert!(refused.iter().all(|refusal| refusal.code == "rate_limited"));
        let ids = refused.map(|refusal| refusal.message_id);
        assert_eq!(ids, [Some("m1".into()), Some("m2".into()), None]);
    }
}
