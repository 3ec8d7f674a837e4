//! The way out of one conversation of a plugin's channel: in order, and again until the plugin has taken it.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    channel::{
        Adopt, Detach,
        adapter::{Adapter, ConnectError, Delivery, serve},
        outbound::Outbound,
        outbox,
        records::DeliveryMark,
        socket::{Closing, Socket},
    },
    clock::{Clock, doubling, millis},
    file::{FileRef, harmless_name},
    frame::{Body, ProgressKind},
    ids::{ChannelId, MessageId},
    store::records::Writes,
};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;

use super::super::{TeamPlugin, child::RequestError, wire};
use crate::{
    system::{WallClock, sha256},
    text::{rough_size, sentence},
};

/// The first pause after a failure; each one more doubles it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The same while no child runs: one that comes again is not kept waiting for long.
const LONGEST_ABSENCE: Duration = Duration::from_secs(15);
/// The shortest pause that a plugin may ask for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// A channel that was closed from our side is opened again after this.
const REOPENED_AFTER: Duration = Duration::from_secs(1);
/// The largest file that goes along, in bytes, and all of a message together.
const LARGEST_FILE: u64 = 4 << 20;

/// The way out of one conversation.
pub(super) struct Post {
    plugin: Arc<TeamPlugin>,
    conversation: String,
    channel: ChannelId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    socket: Option<Arc<Socket>>,
    closing: Option<Closing>,
    /// What the plugin has taken.
    mark: DeliveryMark,
    failures: u32,
}

/// What a frame makes to be sent.
#[derive(Debug, PartialEq)]
struct Saying<'a> {
    kind: wire::SendKind,
    text: String,
    /// The message that it answers.
    answers: Option<&'a MessageId>,
    files: &'a [FileRef],
}

impl Post {
    pub(super) fn new(plugin: Arc<TeamPlugin>, conversation: &str) -> Self {
        Self {
            channel: plugin.channel_of(conversation),
            plugin,
            conversation: conversation.to_owned(),
            state: Mutex::default(),
        }
    }

