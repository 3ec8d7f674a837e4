//! Outbound frames: what is stored or passes, with its number and in the form of our own wire.

use std::sync::Arc;

use crate::{
    frame::{Frame, WireFrame},
    ids::ChannelId,
};

/// A frame with its number, for one channel.
#[derive(Debug, PartialEq)]
pub struct Outbound {
    pub channel: ChannelId,
    pub seq: u64,
    pub frame: Arc<Frame>,
    /// The same for clients that read our own wire format.
    pub text: String,
}

impl Outbound {
    pub fn new(channel: &ChannelId, seq: u64, frame: Arc<Frame>) -> Self {
        let topic = frame.topic.as_ref();
        let wire = WireFrame {
            body: &frame.body,
            topic_id: topic.map(|topic| &topic.id),
            topic_name: topic.map(|topic| topic.name.as_str()),
            channel_id: channel,
            seq,
            ts: frame.ts,
        };
        let text = serde_json::to_string(&wire).unwrap_or_default();
        Self { channel: channel.clone(), seq, frame, text }
    }
}
