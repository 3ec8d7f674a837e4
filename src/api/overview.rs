//! Overview: the state of the service at a glance.

use hivewright_actors::{room::Space, scheduler::views::Counts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{channels::Channel, endpoint::*, reply::*, scope::Scope::*, when::*};

pub const SHOW_OVERVIEW: Endpoint<Data<Overview>> =
    get("/api/v1/overview", Read, "Shows the state of the service at a glance.");

/// The state of the service at a glance.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    pub uptime_s: u64,
    pub version: String,
    /// No model is configured: a script answers.
    pub demo: bool,
    pub store_bytes: u64,
    /// Room on the disk: where it is `full`, no new work is taken in.
    pub disk: Space,
    /// Bytes free on the disk.
    pub free_bytes: Option<u64>,
    pub teams: TeamCounts,
    pub tasks: TaskCounts,
    pub triggers: Counts,
    pub channels: Vec<Channel>,
    /// What is wrong with the settings files. What they said before counts meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings_error: Option<String>,
    pub approvals_open: usize,
    pub questions_open: usize,
    pub inbox_unread: usize,
    pub spend_today_usd: f64,
    /// The date, in the time zone that days are counted by.
    pub today: String,
    /// When that day ends.
    pub today_ends_at: Option<Moment>,
    /// The service is about to stop.
    pub drain: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TeamCounts {
    pub total: usize,
    /// Those that may work.
    pub active: usize,
    pub paused: usize,
    pub degraded: usize,
    /// Those that have an actor now.
    pub alive: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    pub queued: usize,
    pub running: usize,
    /// Their turn was set aside.
    pub waiting: usize,
}
