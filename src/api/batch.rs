//! Several acts in one request: each succeeds or fails alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why one of several acts failed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ItemError {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}
