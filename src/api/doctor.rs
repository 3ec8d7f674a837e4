//! Doctor: what could be wrong with an installation; each finding says what to do.

use std::borrow::Cow;

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};
use crate::settings::config::Sdk;

pub const SHOW_FINDINGS: Endpoint<Data<Findings>> =
    get("/api/v1/doctor", Read, "Says what could be wrong with the installation.").scrubbed();

pub const EXAMINE: Endpoint<Data<Findings>, Empty, Empty, Examination> =
    post("/api/v1/doctor", Read, "Says what could be wrong, and looks closer if that is wanted.")
        .description(
            "With `deep` each model is asked a question, which costs money and needs the \
     scope `operate` too. With `store` every record of the store is read, which takes a \
     moment and needs that scope too; the service goes on meanwhile.",
        )
        .example(r#"{"deep": false}"#)
        .scrubbed();

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DoctorWish")]
#[serde(default)]
pub struct Examination {
    /// Asks each model a question.
    pub deep: bool,
    /// Reads every record of the store.
    pub store: bool,
}

/// What was found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    pub checks: Vec<Finding>,
    /// Our own loop, and the command-line agents.
    #[serde(default)]
    pub engines: Vec<EngineStatus>,
}

/// What runs turns, as it is installed and used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineStatus {
    pub sdk: Sdk,
    /// Its program. None if it cannot be used, or is our own loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// None if it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The teams that it works for.
    pub teams: Vec<EngineTeam>,
}

/// How a team reaches its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineTeam {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// None if the profile is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<KeyState>,
    /// Why it reaches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

words! {
    /// Whether a profile has the key of its provider.
    pub enum KeyState {
        Present = "present",
        Missing = "missing",
        /// The demo has none.
        Unneeded = "unneeded",
    }
}

words! {
    /// How good a thing is.
    pub enum FindingState {
        /// As it should be.
        Ok = "ok",
        /// It works, and should be looked at.
        Warn = "warn",
        /// It does not work.
        Error = "error",
    }
}

/// What was found at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was looked at.
    pub id: Cow<'static, str>,
    pub state: FindingState,
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(id: &'static str, message: impl Into<String>) -> Self {
        Self { id: id.into(), state: FindingState::Ok, message: message.into(), fix: None }
    }

    /// Something should be looked at.
    pub fn warn(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: FindingState::Warn, fix: Some(fix.into()), ..Self::ok(id, message) }
    }

    /// Something does not work.
    pub fn error(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: FindingState::Error, ..Self::warn(id, message, fix) }
    }
}
