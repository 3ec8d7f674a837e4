//! Profiles: whose models may answer in a topic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::settings::providers::Provider;

pub const LIST_PROFILES: Endpoint<Rows<ProfileRow>> =
    get("/api/v1/profiles", Read, "Lists the profiles whose models may answer in a topic.")
        .sorted(&["name"]);

/// A profile, and what answers for it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Profile")]
pub struct ProfileRow {
    pub name: String,
    /// The API it speaks.
    pub provider: Provider,
    pub model: String,
}
