//! Plugins of a team: which ones it has switched on, how they stand, and what it sets for them.

use clap::Args;
use hivewright_actors::plugin::lifecycle::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};
use crate::plugins::instance::setup::state::SetupState;

pub const LIST_TEAM_PLUGINS: Endpoint<Rows<TeamPluginRow>, ByName> = get(
    "/api/v1/teams/{name}/plugins",
    Read,
    "Lists the plugins that a team has or could have, and how they stand.",
)
.sorted(&["key", "status"])
.scrubbed();

pub const SET_TEAM_PLUGIN: Endpoint<Data<TeamPluginRow>, ByTeamPlugin, Empty, TeamPluginChange> =
    put(
        "/api/v1/teams/{team}/plugins/{key}",
        Operate,
        "Switches a plugin of a team on or off, or sets what it is told.",
    )
    .description(
        "What is not given stays as it is. A plain value of a secret field goes to the vault of the team, which needs the \
         scope `secrets`, and a reference takes its place. If anything is wrong, nothing changes.",
    )
    .refuses(&[404, 409, 422])
    .example(r#"{"enabled": true, "config": {"tools": {"token": "${vault:WEATHER}"}}}"#)
    .secret()
    .scrubbed();

pub const RESTART_TEAM_PLUGIN: Endpoint<Data<TeamPluginRow>, ByTeamPlugin> = post(
    "/api/v1/teams/{team}/plugins/{key}/restart",
    Operate,
    "Starts a plugin of a team anew, also one that was given up.",
)
.refuses(&[404, 409])
.scrubbed();

pub const BEGIN_SETUP: Endpoint<Data<PluginSetup>, ByTeamPlugin> = post(
    "/api/v1/teams/{team}/plugins/{key}/setup/begin",
    Operate,
    "Begins the setup of a plugin's channel; one that runs already ends.",
)
.description(
    "A setup needs the scope `secrets` too; one that nobody goes on with for ten minutes ends. Once it is `done`, the \
     settings are written, its secrets are in the vault of the team, and the plugin is switched on.",
)
.refuses(&[404, 409])
.secret()
.scrubbed();

pub const POLL_SETUP: Endpoint<Data<PluginSetup>, ByTeamPlugin, Empty, SetupSession> = post(
    "/api/v1/teams/{team}/plugins/{key}/setup/poll",
    Operate,
    "Asks how the setup of a plugin's channel stands.",
)
.refuses(&[404, 409])
.secret()
.example(r#"{"session": "setup-0123456789abcdef"}"#)
.scrubbed();

pub const SUBMIT_SETUP: Endpoint<Data<PluginSetup>, ByTeamPlugin, Empty, SetupValues> = post(
    "/api/v1/teams/{team}/plugins/{key}/setup/submit",
    Operate,
    "Fills in what the setup of a plugin's channel waits for.",
)
.refuses(&[404, 409, 422])
.example(r#"{"session": "setup-0123456789abcdef", "values": {"secret": "…"}}"#)
.secret()
.scrubbed();

pub const CANCEL_SETUP: Endpoint<Data<PluginSetup>, ByTeamPlugin, Empty, SetupSession> = post(
    "/api/v1/teams/{team}/plugins/{key}/setup/cancel",
    Operate,
    "Ends the setup of a plugin's channel; nothing changes.",
)
.refuses(&[404])
.secret()
.example(r#"{"session": "setup-0123456789abcdef"}"#)
.scrubbed();

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct ByTeamPlugin {
    /// The team
    #[arg(long, value_name = "TEAM")]
    pub team: String,
    /// The key of the plugin
    pub key: String,
}

/// A plugin of a team as answers show it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TeamPlugin")]
pub struct TeamPluginRow {
    pub key: String,
    pub display_name: String,
    /// What it brings: `tools`, `channel`, `hooks`.
    pub capabilities: Vec<String>,
    pub enabled: bool,
    /// Secrets are references.
    pub config: Value,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Moment>,
    /// What the plugin shows of itself.
    pub runtime_state: Map<String, Value>,
    /// Its tools by canonical key; empty before it was first asked.
    pub tools: Vec<String>,
    /// It has tools, and `allowed_tools` of the team leave them out.
    pub withheld: bool,
    /// Tools whose results are believed, as patterns.
    pub trusted_output: Vec<String>,
    /// Its channel can be set up step by step.
    pub has_setup: bool,
    /// The setup that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<PluginSetup>,
    /// Where the network of its channel calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
}

/// A setup of a plugin's channel, and where it stands.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PluginSetup {
    pub session: String,
    pub state: SetupState,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetupSession {
    pub session: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetupValues {
    pub session: String,
    /// By the keys of the fields.
    pub values: Map<String, Value>,
}

/// What is to change. What is left out stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TeamPluginChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// All of its settings, as the plugin's schema has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Tools whose results are believed, as patterns of canonical keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_output: Option<Vec<String>>,
}
