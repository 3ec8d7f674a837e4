//! Snapshot: all that a watcher of events needs to begin with.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    approvals::ApprovalRow,
    channels::Channel,
    endpoint::*,
    jobs::Job,
    overview::Overview,
    questions::QuestionRow,
    reply::*,
    scope::Scope::*,
    teams::TeamNode,
    topics::{RunningTurn, TopicRow},
};

pub const SHOW_SNAPSHOT: Endpoint<Data<Snapshot>> =
    get("/api/v1/snapshot", Read, "Shows all that a watcher of events needs to begin with.")
        .description("Events of the same `boot` with a `seq` up to the one here are in it already.")
        .scrubbed();

/// Everything at one place in the order of events.
#[derive(Serialize, JsonSchema)]
pub struct Snapshot {
    /// The process that it is of.
    pub boot: u64,
    /// All events up to here are in it.
    pub seq: u64,
    pub overview: Overview,
    pub org: Option<TeamNode>,
    pub running: Vec<RunningTurn>,
    pub approvals: Vec<ApprovalRow>,
    pub questions: Vec<QuestionRow>,
    pub inbox_unread: usize,
    pub topics: Vec<TopicRow>,
    pub channels: Vec<Channel>,
    pub jobs: Vec<Job>,
}
