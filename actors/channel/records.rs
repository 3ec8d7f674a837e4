//! Records of channels: who may use them, and the frames of their outboxes.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    admission::is_websocket,
    channel_type::ChannelType,
    clock::Timestamp,
    conversation_log::ConversationEntry,
    excerpt,
    frame::{Body, Frame, Notification},
    identities,
    ids::{ChannelId, GrantId, MAIN, PrincipalId, TaskId, TopicId},
    interactions::Interaction,
    live::event::{Data, Event, Kind, SAID, Said},
    storage::{Order, Storage, StorageError},
    store::{
        keys::prefix_of,
        log,
        reads::{Range, get, parse, report},
        records::{Append, Record, Writes, decode, digest, digest_on},
        redact::{Owner, Texts},
    },
    task::{Label, TopicRef},
};

pub const TEXTS: &[Texts] = &[Texts::of(
    OutboxRow::KIND,
    Owner::Main,
    &[
        "body/content",
        "body/preview",
        "body/error",
        "body/details",
        "before/*/body/content",
        "body/files/*/name",
    ],
)
.named(&["topic/name", "before/*/topic/name"])];

crate::records! {
    ChannelRow: "chan", ChannelId;
    DeliveryMark: "deliv", ChannelId;
    OutboxRow: "out", (ChannelId, u64);
}

/// A channel that has been used, and who may use it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRow {
    pub principal: PrincipalId,
    /// What they were let in by. Rows of former versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// When it was last connected, as far as that is known.
    pub last_seen: Timestamp,
    #[serde(default, skip_serializing_if = "is_websocket")]
    pub channel_type: ChannelType,
    /// The next message opens a topic, whatever it is about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_anew: bool,
    /// In which topic that was wanted, if in one: what is said in another belongs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_anew_in: Option<String>,
}

impl ChannelRow {
    pub fn new(owner: identities::Owner, now: Timestamp, channel_type: ChannelType) -> Self {
        Self {
            principal: owner.principal,
            grant: Some(owner.grant),
            last_seen: now,
            channel_type,
            begins_anew: false,
            begins_anew_in: None,
        }
    }

    /// They may use it again. A row that knows a name only is theirs if the name was when the channel
    /// was last seen.
    pub fn belongs_to(&self, owner: &identities::Owner) -> bool {
        match &self.grant {
            Some(grant) => *grant == owner.grant,
            None => self.principal == owner.principal && owner.since <= self.last_seen,
        }
    }
}

/// How much of what a channel was told its chat network has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryMark {
    /// All frames up to this number.
    pub seq: u64,
    /// Of a later frame: its number, and how many of its parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partly: Option<(u64, usize)>,
    /// What turns that have not ended said so far.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<TaskId, SaidText>,
}

impl DeliveryMark {
    /// How much the chat network of a channel has. Of a mark that is damaged everything counts as sent: a day's answers
    /// once more would be worse than one that is missing.
    pub fn read(storage: &dyn Storage, id: &ChannelId) -> Result<Self, StorageError> {
        match get::<Self>(storage, id) {
            Err(error @ StorageError::Damaged { .. }) => {
                tracing::error!(channel = %id, %error, "how much was posted to a chat network cannot be read; all counts as posted");
                let seq = super::outbox::seq(newest_ordinal(storage, id)?);
                Ok(Self { seq, ..Self::default() })
            }
            mark => Ok(mark?.unwrap_or_default()),
        }
    }
}

/// A text that is with the person already, which the rest of it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidText {
    pub bytes: usize,
    /// Tells it from another of that length.
    pub digest: u64,
}

impl SaidText {
    /// A text that was sent.
    pub fn of(text: &str) -> Self {
        Self { bytes: text.len(), digest: digest(text) }
    }

    /// The same with more behind it.
    pub fn and(self, more: &str) -> Self {
        Self { bytes: self.bytes + more.len(), digest: digest_on(self.digest, more) }
    }

    /// What of a longer text is still to be sent, if it begins with this one.
    pub fn rest_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (said, rest) = text.split_at_checked(self.bytes)?;
        (Self::of(said) == *self).then_some(rest)
    }
}

/// A frame as it is stored, with the ack that became durable with it: a short answer has both in one commit.
#[derive(Deserialize)]
pub(crate) struct OutboxRow {
    /// What stands directly before it in its channel.
    #[serde(default)]
    before: Vec<Frame>,
    topic: Option<TopicRef>,
    ts: Timestamp,
    body: Body,
}

impl OutboxRow {
    pub(crate) fn is_of(&self, topic: &TopicId) -> bool {
        let topics = self.before.iter().map(|frame| &frame.topic).chain([&self.topic]);
        topics.flatten().any(|of| of.id == *topic)
    }
}

/// Frames in a commit.
pub trait OutboxWrites {
    /// A frame for a channel's outbox. The store numbers it.
    fn frame(self, channel: &ChannelId, frame: Frame) -> Self;

    /// A notification: its frame, and its row of the interaction log.
    fn told(
        self,
        channel: &ChannelId,
        topic: Option<TopicRef>,
        label: Label,
        now: Timestamp,
        told: Notification,
    ) -> Self;

    fn drop_frames(self, channel: &ChannelId, ordinals: impl IntoIterator<Item = u64>) -> Self;

    /// The channel is gone for good, with all keys that a sweep found.
    fn forget_channel(self, channel: &ChannelId) -> Self;
}

