//! Trust: senders who are let in or kept out by name, and what the trust gate decided.

use std::{fmt, str::FromStr};

use clap::Args;
use hivewright_actors::{
    channel_type::ChannelType,
    router::{
        audit::AuditRow,
        grants::{Level, SenderGrant},
    },
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::*};

pub const LIST_TRUST: Endpoint<Rows<TrustGrant>, Empty, TrustFilter> =
    get("/api/v1/trust", Operate, "Lists the senders who are let in or kept out by name.")
        .sorted(&["granted_at", "sender_id"]);

pub const GRANT_TRUST: Endpoint<Created<TrustGrant>, Empty, Empty, NewTrustGrant> =
    post("/api/v1/trust", Operate, "Lets a sender in, or keeps one out.")
        .refuses(&[409])
        .example(r#"{"channel_type": "discord", "sender_id": "1234"}"#);

pub const LIST_TRUST_DECISIONS: Endpoint<Rows<TrustDecision>, Empty, TrustDecisionFilter> =
    get("/api/v1/trust/audit", Operate, "Lists what the trust gate decided.").sorted(&["-time"]);

pub const REVOKE_TRUST: Endpoint<Done, ById> =
    delete("/api/v1/trust/{id}", Operate, "Takes a grant back.");

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TrustFilter {
    /// Only of channels of this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub channel_type: Option<ChannelType>,
    /// Only those let in, or only those kept out.
    #[arg(long = "level", value_name = "LEVEL", value_parser = flags::words::<Level>())]
    pub trust_level: Option<Level>,
}

words! {
    /// What the trust gate decided.
    pub enum Verdict {
        Allowed = "allowed",
        Denied = "denied",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TrustDecisionFilter {
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<When>,
    /// Only those let in, or only those kept out.
    #[arg(long, value_parser = flags::words::<Verdict>())]
    pub decision: Option<Verdict>,
    /// Only of this sender.
    #[arg(long)]
    pub sender: Option<String>,
}

row! {
    /// A grant as answers show it.
    pub struct TrustGrant from grant: SenderGrant {
        pub id: String = grant.id,
        pub channel_type: ChannelType = grant.grantee.channel_type,
        pub sender_id: String = grant.grantee.sender,
        /// Null is all channels.
        pub channel_id: Option<String> = grant.grantee.channel.map(|channel| channel.to_string()),
        pub trust_level: Level = grant.level,
        pub granted_by: String = grant.granted_by,
        pub granted_at: Option<Moment> = date(grant.at),
    }
}

row! {
    /// A decision as answers show it.
    pub struct TrustDecision from row: AuditRow {
        pub id: String = row.id,
        pub time: Option<Moment> = date(row.at),
        pub channel_type: ChannelType = row.channel_type,
        pub channel_id: String = row.channel.to_string(),
        pub sender: String = row.sender,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub asserted_by: Option<String> = row.asserted_by.map(|principal| principal.to_string()),
        /// The address that the connection came in on, or `unix` for the socket of the command line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub listener: Option<String> = row.listener,
        pub decision: Verdict = if row.decision.allowed { Verdict::Allowed } else { Verdict::Denied },
        pub reason: String = row.decision.reason.as_str().to_owned(),
    }
}

/// A sender on channels of a type. Commands name it as `<type>:<sender>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    /// Such as `discord` or `ws`.
    pub channel_type: ChannelType,
    /// As the channel names them.
    pub sender_id: String,
}

impl FromStr for Sender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').filter(|(name, id)| !name.is_empty() && !id.is_empty());
        let (name, id) = parts
            .ok_or("expected a channel type and a sender, such as `discord:80351110224678912`")?;
        let channel_type = name.parse::<ChannelType>().map_err(|error| error.to_string())?;
        Ok(Self { channel_type, sender_id: id.to_owned() })
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.channel_type, self.sender_id)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(description = "A sender who is let in or kept out.")]
pub struct NewTrustGrant {
    /// The type of the channel and the sender, such as `discord:80351110224678912`.
    #[arg(value_name = "TYPE:SENDER")]
    #[serde(flatten)]
    pub sender: Sender,
    /// Only in this channel.
    #[arg(long = "channel", value_name = "ID")]
    #[schemars(description = "Null is all channels.")]
    pub channel_id: Option<String>,
    /// Let in or kept out.
    #[arg(
        long = "level",
        value_name = "LEVEL",
        default_value = "trusted",
        value_parser = flags::words::<Level>(),
    )]
    #[schemars(description = "`trusted`, which is usual, or `denied`.")]
    pub trust_level: Option<Level>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sender_is_named_with_its_type() {
        let found: Sender = "ws:a:b".parse().unwrap();

        assert_eq!((&found.channel_type, found.sender_id.as_str()), (&ChannelType::Ws, "a:b"));
        assert_eq!(found.to_string(), "ws:a:b");
        for text in ["", "ws", "ws:", ":a"] {
            assert!(text.parse::<Sender>().is_err(), "{text}");
        }
        let unknown = "slack:a".parse::<Sender>().unwrap_err();
        assert!(unknown.contains("`discord`"), "{unknown}");
    }

    #[test]
    fn a_grant_is_typed_as_flags_and_sent_as_fields() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            grant: NewTrustGrant,
        }
        let typed = |line: &str| Line::try_parse_from(line.split(' '));

        let grant = typed("add discord:42 --channel 7").unwrap().grant;

        let sent = json!({
            "channel_type": "discord", "sender_id": "42", "channel_id": "7", "trust_level": "trusted",
        });
        assert_eq!(json!(grant), sent);
        for (line, expected) in
            [("add slack:42", "`discord`"), ("add ws:ann --level friend", "trusted, denied")]
        {
            let refusal = typed(line).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
