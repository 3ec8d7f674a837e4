//! Sender: who writes on a channel.

use crate::{
    channel_type::ChannelType,
    ids::PrincipalId,
    task::{Label, cause::Cause},
};

/// Who writes on a channel, as its adapter knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    pub channel_type: ChannelType,
    pub id: String,
    /// Who claims that it is them, without proof.
    pub asserted_by: Option<PrincipalId>,
    /// The listener that their connection came in on: its address, or `unix`. None for a chat network.
    pub listener: Option<String>,
    /// It is an operator, and nobody's claim.
    pub is_operator: bool,
    /// Their credential lets them decide for others, and nobody claims it for them.
    pub may_approve: bool,
}

impl Sender {
    /// A principal that speaks for itself.
    pub fn of(principal: &PrincipalId, channel_type: ChannelType) -> Self {
        Self {
            channel_type,
            id: principal.to_string(),
            asserted_by: None,
            listener: None,
            is_operator: false,
            may_approve: false,
        }
    }

    /// The key of what the sender may still send.
    pub(super) fn key(&self) -> (ChannelType, String) {
        (self.channel_type.clone(), self.id.clone())
    }

    pub(super) fn cause(&self, label: Label, linked: Option<PrincipalId>) -> Cause {
        if self.is_operator {
            return Cause::Operator { name: self.id.clone() };
        }
        let principal = self.asserted_by.clone().or(linked);
        Cause::Sender {
            channel_type: self.channel_type.to_string(),
            id: self.id.clone(),
            guest: label == Label::Untrusted,
            principal: principal.map(|principal| principal.to_string()),
        }
    }
}
