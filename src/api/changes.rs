//! Self-changes: what teams changed about themselves after a person agreed, and the way back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};

pub const LIST_CHANGES: Endpoint<Rows<ChangeRow>, Empty, OfTeam> = get(
    "/api/v1/changes",
    Read,
    "Lists what teams changed about themselves after a person agreed.",
)
.sorted(&["-at", "team", "file"])
.scrubbed();

pub const ROLL_BACK_CHANGE: Endpoint<Data<ChangeRow>, ById> =
    post("/api/v1/changes/{id}/rollback", Operate, "Puts back the text from before a change.")
        .description("Refused if the file was changed since.")
        .refuses(&[409])
        .scrubbed();

/// A change as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SelfChange")]
pub struct ChangeRow {
    pub id: String,
    pub team: String,
    pub file: String,
    pub reason: String,
    pub before: String,
    pub after: String,
    pub task_id: String,
    pub at: Option<Moment>,
    pub rolled_back_by: Option<String>,
    pub rolled_back_at: Option<Moment>,
}
