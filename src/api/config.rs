//! Config: the settings files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::settings::{effective::Setting, problem::Problem};

pub const SHOW_CONFIG: Endpoint<Data<Settings>> =
    get("/api/v1/config", Read, "Shows each setting with its value and where that comes from.")
        .description("References stay references.")
        .scrubbed();

pub const VALIDATE_CONFIG: Endpoint<Data<SettingsTried>, Empty, Empty, SettingsDraft> =
    post("/api/v1/config/validate", Admin, "Tries out a settings file, and writes nothing.")
        .description("References are checked for their form, and not followed.")
        .secret()
        .example(r#"{"file": "config", "content": "server:\n  port: 8080\n"}"#)
        .scrubbed();

pub const RELOAD_CONFIG: Endpoint<Data<SettingsReloaded>> =
    post("/api/v1/config/reload", Admin, "Reads the settings files again.")
        .description("If one of them is wrong, all stays as it was.")
        .refuses(&[422]);

pub const SHOW_SETTINGS_FILE: Endpoint<Data<EditableFile>, ByFile> = get(
    "/api/v1/config/{file}",
    Admin,
    "Shows a settings file: `config`, `providers` or `channels`.",
)
.description("One that is not there is empty.")
.scrubbed();

pub const REPLACE_SETTINGS_FILE: Endpoint<Data<EditableFile>, ByFile, Empty, FileContent> = put(
    "/api/v1/config/{file}",
    Admin,
    "Replaces a settings file, if the new one is valid, and reads it.",
)
.description(
    "Needs every scope, and all teams: it says where keys go. It adds no `${env:NAME}` and no `${file:PATH}`. \
     What counts only after a restart is told in the inbox.",
)
.refuses(&[409, 422])
.example(r#"{"content": "{}\n"}"#)
.scrubbed();

pub const SHOW_TEAM_CONFIG: Endpoint<Data<TeamConfig>, ByName> =
    get("/api/v1/teams/{name}/config", Read, "Shows the file of a team.").scrubbed();

pub const REPLACE_TEAM_CONFIG: Endpoint<Data<TeamConfig>, ByName, Empty, FileContent> = put(
    "/api/v1/teams/{name}/config",
    Admin,
    "Replaces the file of a team, if the new one is valid.",
)
.refuses(&[409, 422])
.example(r#"{"content": "description: Invoices\n"}"#)
.scrubbed();

/// The settings that count.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    pub fields: Vec<Setting>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
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
    pub problems: Vec<Problem>,
}

/// What was read again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SettingsReloaded {
    pub reloaded: Vec<String>,
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByFile {
    pub file: String,
}

/// A file that operators edit, as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EditableFile {
    pub content: String,
    /// Names this text.
    pub revision: String,
    /// Values in it are not shown: marks stand in their place, and it cannot be written back so.
    pub scrubbed: bool,
    pub problems: Vec<Problem>,
}

/// The file of a team as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamConfig {
    pub team: String,
    #[serde(flatten)]
    pub file: EditableFile,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FileContent {
    /// The whole file.
    pub content: String,
    /// The revision that was edited: if the file is another by now, nothing is written. Empty stands for a file that
    /// is not there. Absent: whatever is there is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}
