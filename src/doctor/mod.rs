//! What could be wrong with an installation: each finding says what to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod machine;
pub mod models;
pub mod settings;
pub mod store;

/// How good a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FindingState")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, and should be looked at.
    Warn,
    /// It does not work.
    Error,
}

/// What was found at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What was looked at.
    pub id: &'static str,
    /// How good it is.
    pub state: State,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(id: &'static str, message: impl Into<String>) -> Self {
        Self { id, state: State::Ok, message: message.into(), fix: None }
    }

    /// Something should be looked at.
    pub fn warn(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { id, state: State::Warn, message: message.into(), fix: Some(fix.into()) }
    }

    /// Something does not work.
    pub fn error(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: State::Error, ..Self::warn(id, message, fix) }
    }
}
