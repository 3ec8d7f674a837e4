//! Trust: senders who are let in or kept out by name, and what the trust gate decided.

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

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::When};
use crate::time::date;

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrustFilter {
    /// Only of channels of this type.
    pub channel_type: Option<String>,
    /// Only those let in, or only those kept out.
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
        #[schemars(with = "String")]
        pub channel_type: ChannelType = grant.grantee.channel_type,
        pub sender_id: String = grant.grantee.sender,
        /// Null is all channels.
        pub channel_id: Option<String> = grant.grantee.channel.map(|channel| channel.to_string()),
        pub trust_level: Level = grant.level,
        pub granted_by: String = grant.granted_by,
        pub granted_at: Option<String> = date(grant.at),
    }
}

row! {
    /// A decision as answers show it.
    pub struct TrustDecision from row: AuditRow {
        pub id: String = row.id,
        pub time: Option<String> = date(row.at),
        #[schemars(with = "String")]
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

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewTrustGrant {
    /// Such as `discord` or `ws`.
    pub channel_type: String,
    pub sender_id: String,
    /// Null is all channels.
    pub channel_id: Option<String>,
    /// `trusted`, which is usual, or `denied`.
    pub trust_level: Option<Level>,
}
