//! The rules against a table that states them one by one.

use proptest::prelude::*;

use super::{
    super::grants::{Grantee, SenderGrant},
    *,
};
use crate::clock::Timestamp;

const TYPES: [ChannelType; 4] =
    [ChannelType::Ws, ChannelType::Discord, ChannelType::Cli, ChannelType::Api];
const SENDERS: [&str; 3] = ["ann", "bob", NOBODY];
const CHANNELS: [&str; 2] = ["here", "there"];

/// All that a decision may depend on, chosen freely.
#[derive(Clone, Debug)]
struct Case {
    policy: Policy,
    grants: Vec<(Grantee, Option<Level>)>,
    unreadable: bool,
    channel_type: ChannelType,
    channel: ChannelId,
    sender: &'static str,
}

impl Case {
    fn book(&self) -> Grants {
        if self.unreadable {
            return Grants::unreadable();
        }
        let mut book = Grants::default();
        for (grantee, level) in &self.grants {
            match level {
                Some(level) => book.put(SenderGrant {
                    id: "grant".to_owned(),
                    grantee: grantee.clone(),
                    level: *level,
                    granted_by: "operator".to_owned(),
                    at: Timestamp(0),
                }),
                None => book.put_damaged(grantee.clone()),
            }
        }
        book
    }

    fn decide(&self) -> Decision {
        let origin = Origin {
            channel_type: &self.channel_type,
            channel: &self.channel,
            sender: self.sender,
        };
        decide(&self.policy, &self.book(), origin)
    }

    /// The last grant that was given for this sender, in this channel or in all.
    fn grant(&self, channel: Option<&ChannelId>) -> Option<Option<Level>> {
        let fits = |grantee: &Grantee| {
            grantee.channel_type == self.channel_type
                && grantee.sender == self.sender
                && grantee.channel.as_ref() == channel
        };
        let mut found = self.grants.iter().filter(|(grantee, _)| fits(grantee));
        found.next_back().map(|(_, level)| *level)
    }
}

/// The table of the rules: each row applies or not, and the first that does is the answer.
fn reference(case: &Case) -> (bool, &'static str) {
    let trust = match &case.policy {
        Policy::Given(trust) => Some(trust),
        _ => None,
    };
    let of_type = trust.and_then(|trust| trust.channels.get(&case.channel_type));
    let listed = |list: fn(&TypeTrust) -> &HashSet<String>| {
        of_type.is_some_and(|of_type| list(of_type).contains(case.sender))
    };
    let grant = case.grant(Some(&case.channel)).or(case.grant(None));
    let over = of_type.and_then(|of_type| of_type.channel_overrides.get(&case.channel).copied());
    let own = of_type.and_then(|of_type| of_type.policy);
    let default = trust.map(|trust| trust.default_policy);
    let missing = case.sender == NOBODY;
    let (allow, deny) = (Some(Stance::Allow), Some(Stance::Deny));
    let by_name = matches!(case.channel_type, ChannelType::Ws | ChannelType::Api);
    let rows = [
        (case.channel_type == ChannelType::Cli, true, "cli_bypass"),
        (case.policy == Policy::Unusable, false, "trust_config_invalid"),
        (listed(|list| &list.sender_denylist), false, "sender_denylist"),
        (case.unreadable, false, "trust_store_error"),
        (grant == Some(None), false, "trust_store_error"),
        (grant == Some(Some(Level::Trusted)), true, "grant_trusted"),
        (grant == Some(Some(Level::Denied)), false, "grant_denied"),
        (listed(|list| &list.sender_allowlist), true, "sender_allowlist"),
        (case.policy == Policy::None, by_name, "no_trust_config"),
        (over == allow, true, "channel_override_allow"),
        (over == deny && missing, false, "sender_missing"),
        (over == deny, false, "channel_override_deny"),
        (own == allow, true, "channel_policy_allow"),
        (own == deny && missing, false, "sender_missing"),
        (own == deny, false, "channel_policy_deny"),
        (default == allow, true, "default_policy_allow"),
        (missing, false, "sender_missing"),
        (true, false, "default_policy_deny"),
    ];
    let (_, allowed, reason) = rows.into_iter().find(|(applies, ..)| *applies).unwrap();
    (allowed, reason)
}

fn stance() -> impl Strategy<Value = Stance> {
    prop_oneof![Just(Stance::Allow), Just(Stance::Deny)]
}

