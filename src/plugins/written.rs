//! Tools that teams wrote: how each stands, and what was checked of it.

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// How a tool stands.
    #[derive(Default)]
    #[schemars(rename = "PluginToolStatus")]
    pub enum Status {
        /// It can be loaded.
        #[default]
        Active = "active",
        /// Its team or an operator gave it up.
        Deprecated = "deprecated",
        /// It is not what was verified, or was not verified yet.
        FailedVerification = "failed_verification",
        /// Its source is gone.
        Removed = "removed",
    }
}

/// The checks of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginToolVerification")]
pub struct Verification {
    pub ok: bool,
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginToolCheck")]
pub struct Check {
    pub check: String,
    pub ok: bool,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Check {
    pub fn passed(check: &str) -> Self {
        Self { check: check.to_owned(), ok: true, message: String::new() }
    }
}
