//! Tools that teams wrote: which ones there are, their sources, and taking one out of use.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};
use crate::plugins::written::{Status, Verification};

pub const LIST_PLUGIN_TOOLS: Endpoint<Rows<PluginToolRow>, Empty, PluginToolFilter> =
    get("/api/v1/plugin-tools", Read, "Lists the tools that teams wrote.")
        .sorted(&["team", "tool", "status"])
        .scrubbed();

pub const GET_PLUGIN_TOOL: Endpoint<Data<PluginToolRow>, ByTool, ToolVersion> = get(
    "/api/v1/plugin-tools/{team}/{tool}",
    Read,
    "Shows a tool that a team wrote, with its source.",
)
.scrubbed();

pub const DEPRECATE_PLUGIN_TOOL: Endpoint<Data<PluginToolRow>, ByTool, Empty, ToolDeprecation> =
    post(
        "/api/v1/plugin-tools/{team}/{tool}/deprecate",
        Operate,
        "Takes a tool that a team wrote out of use.",
    )
    .description("Turns that have it keep it until they end.")
    .example(r#"{"reason": "the service that it asked is gone"}"#)
    .scrubbed();

pub const REMOVE_PLUGIN_TOOL: Endpoint<Data<PluginToolRow>, ByTool> = delete(
    "/api/v1/plugin-tools/{team}/{tool}",
    Operate,
    "Removes a tool that a team wrote, with its source.",
)
.description("Refused while it is in use: deprecate it first.")
.refuses(&[409])
.scrubbed();

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct ByTool {
    /// Its team
    pub team: String,
    /// Its name, without that of its team
    pub tool: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct ToolVersion {
    /// An earlier version, of the last ten.
    #[arg(id = "of_version", long = "of-version", value_name = "NUMBER")]
    pub version: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
pub struct ToolDeprecation {
    /// Why, for whoever needs it.
    #[schemars(length(min = 1, max = 1_000))]
    #[arg(long)]
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct PluginToolFilter {
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only with this status.
    #[arg(long, value_parser = words::<Status>())]
    pub status: Option<Status>,
}

/// A tool that a team wrote, as answers show it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginTool")]
pub struct PluginToolRow {
    pub team: String,
    pub tool: String,
    pub status: Status,
    /// Why it is not in use.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub version: u32,
    pub description: String,
    /// `pure`, `idempotent` or `irreversible`.
    pub effect: String,
    /// Where its requests may go.
    pub hosts: Vec<String>,
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    pub created_at: Option<Moment>,
    pub verified_at: Option<Moment>,
    /// What became of it, in order: the last 50 changes.
    pub changes: Vec<PluginToolChange>,
    /// The source of the version that was asked for; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PluginToolChange {
    pub at: Option<Moment>,
    pub by: String,
    pub to: Status,
    pub version: u32,
}
