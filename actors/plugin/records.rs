//! Records of plugins of teams: how each stands, and what it has put aside. What the team file says is not repeated here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::lifecycle::Status;
use crate::{
    clock::Timestamp,
    ids::TeamKey,
    store::{
        records::Record,
        redact::{Owner, Texts},
    },
};

pub const TEXTS: &[Texts] = &[
    Texts::of(TeamPlugin::KIND, Owner::At("/team/name"), &["last_error", "runtime_state"]),
    Texts::of(PluginState::KIND, Owner::At("/team/name"), &["state"]),
];

/// How a plugin of a team stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamPlugin {
    pub team: TeamKey,
    pub plugin: String,
    pub status: Status,
    /// Tools whose results do not make a turn untrusted, as patterns of canonical keys. An operator sets them.
    #[serde(default)]
    pub trusted_output: Vec<String>,
    /// What the plugin shows of itself.
    #[serde(default)]
    pub runtime_state: Map<String, Value>,
    #[serde(default)]
    pub last_error: Option<String>,
    #[serde(default)]
    pub last_error_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl TeamPlugin {
    /// One that nobody has switched on yet.
    pub fn new(team: &TeamKey, plugin: &str, now: Timestamp) -> Self {
        Self {
            team: team.clone(),
            plugin: plugin.to_owned(),
            status: Status::Disabled,
            trusted_output: Vec::new(),
            runtime_state: Map::new(),
            last_error: None,
            last_error_at: None,
            created_at: now,
            updated_at: now,
        }
    }
}

/// What a plugin of a team has put aside, for its next child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginState {
    pub team: TeamKey,
    pub plugin: String,
    pub state: Map<String, Value>,
}

/// A call of the webhook of a plugin's channel that was answered, so that it is not taken in again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookCall {
    pub at: Timestamp,
}

crate::records! {
    TeamPlugin: "team_plugin", (TeamKey, String), |row| (row.team.clone(), row.plugin.clone());
    PluginState: "plugin_state", (TeamKey, String), |row| (row.team.clone(), row.plugin.clone());
    WebhookCall: "plugin_call", (TeamKey, String, String);
}
