//! Grants: calls that somebody has decided on in advance.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{endpoint::*, reply::*, scope::Scope::*};

pub const LIST_GRANTS: Endpoint<Rows<GrantRow>, Empty, GrantFilter> = get(
    "/api/v1/grants",
    Read,
    "Lists calls that need no decision, because somebody made it before.",
)
.sorted(&["-created_at", "team", "tool"])
.scrubbed();

pub const REVOKE_GRANT: Endpoint<Done, ById> =
    delete("/api/v1/grants/{id}", Approve, "Takes back a grant: the next such call asks again.")
        .recorded();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct GrantFilter {
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
}

/// What a grant covers: calls that equal it in everything.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GrantCovers {
    pub team: String,
    pub generation: u32,
    pub tool: String,
    /// The exact arguments.
    pub arguments: Value,
    pub cwd: Option<String>,
    /// Names of the secrets that it uses; a new value of one voids the grant.
    pub secrets: Vec<String>,
    /// Also for turns that have read what a stranger wrote.
    pub untrusted: bool,
}

/// A grant as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Grant")]
pub struct GrantRow {
    pub id: String,
    #[serde(flatten)]
    pub covers: GrantCovers,
    /// The approval that it was given with.
    pub approval: String,
    pub granted_by: String,
    pub created_at: Option<String>,
    pub expires_at: Option<String>,
    /// How many calls are left; null for any number.
    pub uses_left: Option<u32>,
}