impl OutboxWrites for Writes {
    fn frame(self, channel: &ChannelId, frame: Frame) -> Self {
        let told = told(channel, &frame);
        let writes = match ConversationEntry::of_frame(channel, &frame) {
            Some((key, entry)) => self.put_at(&key, &entry),
            None => self,
        };
        writes.tell_all(told).append(Append {
            log: outbox_of(channel),
            channel: channel.clone(),
            joins_next: matches!(frame.body, Body::Ack(_)),
            frame: Arc::new(frame),
        })
    }

    fn told(
        self,
        channel: &ChannelId,
        topic: Option<TopicRef>,
        label: Label,
        now: Timestamp,
        told: Notification,
    ) -> Self {
        let topic_id = topic.as_ref().map(|topic| topic.id.clone());
        let row = Interaction::told(channel, topic_id, label, now, &told);
        let of = told.task_id.as_ref().map_or(told.team.as_str(), TaskId::as_str);
        let key = row.key_named(&format!("{of}:{:?}", told.kind));
        let frame = Frame { topic, ts: now, body: Body::Notification(told) };
        self.put_at(&key, &row).frame(channel, frame)
    }

    fn drop_frames(self, channel: &ChannelId, ordinals: impl IntoIterator<Item = u64>) -> Self {
        ordinals
            .into_iter()
            .fold(self, |writes, ordinal| writes.delete::<OutboxRow>(&(channel, ordinal)))
    }

    fn forget_channel(self, channel: &ChannelId) -> Self {
        self.forget_log(outbox_of(channel))
    }
}

/// What the keys of a channel's outbox begin with.
fn outbox_of(channel: &ChannelId) -> Vec<u8> {
    prefix_of(OutboxRow::KIND, channel)
}

/// A stored frame with its ordinal and its size.
#[derive(Clone, Debug)]
pub struct StoredFrame {
    /// Its place among the channel's durable frames.
    pub ordinal: u64,
    pub bytes: usize,
    pub frame: Frame,
}

/// All that a channel's outbox holds, oldest first.
pub fn outbox(storage: &dyn Storage, id: &ChannelId) -> Result<Vec<StoredFrame>, StorageError> {
    let mut frames = Vec::new();
    Range::<OutboxRow>::under(&(id,)).visit(storage, Order::Rising, &mut |key, value| {
        match value.and_then(|value| stored_frames(key, value)) {
            Ok(stored) => frames.extend(stored),
            Err(error) => report(storage, key, &error),
        }
        ControlFlow::Continue(())
    })?;
    Ok(frames)
}

/// The frames of a record, oldest first.
pub(super) fn stored_frames(
    key: &[u8],
    value: &[u8],
) -> Result<impl Iterator<Item = StoredFrame> + use<>, StorageError> {
    let OutboxRow { before, topic, ts, body } = decode(key, value)?;
    let newest = parse::<OutboxRow>(key).map_or(0, |(_, ordinal)| ordinal);
    let count = before.len() as u64 + 1;
    let bytes = value.len() / (before.len() + 1);
    let frames = before.into_iter().chain([Frame { topic, ts, body }]);
    let ordinals = (newest + 1).saturating_sub(count)..;
    Ok(ordinals.zip(frames).map(move |(ordinal, frame)| StoredFrame { ordinal, bytes, frame }))
}

/// The newest ordinal of a channel's outbox; 0 if it never had one.
pub fn newest_ordinal(storage: &dyn Storage, id: &ChannelId) -> Result<u64, StorageError> {
    log::newest(storage, &outbox_of(id))
}

/// Those of some frames of a channel's outbox that are there, and that no chat network has.
pub fn unsent(
    storage: &dyn Storage,
    id: &ChannelId,
    ordinals: &[u64],
) -> Result<Vec<Frame>, StorageError> {
    let sent = newest_delivered(storage, id)?;
    let stored = outbox(storage, id)?.into_iter();
    let wanted =
        stored.filter(|stored| stored.ordinal > sent && ordinals.contains(&stored.ordinal));
    Ok(wanted.map(|stored| stored.frame).collect())
}

/// The newest ordinal that a chat network has with all before it; 0 for channels of clients.
pub fn newest_delivered(storage: &dyn Storage, id: &ChannelId) -> Result<u64, StorageError> {
    let mark = get::<DeliveryMark>(storage, id)?;
    Ok(mark.map_or(0, |mark| super::outbox::ordinal(mark.seq)))
}

/// What a frame says to a person, if it is an end of something.
fn told(channel: &ChannelId, frame: &Frame) -> Option<Event> {
    let (kind, text, from, task, message) = match &frame.body {
        Body::Response(body) => {
            ("response", &body.content, None, body.task_id.as_ref(), Some(&body.message_id))
        }
        Body::Notification(body) => {
            ("notification", &body.content, Some(&body.team), body.task_id.as_ref(), None)
        }
        Body::Error(body) => {
            ("error", &body.error, None, Some(body.task_id.as_ref()?), body.message_id.as_ref())
        }
        Body::Ack(_) | Body::Progress(_) | Body::TopicList { .. } => return None,
    };
    // Answers come from the team that people talk to.
    let team = from.cloned().unwrap_or_else(|| MAIN.into());
    let said = Said {
        direction: "outbound",
        channel_id: channel.clone(),
        message_id: message.cloned(),
        from: team.to_string(),
        kind,
        text: excerpt::line(text, SAID),
        length: text.len(),
    };
    Some(Event {
        kind: Kind::Message,
        team: Some(team),
        topic: frame.topic.as_ref().map(|topic| topic.id.clone()),
        task: task.cloned(),
        data: Data::Message(Box::new(said)),
    })
}

#[cfg(test)]
mod tests;
