//! Monitoring: what watches the process asks for.

use hivewright_actors::{room::Space, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    endpoint::Method::*, endpoint::Needs::Nothing, endpoint::*, reply::*, scope::Scope::*,
};

pub const SHOW_ALIVE: Endpoint<Content> =
    Endpoint::new(Get, "/healthz", Nothing, "Says `ok` while the process answers.").raw();

pub const SHOW_READINESS: Endpoint<Available<Readiness>> =
    Endpoint::new(Get, "/readyz", Nothing, "Says whether the service can serve.")
        .description(
            "It can, unless a commit to the store failed or it is about to stop. With a login \
             the answer also says how its parts are: `ok`, `error`, `locked` (the vault), \
             `demo` (no model is configured) or `slow` (no answer in time). `disk` is told to \
             everyone when there is little room (`low`) or too little for new work (`full`): \
             what was accepted goes on, so the service stays ready.",
        )
        .raw();

pub const SHOW_HEALTH: Endpoint<Bare<Health>> =
    Endpoint::new(Get, "/health", Nothing, "Counts what there is, for simple monitors.")
        .description("A count that is not to be had in time is null, not a guess.")
        .raw();

pub const SHOW_METRICS: Endpoint<Content> =
    get("/metrics", Metrics, "Shows figures in the text form of Prometheus.");

/// Whether the service can serve.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Readiness {
    pub ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<ReadinessChecks>,
    /// Room on the disk, if there is not enough: `low`, or `full`, where no new work is taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Space>,
    /// Why the vault is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReadinessChecks {
    pub store: Condition,
    pub settings: Condition,
    pub vault: Condition,
    pub scheduler: Condition,
    pub channels: Condition,
    pub providers: Condition,
    pub drain: Condition,
    pub disk: Space,
}

words! {
    /// How a part of the service is.
    pub enum Condition {
        Ok = "ok",
        Error = "error",
        /// The vault has no key.
        Locked = "locked",
        /// No model is configured.
        Demo = "demo",
        /// There was no answer in time.
        Slow = "slow",
    }
}

/// Counts for monitors.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub storage: HealthStorage,
    pub sessions: HealthSessions,
    pub triggers: HealthTriggers,
    pub channels: HealthChannels,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthStorage {
    pub ok: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthSessions {
    pub active: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthTriggers {
    pub registered: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthChannels {
    pub connected: Option<usize>,
}
