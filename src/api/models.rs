//! Models: an API is tried out before a profile for it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::settings::providers::Provider;

pub const TRY_MODEL: Endpoint<Data<ModelTried>, Empty, Empty, ModelTrial> = post(
    "/api/v1/models/try",
    Admin,
    "Asks a model one question, and which models its API has. Nothing is stored.",
)
.description("What the API refuses is told in the answer. Needs every scope, and all teams.")
.refuses(&[422])
.secret()
.example(r#"{"provider": "offline"}"#);

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
}
