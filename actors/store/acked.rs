//! Acked: the record of a frame that also holds the ack which became durable with it.
//!
//! A short answer has both in one commit. One record costs the disk half of two, and a reader that
//! does not know of this still finds the answer.

use serde::Deserialize;

use super::{Numbered, reads::StoredFrame, records};
use crate::{
    clock::Timestamp,
    event::{Body, Frame},
    storage::{Batch, StorageError},
    task::TopicRef,
};

/// A frame as it is stored.
#[derive(Deserialize)]
struct Row {
    /// What stands directly before it in its channel.
    #[serde(default)]
    before: Vec<Frame>,
    topic: Option<TopicRef>,
    ts: Timestamp,
    body: Body,
}

/// Adds a frame to a batch; one that stands directly behind an ack of the same commit takes that in.
pub(super) fn put(batch: &mut Batch, last: Option<&Numbered>, frame: &Numbered, value: Vec<u8>) {
    let key = records::outbox_key(&frame.channel, frame.ordinal);
    let ack = last.filter(|last| {
        matches!(last.frame.body, Body::Ack(_))
            && last.channel == frame.channel
            && last.ordinal + 1 == frame.ordinal
    });
    let ack = ack.and_then(|ack| {
        let key = records::outbox_key(&ack.channel, ack.ordinal);
        let own = batch.changes.pop_if(|(last, value)| *last == key && value.is_some());
        own.and_then(|(_, value)| value)
    });
    let value = match ack {
        Some(ack) => behind(&ack, &value),
        None => value,
    };
    batch.changes.push((key, Some(value)));
}

/// Both are JSON objects.
fn behind(ack: &[u8], frame: &[u8]) -> Vec<u8> {
    let rest = frame.strip_prefix(b"{").unwrap_or(frame);
    [b"{\"before\":[", ack, b"],", rest].concat()
}

/// The frames of a record, oldest first.
pub(super) fn frames(
    key: &[u8],
    value: &[u8],
) -> Result<impl Iterator<Item = StoredFrame> + use<>, StorageError> {
    let Row { before, topic, ts, body } = records::decode(key, value)?;
    let newest = records::number_at_end(key).unwrap_or_default();
    let count = before.len() as u64 + 1;
    let bytes = value.len() / (before.len() + 1);
    let frames = before.into_iter().chain([Frame { topic, ts, body }]);
    let ordinals = (newest + 1).saturating_sub(count)..;
    Ok(ordinals.zip(frames).map(move |(ordinal, frame)| StoredFrame { ordinal, bytes, frame }))
}
