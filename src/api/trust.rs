//! Trust: senders who are let in or kept out by name, and what the trust gate decided.

use clap::Args;
use hivewright_actors::{channel_type::ChannelType, router::grants::Level, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::When};

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
    #[arg(long)]
    pub since: Option<When>,
    /// Only those let in, or only those kept out.
    #[arg(long, value_parser = flags::words::<Verdict>())]
    pub decision: Option<Verdict>,
    /// Only of this sender.
    #[arg(long)]
    pub sender: Option<String>,
}

/// A grant as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrustGrant {
    pub id: String,
    #[schemars(with = "String")]
    pub channel_type: ChannelType,
    pub sender_id: String,
    /// Null is all channels.
    pub channel_id: Option<String>,
    pub trust_level: Level,
    pub granted_by: String,
    pub granted_at: Option<String>,
}

/// A decision as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrustDecision {
    pub id: String,
    pub time: Option<String>,
    #[schemars(with = "String")]
    pub channel_type: ChannelType,
    pub channel_id: String,
    pub sender: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asserted_by: Option<String>,
    /// The address that the connection came in on, or `unix` for the socket of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    pub decision: Verdict,
    pub reason: String,
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
