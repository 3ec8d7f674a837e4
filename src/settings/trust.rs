//! The section `trust` of `config/channels.yaml`: who is let in.

use std::collections::HashMap;

use hivewright_actors::{
    channel_type::ChannelType,
    ids::ChannelId,
    router::{
        grants::{canonical, is_plain},
        trust::{Policy, Stance, Trust, TypeTrust},
    },
};

use super::{field::Field, reader::Section, setting::Setting};

pub(super) const KEY: &str = "trust";

/// What is wrong in the section is reported, and makes the whole policy unusable.
impl Setting for Policy {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        Some(Self::Given(field.section(|trust| {
            Trust {
                default_policy: trust.get("default_policy", Stance::Deny, |field| field.choice()),
                channels: trust
                    .maybe("channels", |field| field.members())
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(of_type)
                    .collect(),
            }
        })))
    }
}

fn of_type((name, field): (&str, Field<'_>)) -> Option<(ChannelType, TypeTrust)> {
    let channel_type: ChannelType = match name.parse() {
        Ok(channel_type) => channel_type,
        Err(error) => return field.reject(format!("{error}")),
    };
    if channel_type == ChannelType::Cli {
        field.warn("has no effect: the operator's command line is always let in");
    }
    let of_type = field.section(|section| TypeTrust {
        policy: section.maybe("policy", |field| field.choice()),
        sender_allowlist: senders(section, "sender_allowlist"),
        sender_denylist: senders(section, "sender_denylist"),
        channel_overrides: section
            .maybe("channel_overrides", |field| overrides(&channel_type, &field))
            .unwrap_or_default(),
    });
    Some((channel_type, of_type))
}

fn senders<C: FromIterator<String> + Default>(section: &mut Section<'_>, key: &'static str) -> C {
    let senders = section.maybe(key, |field| field.list(|item| item.parse(sender)));
    senders.unwrap_or_default().into_iter().collect()
}

fn sender(text: &str) -> Result<String, &'static str> {
    if is_plain(text) {
        Ok(text.to_owned())
    } else {
        Err("a sender has 1 to 128 printable characters without space (384 bytes)")
    }
}

fn overrides(channel_type: &ChannelType, field: &Field<'_>) -> Option<HashMap<ChannelId, Stance>> {
    let mut found = HashMap::new();
    for (name, channel) in field.members()? {
        let id = canonical(channel_type, name);
        let policy = channel.section(|section| section.maybe("policy", |field| field.choice()));
        if let Some(policy) = policy
            && found.insert(id, policy).is_some()
        {
            channel.reject::<()>("names a channel that was named before");
        }
    }
    Some(found)
}
