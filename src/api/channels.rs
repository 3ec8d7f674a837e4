//! Channels: the ways in and out, and how they stand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};

pub const LIST_CHANNELS: Endpoint<Rows<Channel>> =
    get("/api/v1/channels", Read, "Lists the ways in and out, and how they stand.")
        .sorted(&["type"]);

pub const TRY_DISCORD: Endpoint<Data<DiscordTried>, Empty, Empty, DiscordTrial> = post(
    "/api/v1/channels/discord/try",
    Admin,
    "Asks Discord whose token this is. Nothing is stored.",
)
.description("What Discord refuses is told in the answer. Needs every scope, and all teams.")
.secret()
.example(r#"{"token": "a-token-of-nobody"}"#);

pub const RECONNECT_CHANNEL: Endpoint<Data<Reconnected>, ByType> = post(
    "/api/v1/channels/{type}/reconnect",
    Operate,
    "Ends all connections of a channel, so that they are made anew.",
)
.description("Clients of `ws` come back by themselves, and miss nothing.")
.refuses(&[409]);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ByType {
    #[serde(rename = "type")]
    pub kind: String,
}

/// A kind of channel, as answers show it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    #[serde(rename = "type")]
    pub kind: String,
    /// `on` or `off`; of Discord and of plugins `connecting`, `connected`, `retrying` or `failed`.
    pub state: String,
    /// Clients that are connected now; of Discord 1 if the bot is, of a plugin how many teams it runs for.
    pub connected: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DiscordTrial {
    /// Of a bot.
    pub token: String,
}

/// What came of asking Discord for a bot.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiscordTried {
    /// Its name; null if Discord does not know it.
    pub bot: Option<String>,
    /// Where it is invited to a server.
    pub invite: Option<String>,
    /// Why it is not known.
    pub error: Option<String>,
}

/// Connections that were ended.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reconnected {
    #[serde(rename = "type")]
    pub kind: String,
    /// How many there were.
    pub connections: usize,
}
