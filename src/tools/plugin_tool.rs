//! Plugin tools that were imported: each waits to be registered anew.

use hivewright_actors::clock::Timestamp;
use serde::{Deserialize, Serialize};

/// A tool as it is stored, by its team and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginTool {
    pub tool: String,
    /// Always `failed_verification`.
    pub status: String,
    /// What has to be done.
    pub reason: String,
    /// The source, in the team's folder; none if it is gone.
    pub source: Option<String>,
    /// The digest that its source had.
    pub sha256: String,
    pub former_status: String,
    pub created_at: Timestamp,
}

hivewright_actors::records! {
    PluginTool: "edge\0plugin_tool", String;
}