fn senders() -> impl Strategy<Value = HashSet<String>> {
    prop::collection::hash_set(prop::sample::select(&SENDERS).prop_map(str::to_owned), 0..2)
}

fn channel() -> impl Strategy<Value = ChannelId> {
    prop::sample::select(&CHANNELS).prop_map(ChannelId::from)
}

fn of_type() -> impl Strategy<Value = TypeTrust> {
    let overrides = prop::collection::hash_map(channel(), stance(), 0..2);
    (prop::option::of(stance()), senders(), senders(), overrides).prop_map(
        |(policy, sender_allowlist, sender_denylist, channel_overrides)| TypeTrust {
            policy,
            sender_allowlist,
            sender_denylist,
            channel_overrides,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let channels = prop::collection::hash_map(prop::sample::select(&TYPES), of_type(), 0..4);
    let given = (stance(), channels)
        .prop_map(|(default_policy, channels)| Policy::Given(Trust { default_policy, channels }));
    prop_oneof![1 => Just(Policy::None), 1 => Just(Policy::Unusable), 6 => given]
}

fn grant() -> impl Strategy<Value = (Grantee, Option<Level>)> {
    let grantee =
        (prop::sample::select(&TYPES), prop::sample::select(&SENDERS), prop::option::of(channel()));
    let level = prop_oneof![
        4 => Just(Some(Level::Trusted)),
        4 => Just(Some(Level::Denied)),
        1 => Just(None),
    ];
    (grantee, level).prop_map(|((channel_type, sender, channel), level)| {
        let grantee = Grantee { channel_type, sender: sender.to_owned(), channel };
        (grantee, level)
    })
}

fn case() -> impl Strategy<Value = Case> {
    (
        policy(),
        prop::collection::vec(grant(), 0..4),
        prop::bool::weighted(0.05),
        prop::sample::select(&TYPES),
        channel(),
        prop::sample::select(&SENDERS),
    )
        .prop_map(|(policy, grants, unreadable, channel_type, channel, sender)| Case {
            policy,
            grants,
            unreadable,
            channel_type,
            channel,
            sender,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// CH-42, CH-107 to CH-118
    #[test]
    fn the_first_rule_that_matches_decides(case in case()) {
        let decision = case.decide();

        prop_assert_eq!((decision.allowed, decision.reason.as_str()), reference(&case));
    }

    /// MV-13
    #[test]
    fn who_is_trusted_was_let_in_by_name(case in case(), is_operator: bool, is_claimed: bool) {
        let decision = case.decide();
        let label = decision.label(is_operator, is_claimed);

        let by_name = ["cli_bypass", "grant_trusted", "sender_allowlist"];
        let known = by_name.contains(&decision.reason.as_str());
        let authenticated = decision.reason == Reason::NoTrustConfig && !is_claimed;
        let by_policy = decision.reason.as_str().ends_with("_allow") && is_operator;
        let trusted = decision.allowed && (known || authenticated || by_policy);
        prop_assert_eq!(label == Label::Trusted, trusted);
    }
}

/// CH-117: who is kept out by name hears nothing, everyone else is told.
#[test]
fn only_those_kept_out_by_name_hear_nothing() {
    let denials = [
        (Reason::TrustConfigInvalid, false),
        (Reason::SenderDenylist, true),
        (Reason::GrantDenied, true),
        (Reason::TrustStoreError, false),
        (Reason::SenderMissing, false),
        (Reason::ChannelOverrideDeny, false),
        (Reason::ChannelPolicyDeny, false),
        (Reason::DefaultPolicyDeny, false),
        (Reason::NoTrustConfig, false),
    ];

    for (reason, silent) in denials {
        assert_eq!(Decision::deny(reason).is_silent(), silent, "{reason:?}");
    }
}

/// The names in rows are the names in answers.
#[test]
fn a_reason_is_stored_under_its_name() {
    for reason in [
        Reason::CliBypass,
        Reason::TrustStoreError,
        Reason::NoTrustConfig,
        Reason::ChannelOverrideAllow,
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}

/// CH-13: a decision is one of two words.
#[test]
fn a_decision_is_allowed_or_denied() {
    let decided = |allowed| Decision { allowed, reason: Reason::SenderAllowlist };

    assert_eq!([true, false].map(|allowed| decided(allowed).as_str()), ["allowed", "denied"]);
}
