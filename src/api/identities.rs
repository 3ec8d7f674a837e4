//! Identities: senders of channels who are principals.

use clap::Args;
use hivewright_actors::channel_type::ChannelType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, trust::Sender, when::*};

pub const LIST_IDENTITIES: Endpoint<Rows<IdentityRow>> =
    get("/api/v1/identities", Admin, "Lists the senders of channels that are principals.")
        .sorted(&["linked_at", "token"]);

pub const LINK_IDENTITY: Endpoint<Created<IdentityRow>, Empty, Empty, NewIdentity> =
    post("/api/v1/identities", Admin, "Makes a sender of a channel the principal of a token.")
        .refuses(&[409])
        .example(r#"{"channel_type": "discord", "sender_id": "1234", "token": "ann"}"#);

pub const UNLINK_IDENTITY: Endpoint<Done, ById> =
    delete("/api/v1/identities/{id}", Admin, "Ends a link at once.");

/// A link as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Identity")]
pub struct IdentityRow {
    pub id: String,
    pub channel_type: ChannelType,
    pub sender_id: String,
    /// The name of the token.
    pub token: String,
    /// The token is still good, and so is the link.
    pub live: bool,
    pub linked_by: String,
    pub linked_at: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(description = "A sender who becomes a principal.")]
pub struct NewIdentity {
    /// The type of the channel and the sender, such as `discord:80351110224678912`.
    #[arg(value_name = "TYPE:SENDER")]
    #[serde(flatten)]
    pub sender: Sender,
    /// The name or id of a token.
    pub token: String,
}
