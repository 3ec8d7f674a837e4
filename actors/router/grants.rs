//! Grants of trust: single senders who are let in or kept out, beside the operator's files.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{channel_type::ChannelType, clock::Timestamp, ids::ChannelId, words};

/// Whose word it is, and where.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub channel_type: &'a ChannelType,
    pub channel: &'a ChannelId,
    pub sender: &'a str,
}

words! {
    /// What a grant says of its sender.
    #[derive(Default)]
    #[schemars(rename = "TrustLevel")]
    pub enum Level {
        /// Let in.
        #[default]
        Trusted = "trusted",
        /// Kept out.
        Denied = "denied",
    }
}

/// Whom a grant is about. There is one grant for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grantee {
    pub channel_type: ChannelType,
    pub sender: String,
    /// The one channel; none is every channel of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
}

impl Grantee {
    /// Reads whom a person or a model means; if they cannot be meant, which argument is wrong and why.
    pub fn read(
        channel_type: ChannelType,
        sender: &str,
        channel: Option<&str>,
    ) -> Result<Self, (&'static str, String)> {
        if !is_plain(sender) {
            let reason = "a sender has 1 to 128 printable characters without space (384 bytes)";
            return Err(("sender_id", reason.to_owned()));
        }
        let channel = match channel {
            None => None,
            Some(channel) if is_plain(channel) => Some(canonical(&channel_type, channel)),
            Some(_) => {
                let reason =
                    "a channel id has 1 to 128 printable characters without space (384 bytes)";
                return Err(("channel_id", reason.to_owned()));
            }
        };
        Ok(Self { channel_type, sender: sender.to_owned(), channel })
    }
}

/// A Discord channel may be named with its type in front, and is kept without.
pub fn canonical(channel_type: &ChannelType, channel: &str) -> ChannelId {
    match channel_type {
        ChannelType::Discord => channel.strip_prefix("discord:").unwrap_or(channel),
        _ => channel,
    }
    .into()
}

/// A sender or a channel can have this name: 1 to 128 printable characters without space (384 bytes).
pub fn is_plain(text: &str) -> bool {
    ChannelId::named(text).is_some() && !text.contains(char::is_whitespace)
}

/// A grant, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderGrant {
    pub id: String,
    #[serde(flatten)]
    pub grantee: Grantee,
    pub level: Level,
    pub granted_by: String,
    pub at: Timestamp,
}

/// What stands in the place of a grant that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a grant cannot be read")]
pub struct Unreadable;

/// All grants, as the router keeps them.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// None is a grant that is there and cannot be read.
    by_grantee: HashMap<Grantee, Option<SenderGrant>>,
    /// The rows could not be looked through: nobody knows what they say.
    unreadable: bool,
}

impl Grants {
    /// Grants that could not be read: they let nobody in.
    pub fn unreadable() -> Self {
        Self { unreadable: true, ..Self::default() }
    }

    pub fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// What they say of a sender, if that can be read: for this channel, else for all of the type.
    pub fn level(&self, origin: Origin<'_>) -> Result<Option<Level>, Unreadable> {
        if self.unreadable {
            return Err(Unreadable);
        }
        let Origin { channel_type, channel, sender } = origin;
        let anywhere = Grantee {
            channel_type: channel_type.clone(),
            sender: sender.to_owned(),
            channel: None,
        };
        let here = Grantee { channel: Some(channel.clone()), ..anywhere.clone() };
        match self.by_grantee.get(&here).or_else(|| self.by_grantee.get(&anywhere)) {
            None => Ok(None),
            Some(Some(grant)) => Ok(Some(grant.level)),
            Some(None) => Err(Unreadable),
        }
    }

    pub fn get(&self, grantee: &Grantee) -> Option<&SenderGrant> {
        self.by_grantee.get(grantee)?.as_ref()
    }