    /// Brings the conversation what it is told, until the service stops.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let socket = Arc::new(Socket::of_network());
            self.state.lock().socket = Some(socket.clone());
            let undelivered = self.plugin.grounds.channels.channel.clone().recipient();
            serve(Arc::new(WayOut(self.clone())), socket, undelivered).await;
            self.detach();
            if self.state.lock().closing == Some(Closing::Shutdown) {
                return;
            }
            tokio::time::sleep(REOPENED_AFTER).await;
        }
    }

    /// Nothing is brought from here any more; what comes waits in the outbox.
    pub(super) fn detach(&self) {
        if let Some(socket) = self.state.lock().socket.take() {
            let (channel, connection) = (self.channel.clone(), socket.connection());
            self.plugin.grounds.channels.channel.do_send(Detach { channel, connection });
        }
    }

    async fn connect_now(self: Arc<Self>) -> Result<(), ConnectError> {
        let channel = self.channel.clone();
        let read =
            self.plugin.grounds.store.read(move |storage| DeliveryMark::read(storage, &channel));
        let mark = read.await.map_err(|error| ConnectError(error.to_string()))?;
        let mut state = self.state.lock();
        state.closing = None;
        let last_seq = mark.seq;
        state.mark = mark;
        if let Some(socket) = state.socket.clone() {
            let channel = self.channel.clone();
            let adopt = Adopt { channel, socket, last_seq };
            self.plugin.grounds.channels.channel.do_send(adopt);
        }
        Ok(())
    }

    async fn deliver_now(self: Arc<Self>, frame: Arc<Outbound>) -> Delivery {
        let Some(saying) = Saying::of(&frame.frame.body) else {
            // It costs no commit: it would be nothing again.
            let mut state = self.state.lock();
            state.mark.seq = state.mark.seq.max(frame.seq);
            return Delivery::Delivered(None);
        };
        if frame.frame.ts + outbox::MOST_AGE < WallClock.now() {
            self.pass(frame.seq).await;
            return Delivery::Undeliverable("the plugin did not take it for a day".to_owned());
        }
        let lease = match self.plugin.lease().await {
            Ok(lease) => lease,
            Err(_) => return Delivery::RetryAfter(self.pause(LONGEST_ABSENCE)),
        };
        let send = self.send(&frame, &saying).await;
        let limit = Duration::from_millis(send.deadline_ms);
        let sent = lease.child.request::<wire::Sent>(wire::CHANNEL_SEND, &send, limit).await;
        drop(lease);
        match sent {
            Ok(wire::Sent::Delivered { native_id }) => {
                self.pass(frame.seq).await;
                Delivery::Delivered(native_id)
            }
            Ok(wire::Sent::Undeliverable { reason }) => {
                self.pass(frame.seq).await;
                Delivery::Undeliverable(self.plugin.clean(&reason))
            }
            Ok(wire::Sent::Retry { after_ms }) => {
                let pause = Duration::from_millis(after_ms);
                Delivery::RetryAfter(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
            }
            // How it ended is told of the child.
            Err(RequestError::Gone) => Delivery::RetryAfter(self.pause(LONGEST_ABSENCE)),
            Err(error) => {
                self.plugin.fail(&format!("`{}`: {error}", wire::CHANNEL_SEND));
                Delivery::RetryAfter(self.pause(LONGEST_PAUSE))
            }
        }
    }

    async fn send<'a>(&'a self, frame: &'a Outbound, saying: &'a Saying<'a>) -> wire::Outgoing<'a> {
        let (attachments, apologies) = self.attachments(saying.files).await;
        let mut lines = vec![saying.text.clone()];
        lines.retain(|text| !text.is_empty());
        lines.extend(apologies);
        let content =
            self.plugin.grounds.scrubbers.everything().scrub_known(&lines.join("\n")).into_owned();
        let limit = self.plugin.package().map(|package| package.manifest.limits.call_timeout.0);
        wire::Outgoing {
            delivery_id: delivery_id(&self.channel, frame.seq),
            recipient: &self.conversation,
            content,
            attachments,
            topic: frame.frame.topic.as_ref().map(|topic| topic.name.as_str()),
            kind: saying.kind,
            reply_to: saying.answers.map(MessageId::as_str),
            deadline_ms: millis(limit.unwrap_or(FIRST_PAUSE)),
        }
    }

    /// Files that go along, and what is said in the place of those that cannot.
    async fn attachments(&self, files: &[FileRef]) -> (Vec<wire::Attachment>, Vec<String>) {
        let (mut read, mut apologies, mut left) = (Vec::new(), Vec::new(), LARGEST_FILE);
        for file in files {
            let name =
                self.plugin.grounds.scrubbers.everything().scrub_known(&file.name).into_owned();
            let name = harmless_name(&name);
            let bytes = if file.size > left { None } else { self.content(file).await };
            match bytes {
                Some(bytes) => {
                    left -= file.size;
                    let data_base64 = BASE64_STANDARD.encode(bytes);
                    read.push(wire::Attachment {
                        name,
                        mime: file.mime.clone(),
                        size: file.size,
                        data_base64,
                    });
                }
                None => apologies.push(format!(
                    "`{name}` ({}) does not come along. It is in the conversation on the web page.",
                    rough_size(file.size)
                )),
            }
        }
        (read, apologies)
    }

    /// Never more than it was when it was taken in.
    async fn content(&self, file: &FileRef) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let opened = self.plugin.grounds.channels.files.content(file).await;
        let read = match opened {
            Ok(opened) => opened
                .take(file.size)
                .read_to_end(&mut bytes)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = &read {
            tracing::warn!(channel = %self.channel, file = %file.id, error, "a file cannot be read, and is not sent");
        }
        read.ok().map(|_| bytes)
    }

    /// A frame is done with: it is not sent again.
    async fn pass(&self, seq: u64) {
        let mark = {
            let mut state = self.state.lock();
            state.failures = 0;
            state.mark.seq = state.mark.seq.max(seq);
            state.mark.clone()
        };
        let stored =
            self.plugin.grounds.store.commit(Writes::new().put_at(&self.channel, &mark)).await;
        if let Err(error) = stored {
            tracing::error!(channel = %self.channel, %error, "what a plugin has sent cannot be noted; after a restart it may be sent again");
        }
    }

    /// How long a message waits that could not be sent.
    fn pause(&self, longest: Duration) -> Duration {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        doubling(FIRST_PAUSE, longest, state.failures - 1)
    }
}

