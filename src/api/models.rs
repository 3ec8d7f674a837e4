//! Models: those of the APIs that profiles name, and an API that is tried out before a profile for it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::settings::providers::Provider;

pub const LIST_MODELS: Endpoint<Rows<ModelRow>> =
    get("/api/v1/models", Operate, "Lists the profiles, and the models that the API of each has.")
        .description(
            "Each API is asked with its key; what it refuses is told in the row. Needs all teams.",
        )
        .sorted(&["profile", "provider"])
        .scrubbed();

pub const TRY_MODEL: Endpoint<Data<ModelTried>, Empty, Empty, ModelTrial> = post(
    "/api/v1/models/try",
    Admin,
    "Asks a model one question, and which models its API has. Nothing is stored.",
)
.description("What the API refuses is told in the answer. Needs every scope, and all teams.")
.refuses(&[422])
.secret()
.example(r#"{"provider": "offline"}"#);

/// A profile, and what its API offers.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRow {
    /// The name of the profile.
    pub profile: String,
    /// The API it speaks.
    pub provider: Provider,
    /// The model that it uses.
    pub model: String,
    /// Those that the API lists.
    pub models: Vec<String>,
    /// Why it lists none.
    pub unlisted: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelTrial {
    /// The API it speaks.
    pub provider: Provider,
    /// Where it is; absent is the provider's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Absent is a model that is usual there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What came of trying a model.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelTried {
    /// The model that was asked.
    pub model: String,
    /// What it said; null if it did not answer.
    pub answer: Option<String>,
    /// Why it did not.
    pub error: Option<String>,
    /// Those that the API lists.
    pub models: Vec<String>,
    /// Why it lists none.
    pub unlisted: Option<String>,
}