    /// Adds a grant, in place of the one that its grantee had.
    pub fn put(&mut self, grant: SenderGrant) {
        self.by_grantee.insert(grant.grantee.clone(), Some(grant));
    }

    /// Notes a grant that is there and cannot be read.
    pub fn put_damaged(&mut self, grantee: Grantee) {
        self.by_grantee.insert(grantee, None);
    }

    /// Removes the grant of a grantee, also one that cannot be read; whether there was one.
    pub fn remove(&mut self, grantee: &Grantee) -> bool {
        self.by_grantee.remove(grantee).is_some()
    }

    /// All that can be read, oldest first.
    pub fn list(&self) -> Vec<SenderGrant> {
        let mut grants: Vec<SenderGrant> = self.by_grantee.values().flatten().cloned().collect();
        grants.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        grants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grantee(channel: Option<&str>) -> Grantee {
        Grantee::read(ChannelType::Ws, "bob", channel).unwrap()
    }

    fn grant(channel: Option<&str>, level: Level) -> SenderGrant {
        SenderGrant {
            id: format!("grant-{channel:?}"),
            grantee: grantee(channel),
            level,
            granted_by: "operator".to_owned(),
            at: Timestamp(1),
        }
    }

    fn level(grants: &Grants, channel: &str) -> Result<Option<Level>, Unreadable> {
        grants.level(Origin {
            channel_type: &ChannelType::Ws,
            channel: &channel.into(),
            sender: "bob",
        })
    }

    /// CH-110
    #[test]
    fn the_grant_of_a_channel_comes_before_the_one_for_all() {
        let mut grants = Grants::default();
        grants.put(grant(None, Level::Trusted));
        grants.put(grant(Some("ws:1"), Level::Denied));

        assert_eq!(level(&grants, "ws:1"), Ok(Some(Level::Denied)));
        assert_eq!(level(&grants, "ws:2"), Ok(Some(Level::Trusted)));
    }

    /// TO-127, TO-128
    #[test]
    fn a_grant_replaces_the_former_one_and_is_removed_once() {
        let mut grants = Grants::default();
        grants.put(grant(None, Level::Trusted));
        grants.put(grant(None, Level::Denied));

        assert_eq!(grants.list(), [grant(None, Level::Denied)]);
        assert!(grants.remove(&grantee(None)));
        assert!(!grants.remove(&grantee(None)));
        assert_eq!(level(&grants, "ws:1"), Ok(None));
    }

    /// CH-118
    #[test]
    fn a_grant_that_cannot_be_read_hides_nothing_but_its_own_sender() {
        let mut grants = Grants::default();
        grants.put(grant(None, Level::Trusted));
        grants.put_damaged(grantee(Some("ws:1")));

        assert_eq!(level(&grants, "ws:1"), Err(Unreadable));
        assert_eq!(level(&grants, "ws:2"), Ok(Some(Level::Trusted)));
        assert!(grants.remove(&grantee(Some("ws:1"))));
        assert_eq!(level(&grants, "ws:1"), Ok(Some(Level::Trusted)));
    }

    /// TO-130, CH-03, CH-07
    #[test]
    fn whom_a_grant_means_is_checked() {
        let discord = Grantee::read(ChannelType::Discord, "42", Some("discord:77")).unwrap();

        assert_eq!(discord.channel, Some("77".into()));
        for (sender, channel, wrong) in [
            ("", None, "sender_id"),
            ("two words", None, "sender_id"),
            ("bob", Some(""), "channel_id"),
        ] {
            let (field, _) = Grantee::read(ChannelType::Ws, sender, channel).unwrap_err();
            assert_eq!(field, wrong);
        }
        assert!(Grantee::read(ChannelType::Ws, &"x".repeat(129), None).is_err());
        assert!("slack".parse::<ChannelType>().is_err());
        let unknown = "friend".parse::<Level>().unwrap_err().to_string();
        assert!(unknown.contains("`trusted`, `denied`"), "{unknown}");
    }
}
