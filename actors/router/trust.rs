//! Trust rules: who is let in. The first rule that matches decides, and says why.

use std::collections::{HashMap, HashSet};

use super::grants::{Grants, Level, Origin};
use crate::{
    admission::{Decision, Reason},
    channel_type::ChannelType,
    ids::ChannelId,
    task::Label,
    words,
};

#[cfg(test)]
mod tests;

/// Who writes when nobody says who does. Where the policy is to deny, this is nobody.
pub const NOBODY: &str = "ws-client";

words! {
    /// What a policy says of those that no list names.
    #[derive(Default)]
    pub enum Stance {
        /// They are let in.
        Allow = "allow",
        /// They are not.
        #[default]
        Deny = "deny",
    }
}

/// The operator's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None is given: whoever is authenticated is let in.
    #[default]
    None,
    /// One is given that cannot be used: only the operator's command line is let in.
    Unusable,
    Given(Trust),
}

/// A policy that can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Where a channel type has no policy of its own.
    pub default_policy: Stance,
    pub channels: HashMap<ChannelType, TypeTrust>,
}

/// The policy for one channel type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeTrust {
    /// For those that nothing below names.
    pub policy: Option<Stance>,
    /// Let in, whatever the policies say.
    pub sender_allowlist: HashSet<String>,
    pub sender_denylist: HashSet<String>,
    pub channel_overrides: HashMap<ChannelId, Stance>,
}

impl Decision {
    fn allow(reason: Reason) -> Self {
        Self { allowed: true, reason }
    }

    fn deny(reason: Reason) -> Self {
        Self { allowed: false, reason }
    }

    /// The sender gets no word of it: whoever is kept out by name learns nothing.
    pub fn is_silent(self) -> bool {
        matches!(self.reason, Reason::SenderDenylist | Reason::GrantDenied)
    }

    /// How far a message that was let in may be believed.
    ///
    /// Known are those whom someone named: the operator, whoever stands on a list or has a grant.
    /// Without a policy it is whoever is authenticated, but not a sender who is only claimed.
    pub fn label(self, is_operator: bool, is_claimed: bool) -> Label {
        let known = match self.reason {
            Reason::CliBypass | Reason::GrantTrusted | Reason::SenderAllowlist => true,
            Reason::NoTrustConfig => !is_claimed,
            _ => is_operator,
        };
        if self.allowed && known { Label::Trusted } else { Label::Untrusted }
    }
}

/// Decides on a message before anything is done with it.
pub fn decide(policy: &Policy, grants: &Grants, origin: Origin<'_>) -> Decision {
    if *origin.channel_type == ChannelType::Cli {
        return Decision::allow(Reason::CliBypass);
    }
    let trust = match policy {
        Policy::Unusable => return Decision::deny(Reason::TrustConfigInvalid),
        Policy::None => None,
        Policy::Given(trust) => Some(trust),
    };
    let of_type = trust.and_then(|trust| trust.channels.get(origin.channel_type));
    if of_type.is_some_and(|of_type| of_type.sender_denylist.contains(origin.sender)) {
        return Decision::deny(Reason::SenderDenylist);
    }
    match grants.level(origin) {
        Ok(Some(Level::Trusted)) => return Decision::allow(Reason::GrantTrusted),
        Ok(Some(Level::Denied)) => return Decision::deny(Reason::GrantDenied),
        Err(_) => return Decision::deny(Reason::TrustStoreError),
        Ok(None) => {}
    }
    if of_type.is_some_and(|of_type| of_type.sender_allowlist.contains(origin.sender)) {
        return Decision::allow(Reason::SenderAllowlist);
    }
    let Some(trust) = trust else {
        return Decision {
            allowed: origin.channel_type.is_authenticated(),
            reason: Reason::NoTrustConfig,
        };
    };
    by_policy(trust, of_type, origin)
}

/// Nobody named the sender: the policy nearest to the channel decides.
fn by_policy(trust: &Trust, of_type: Option<&TypeTrust>, origin: Origin<'_>) -> Decision {
    let of_channel = of_type.and_then(|of_type| of_type.channel_overrides.get(origin.channel));
    let of_type = of_type.and_then(|of_type| of_type.policy);
    let (stance, allow, deny) = match (of_channel, of_type) {
        (Some(stance), _) => (*stance, Reason::ChannelOverrideAllow, Reason::ChannelOverrideDeny),
        (None, Some(stance)) => (stance, Reason::ChannelPolicyAllow, Reason::ChannelPolicyDeny),
        (None, None) => {
            (trust.default_policy, Reason::DefaultPolicyAllow, Reason::DefaultPolicyDeny)
        }
    };
    match stance {
        Stance::Allow => Decision::allow(allow),
        Stance::Deny if origin.sender == NOBODY => Decision::deny(Reason::SenderMissing),
        Stance::Deny => Decision::deny(deny),
    }
}