impl<'a> Saying<'a> {
    /// What a frame says to the person. Signs of life are left out.
    fn of(body: &'a Body) -> Option<Self> {
        match body {
            Body::Ack(_) | Body::TopicList { .. } => None,
            Body::Progress(progress) if progress.gap.is_some() => Some(Self {
                kind: wire::SendKind::Notification,
                text: progress.content.clone(),
                answers: None,
                files: &[],
            }),
            // What a team gives to the person while it works.
            Body::Progress(progress) => {
                let is_given =
                    progress.kind == ProgressKind::ToolResult && !progress.files.is_empty();
                is_given.then_some(Self {
                    kind: wire::SendKind::Notification,
                    text: String::new(),
                    answers: progress.message_id.as_ref(),
                    files: &progress.files,
                })
            }
            Body::Response(response) => {
                let text = match (response.content.trim(), response.status.as_str()) {
                    ("", "cancelled") => "Stopped.".to_owned(),
                    ("", _) => return None,
                    (text, _) => text.to_owned(),
                };
                let answers = Some(&response.message_id);
                Some(Self { kind: wire::SendKind::Response, text, answers, files: &[] })
            }
            Body::Error(error) => {
                let reason = sentence(&error.error);
                let text = match error.content.as_deref().unwrap_or_default().trim() {
                    "" => reason,
                    so_far => format!("{so_far}\n\n{reason}"),
                };
                let answers = error.message_id.as_ref();
                Some(Self { kind: wire::SendKind::Error, text, answers, files: &[] })
            }
            Body::Notification(notification) => Some(Self {
                kind: wire::SendKind::Notification,
                text: notification.content.clone(),
                answers: None,
                files: &notification.files,
            }),
        }
    }
}

/// Tells one frame from all others, over restarts.
fn delivery_id(channel: &ChannelId, seq: u64) -> String {
    let mut id = sha256(format!("{channel}\n{seq}").as_bytes());
    id.truncate(32);
    id
}

/// The way out as [`serve`] knows it.
struct WayOut(Arc<Post>);

impl Adapter for WayOut {
    fn connect(&self) -> BoxFuture<'static, Result<(), ConnectError>> {
        self.0.clone().connect_now().boxed()
    }

    fn deliver(&self, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery> {
        self.0.clone().deliver_now(frame).boxed()
    }

    fn resumed(&self, _: Option<ChannelId>) {}

    fn disconnect(&self, closing: Closing) -> BoxFuture<'static, ()> {
        self.0.state.lock().closing = Some(closing);
        std::future::ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use hivewright_actors::frame::{Ack, ErrorBody, Progress, Response};

    use super::*;

    /// CH-15: an answer and an error always go out, signs of life never.
    #[test]
    fn what_must_arrive_is_sent_and_nothing_else() {
        let response = |content: &str, status: &str| {
            Body::Response(Response {
                content: content.to_owned(),
                message_id: "m".into(),
                task_id: None,
                status: status.to_owned(),
                joined_task_id: None,
                truncated: false,
                usage: None,
            })
        };
        let text = |body: &Body| Saying::of(body).map(|saying| saying.text);

        assert_eq!(text(&response("Yes.", "done")).as_deref(), Some("Yes."));
        assert_eq!(text(&response("", "cancelled")).as_deref(), Some("Stopped."));
        assert_eq!(text(&response(" ", "done")), None);
        let error =
            ErrorBody { content: Some("So far".to_owned()), ..ErrorBody::refusal("x", "it broke") };
        assert_eq!(text(&Body::Error(error)).as_deref(), Some("So far\n\nIt broke."));
        assert_eq!(text(&Body::Ack(Ack::new("Working.", "m".into()))), None);
        assert_eq!(text(&Body::Progress(Progress::new(ProgressKind::Note, "tries again"))), None);
    }

    #[test]
    fn a_delivery_has_one_name_for_good() {
        let name = delivery_id(&"plugin.echo:main~1:ann".into(), 7);

        assert_eq!(name, delivery_id(&"plugin.echo:main~1:ann".into(), 7));
        assert_ne!(name, delivery_id(&"plugin.echo:main~1:ann".into(), 8));
        assert_ne!(name, delivery_id(&"plugin.echo:main~1:bob".into(), 7));
    }
}
