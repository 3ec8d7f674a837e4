//! Plugins: which packages there are, what each asks for, and putting one there or taking it away.

use clap::Args;
use hivewright_actors::{
    ids::{ApprovalId, TeamName},
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::plugins::{
    capabilities::Capabilities, fault::Fault, lock::Held, manifest::RunKind, package::Origin,
};

pub const LIST_PLUGINS: Endpoint<Rows<PluginRow>, Empty, PluginFilter> =
    get("/api/v1/plugins", Read, "Lists the plugins, those that cannot be loaded among them.")
        .sorted(&["key", "state", "origin"]);

pub const SHOW_PLUGIN: Endpoint<Data<PluginRow>, ByKey> =
    get("/api/v1/plugins/{key}", Read, "Shows a plugin, with the schema of its settings.");

pub const CHECK_PLUGIN: Endpoint<Data<PluginPreview>, Empty, PluginArchive> = post(
    "/api/v1/plugins/check",
    Admin,
    "Looks over the archive of a plugin, and says what it asks for.",
)
.description(
    "Nothing is installed or run. The body is a `.tar.gz` or `.zip` of at most 50 MiB; it is \
     empty if `url` and `sha256` say where to fetch it.",
)
.refuses(&[408, 409, 413, 422])
.streamed();

pub const INSTALL_PLUGIN: Endpoint<Requested<PluginRow>, Empty, PluginArchive> = post(
    "/api/v1/plugins",
    Admin,
    "Installs a plugin, or puts another version in its place. No team has it before it is enabled there.",
)
.description(
    "The body is a `.tar.gz` or `.zip` of at most 50 MiB; it is empty if `url` and `sha256` say \
     where to fetch it. Nothing of it is run. A version that asks for more than was agreed to \
     waits for an approval (202, `update`), unless `digest` names it.",
)
.refuses(&[408, 409, 413, 422])
.streamed();

pub const APPROVE_PLUGIN: Endpoint<Data<PluginRow>, ByKey, Empty, PluginApproval> = post(
    "/api/v1/plugins/{key}/approve",
    Admin,
    "Agrees to the files of an installed plugin as they are now.",
)
.description("For files that were changed, or put there by hand: until then nothing of it is run.")
.refuses(&[409, 422])
.example(r#"{"digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}"#);

pub const UNINSTALL_PLUGIN: Endpoint<Done, ByKey, PluginRemoval> = delete(
    "/api/v1/plugins/{key}",
    Admin,
    "Takes an installed plugin away.",
)
.description(
    "What teams set for it and what it keeps for them stays, unless `purge` says otherwise.",
)
.refuses(&[409]);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByKey {
    pub key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct PluginFilter {
    /// Only those that bring a channel, or only others.
    #[arg(long, value_name = "BOOL")]
    pub channel: Option<bool>,
}

/// Where an archive comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PluginArchive {
    /// What is agreed to: another digest is refused.
    pub digest: Option<String>,
    /// Where it came from, in words.
    #[schemars(length(max = 1000))]
    pub source: Option<String>,
    /// An https address to fetch it from.
    #[schemars(length(max = 2000))]
    pub url: Option<String>,
    /// The SHA-256 of what is there, in hexadecimal.
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginApproval {
    /// The digest that is agreed to.
    pub digest: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PluginRemoval {
    /// Takes away too what it keeps for teams.
    pub purge: bool,
}

words! {
    /// How a plugin stands.
    #[schemars(rename = "PluginLoadState")]
    pub enum PluginState {
        /// Teams can have it.
        Loaded = "loaded",
        /// Something is wrong with it.
        Failed = "failed",
        /// It was installed, and its folder is gone.
        Missing = "missing",
    }
}

/// A plugin as answers show it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plugin")]
pub struct PluginRow {
    pub key: String,
    pub display_name: String,
    pub description: String,
    pub version: String,
    pub origin: Origin,
    /// What runs it; none if its manifest cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RunKind>,
    pub state: PluginState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Where it came from, in words.
    pub source: String,
    /// Of its files as they are; empty if they cannot be read.
    pub digest: String,
    /// The name of the trusted key that has signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// The same in words, a line each.
    pub asks: Vec<String>,
    /// Teams that have switched it on.
    pub teams: Vec<TeamName>,
    /// Another version that waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<PluginUpdate>,
    /// JSON Schema of what teams can set; only where one plugin is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_schema: Option<Value>,
}

row! {
    /// A version that asks for more than was agreed to.
    #[derive(Clone, PartialEq, Eq)]
    pub struct PluginUpdate from held: &Held {
        pub version: String = held.version.clone(),
        pub digest: String = held.digest.clone(),
        /// What is to be decided on.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub approval: Option<ApprovalId> = held.approval.clone(),
    }
}

/// What an archive holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PluginPreview {
    pub key: String,
    pub display_name: String,
    pub description: String,
    pub version: String,
    pub digest: String,
    /// The name of the trusted key that has signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    pub capabilities: Capabilities,
    /// What it asks for in words, a line each.
    pub asks: Vec<String>,
    /// The version that is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// What it asks for beyond what was agreed to for that one.
    pub beyond: Vec<String>,
    /// Skills that it brings; an operator copies them where they should count.
    pub skills: Vec<String>,
}
