//! Envelopes: what stands on a message beside its words, and where it becomes work.

use crate::{
    ids::{ChannelId, MessageId, TeamKey},
    task::TopicRef,
};

/// What stands on a message beside its words and its topic.
pub(super) struct Envelope {
    /// Its sender's name for it.
    pub(super) id: Option<MessageId>,
    /// Another channel that hears of the work.
    pub(super) notify: Option<ChannelId>,
    /// Whose it is; none is the main team.
    pub(super) team: Option<TeamKey>,
}

/// Where a message becomes work.
pub(super) enum Destination {
    /// In a topic of the main team.
    Topic(TopicRef),
    /// In the one lane of another team.
    Team(TeamKey),
}
