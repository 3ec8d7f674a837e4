//! Grants: calls that somebody has decided on in advance.

use hivewright_actors::approvals::grants::{Covers, Grant};
use serde_json::Value;

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};

pub const LIST_GRANTS: Endpoint<Rows<GrantRow>, Empty, OfTeam> = get(
    "/api/v1/grants",
    Read,
    "Lists calls that need no decision, because somebody made it before.",
)
.sorted(&["-created_at", "team", "tool"])
.scrubbed();

pub const REVOKE_GRANT: Endpoint<Done, ById> =
    delete("/api/v1/grants/{id}", Approve, "Takes back a grant: the next such call asks again.")
        .recorded();

row! {
    /// What a grant covers: calls that equal it in everything.
    pub struct GrantCovers from covers: Covers {
        pub team: String = covers.team.name.to_string(),
        pub generation: u32 = covers.team.generation,
        pub tool: String = covers.tool,
        /// The exact arguments.
        pub arguments: Value = covers.arguments,
        pub cwd: Option<String> = covers.cwd,
        /// Names of the secrets that it uses; a new value of one voids the grant.
        pub secrets: Vec<String> = covers.secrets.into_keys().collect(),
        /// Also for turns that have read what a stranger wrote.
        pub untrusted: bool = covers.untrusted,
    }
}

row! {
    /// A grant as answers show it.
    #[schemars(rename = "Grant")]
    pub struct GrantRow from (grant, uses_left): (Grant, Option<u32>) {
        pub id: String = grant.id,
        #[serde(flatten)]
        pub covers: GrantCovers = grant.covers.into(),
        /// The approval that it was given with.
        pub approval: String = grant.approval.to_string(),
        pub granted_by: String = grant.granted_by,
        pub created_at: Option<Moment> = date(grant.created_at),
        pub expires_at: Option<Moment> = grant.expires_at.and_then(date),
        /// How many calls are left; null for any number.
        pub uses_left: Option<u32> = uses_left,
    }
}
