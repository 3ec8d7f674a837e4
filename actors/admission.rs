//! Admission: how the trust gate decides on a message, as rows keep it.

use serde::{Deserialize, Serialize};

use crate::{channel_type::ChannelType, ids::PrincipalId, words};

/// What was decided on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub allowed: bool,
    pub reason: Reason,
}

words! {
    /// The rule that decided.
    pub enum Reason {
        /// The operator's command line.
        CliBypass = "cli_bypass",
        /// The policy cannot be used.
        TrustConfigInvalid = "trust_config_invalid",
        /// The sender is on the list of those never let in.
        SenderDenylist = "sender_denylist",
        /// A grant lets the sender in.
        GrantTrusted = "grant_trusted",
        /// A grant keeps the sender out.
        GrantDenied = "grant_denied",
        /// The grants cannot be read.
        TrustStoreError = "trust_store_error",
        /// The sender is on the list of those let in.
        SenderAllowlist = "sender_allowlist",
        /// The policy would have to know the sender.
        SenderMissing = "sender_missing",
        /// The channel's own policy.
        ChannelOverrideAllow = "channel_override_allow",
        /// The channel's own policy.
        ChannelOverrideDeny = "channel_override_deny",
        /// The policy of the channel type.
        ChannelPolicyAllow = "channel_policy_allow",
        /// The policy of the channel type.
        ChannelPolicyDeny = "channel_policy_deny",
        /// The policy for all types.
        DefaultPolicyAllow = "default_policy_allow",
        /// The policy for all types.
        DefaultPolicyDeny = "default_policy_deny",
        /// There is no policy: the channel's own authentication decides.
        NoTrustConfig = "no_trust_config",
    }
}

impl Decision {
    /// As rows and answers name it.
    pub fn as_str(self) -> &'static str {
        if self.allowed { "allowed" } else { "denied" }
    }
}

/// How a message got past the trust gate, as its task keeps it.
///
/// A message that becomes a task has no audit row beside it: the task is stored in the same commit,
/// is never changed in this, and a second record would cost every message a twentieth of its time.
/// `router::audit` reads the row out of the task. Only denials, and what makes no task, have
/// rows of their own; whoever removes old tasks keeps their rows by writing them first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    #[serde(default, skip_serializing_if = "is_websocket")]
    pub channel_type: ChannelType,
    pub reason: Reason,
    /// Who claims that the sender wrote it, without proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asserted_by: Option<PrincipalId>,
    /// The listener that its connection came in on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
}

/// Rows of WebSockets, by far the most, do not name their type.
pub(crate) fn is_websocket(channel_type: &ChannelType) -> bool {
    *channel_type == ChannelType::Ws
}
