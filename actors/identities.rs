//! Port: which principal a sender of a channel is, where an operator said so.

use crate::{channel_type::ChannelType, ids::PrincipalId};

/// A principal that a sender was linked to. No link gives more than these two rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Who.
    pub principal: PrincipalId,
    /// May talk to teams.
    pub chat: bool,
    /// May decide on approvals and answer questions.
    pub approve: bool,
}

/// The links between senders and principals, as they are now.
pub trait Identities: Send + Sync + 'static {
    /// Whom a sender was linked to, while the link and the principal's token are good. Never
    /// blocks.
    fn linked(&self, channel_type: &ChannelType, sender: &str) -> Option<Linked>;
}
