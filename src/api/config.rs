//! Config: the settings files.

use std::borrow::Cow;

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    endpoint::{ByName, Empty, Endpoint, Method::*},
    reply::Data,
    scope::Scope::*,
};

pub const SHOW_CONFIG: Endpoint<Data<Settings>> = Endpoint::new(
    Get,
    "/api/v1/config",
    Read,
    "Shows each setting with its value and where that comes from.",
)
.description("References stay references.");

pub const VALIDATE_CONFIG: Endpoint<Data<SettingsTried>, Empty, Empty, SettingsDraft> =
    Endpoint::new(
        Post,
        "/api/v1/config/validate",
        Admin,
        "Tries out a settings file, and writes nothing.",
    )
    .description("References are checked for their form, and not followed.")
    .secret()
    .example(r#"{"file": "config", "content": "server:\n  port: 8080\n"}"#);

pub const RELOAD_CONFIG: Endpoint<Data<SettingsReloaded>> =
    Endpoint::new(Post, "/api/v1/config/reload", Admin, "Reads the settings files again.")
        .description("If one of them is wrong, all stays as it was.")
        .refuses(&[422]);

pub const SHOW_TEAM_CONFIG: Endpoint<Data<TeamConfig>, ByName> =
    Endpoint::new(Get, "/api/v1/teams/{name}/config", Read, "Shows the file of a team.");

pub const REPLACE_TEAM_CONFIG: Endpoint<Data<TeamConfig>, ByName, Empty, TeamConfigText> =
    Endpoint::new(
        Put,
        "/api/v1/teams/{name}/config",
        Admin,
        "Replaces the file of a team, if the new one is valid.",
    )
    .refuses(&[422])
    .example(r#"{"content": "description: Invoices\n"}"#);

words! {
    /// Where the value of a setting comes from.
    pub enum SettingSource {
        /// Nobody wrote it.
        Default = "default",
        /// The file.
        File = "file",
    }
}

/// A setting with its value. References stand as they were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// `config`, `providers` or `channels`.
    pub file: Cow<'static, str>,
    /// The way to it, such as `server.port`.
    pub path: String,
    pub value: Value,
    pub source: SettingSource,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// Something that is wrong with a settings file, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsFault {
    pub file: String,
    /// The setting, as a path.
    pub path: String,
    /// From 1; 0 if it is about the whole file.
    pub line: usize,
    /// From 1; 0 if it is about the whole line.
    pub column: usize,
    /// What is wrong with it.
    pub message: String,
}

/// The settings that count.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    pub fields: Vec<Setting>,
    pub problems: Vec<SettingsFault>,
    pub warnings: Vec<SettingsFault>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SettingsDraft {
    /// `config`, `providers`, `channels` or `team:<name>`.
    pub file: String,
    pub content: String,
}

/// What came of trying out a file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SettingsTried {
    pub valid: bool,
    pub problems: Vec<SettingsFault>,
}

/// What was read again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SettingsReloaded {
    pub reloaded: Vec<String>,
    pub problems: Vec<SettingsFault>,
}

/// The file of a team as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamConfig {
    pub team: String,
    pub content: String,
    /// Names this text.
    pub revision: String,
    /// Values in it are not shown: marks stand in their place, and it cannot be written back so.
    pub scrubbed: bool,
    pub problems: Vec<SettingsFault>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamConfigText {
    /// The whole file, in YAML.
    pub content: String,
}
