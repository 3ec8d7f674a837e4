//! Port: which principal a sender of a channel is, where an operator said so.
#![warn(missing_docs)]

use crate::{
    channel_type::ChannelType,
    clock::Timestamp,
    ids::{GrantId, PrincipalId},
};

/// Whose a channel is: of whoever holds one token, not of whoever is given its name later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Who, by name.
    pub principal: PrincipalId,
    /// What they are let in by. All tokens of the operator are one.
    pub grant: GrantId,
    /// Since when the name is theirs.
    pub since: Timestamp,
}

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
