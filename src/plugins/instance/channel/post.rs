//! The way out of one conversation of a plugin's channel: in order, and again until the plugin has taken it.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    channel::{
        adapter::Delivery,
        network::{Cursor, Network},
        outbound::Outbound,
        outbox,
        records::DeliveryMark,
    },
    clock::{Clock, millis},
    file::{FileRef, harmless_name},
    frame::{Body, ProgressKind},
    ids::{ChannelId, MessageId},
};

use super::super::{
    TeamPlugin,
    wire::{self, RequestError},
};
use crate::{
    files::FileError,
    system::{WallClock, sha256},
    text::{self, rough_size},
};

/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The same while no child runs: one that comes again is not kept waiting for long.
const LONGEST_ABSENCE: Duration = Duration::from_secs(15);
/// The shortest pause that a plugin may ask for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// How long a plugin has to answer whose package is gone.
const NO_PACKAGE: Duration = Duration::from_secs(1);
/// The largest file that goes along, in bytes, and all of a message together.
const LARGEST_FILE: u64 = 4 << 20;

/// The way out of one conversation.
pub(super) struct Post {
    plugin: Arc<TeamPlugin>,
    conversation: String,
    cursor: Cursor,
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
        let (store, hub) = (plugin.grounds.store.clone(), plugin.grounds.channels.channel.clone());
        Self {
            cursor: Cursor::new(plugin.channel_of(conversation), store, hub),
            plugin,
            conversation: conversation.to_owned(),
        }
    }

    async fn deliver(&self, frame: &Outbound) -> Delivery {
        let Some(saying) = Saying::of(&frame.frame.body) else {
            let mark = self.cursor.mark();
            self.cursor.set(DeliveryMark { seq: mark.seq.max(frame.seq), ..mark });
            return Delivery::Delivered(None);
        };
        if frame.frame.ts + outbox::MOST_AGE < WallClock.now() {
            self.cursor.pass(frame.seq).await;
            return Delivery::Undeliverable("the plugin did not take it for a day".to_owned());
        }
        let lease = match self.plugin.lease().await {
            Ok(lease) => lease,
            Err(_) => return Delivery::RetryAfter(self.cursor.pause(LONGEST_ABSENCE)),
        };
        let send = self.send(frame, &saying).await;
        let limit = Duration::from_millis(send.deadline_ms);
        let sent = lease.child.request::<wire::Sent>(wire::CHANNEL_SEND, &send, limit).await;
        drop(lease);
        match sent {
            Ok(wire::Sent::Delivered { native_id }) => {
                self.cursor.pass(frame.seq).await;
                Delivery::Delivered(native_id)
            }
            Ok(wire::Sent::Undeliverable { reason }) => {
                self.cursor.pass(frame.seq).await;
                Delivery::Undeliverable(self.plugin.clean(&reason))
            }
            Ok(wire::Sent::Retry { after_ms }) => {
                let pause = Duration::from_millis(after_ms);
                Delivery::RetryAfter(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
            }
            // How it ended is told of the child.
            Err(RequestError::Gone) => Delivery::RetryAfter(self.cursor.pause(LONGEST_ABSENCE)),
            Err(error) => {
                self.plugin.fail(&format!("`{}`: {error}", wire::CHANNEL_SEND));
                Delivery::RetryAfter(self.cursor.pause(LONGEST_PAUSE))
            }
        }
    }

    async fn send<'a>(&'a self, frame: &'a Outbound, saying: &'a Saying<'a>) -> wire::Outgoing<'a> {
        let (attachments, apologies) = self.attachments(saying.files).await;
        let mut lines = vec![saying.text.clone()];
        lines.retain(|text| !text.is_empty());
        lines.extend(apologies);
        let content = self.plugin.scrub_known(&lines.join("\n"));
        let package = self.plugin.package();
        let limit = package.map_or(NO_PACKAGE, |package| package.manifest.limits.call_timeout.0);
        wire::Outgoing {
            delivery_id: delivery_id(self.cursor.channel(), frame.seq),
            recipient: &self.conversation,
            content,
            attachments,
            topic: frame.frame.topic.as_ref().map(|topic| topic.name.as_str()),
            kind: saying.kind,
            reply_to: saying.answers.map(MessageId::as_str),
            deadline_ms: millis(limit),
        }
    }

    /// Files that go along, and what is said in the place of those that cannot.
    async fn attachments(&self, files: &[FileRef]) -> (Vec<wire::Attachment>, Vec<String>) {
        let (mut read, mut apologies, mut left) = (Vec::new(), Vec::new(), LARGEST_FILE);
        for file in files {
            let name = harmless_name(&self.plugin.scrub_known(&file.name));
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

    async fn content(&self, file: &FileRef) -> Option<Vec<u8>> {
        let read = self.plugin.grounds.channels.files.bytes(file).await;
        let failed = |error: &FileError| {
            tracing::warn!(channel = %self.cursor.channel(), file = %file.id, %error, "a file cannot be read, and is not sent");
        };
        read.inspect_err(failed).ok()
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
                let text = text::ending(&response.content, &response.status)?;
                let answers = Some(&response.message_id);
                Some(Self { kind: wire::SendKind::Response, text, answers, files: &[] })
            }
            Body::Error(error) => {
                let so_far = error.content.as_deref().unwrap_or_default();
                let text = text::failure(so_far, &error.error);
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

impl Network for Post {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn post(self: Arc<Self>, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery> {
        async move { self.deliver(&frame).await }.boxed()
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
