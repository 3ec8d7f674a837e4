//! Events: what happens, as it happens.

use clap::Args;
use hivewright_actors::live::{
    Mark,
    event::{Kind, Kinds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*};

pub const WATCH_EVENTS: Endpoint<EventStream, Empty, EventFilter> =
    get("/api/v1/events", Read, "Sends what happens, as it happens.")
        .description(
            "A stream of server-sent events that does not end by itself. `id` says where it is; \
             `Last-Event-ID`, which goes before `since`, is where a client left off. What cannot \
             be had any more is told by an event `gap`: then, and to begin with, \
             `/api/v1/snapshot` shows all there is.",
        )
        .refuses(&[429]);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct EventFilter {
    /// Only of these types, with commas between them.
    #[arg(long)]
    pub types: Option<Kinds>,
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only of this topic.
    #[arg(long, value_name = "ID")]
    pub topic: Option<String>,
    /// Only of this task.
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Only after the event with this id.
    #[arg(long, value_name = "ID")]
    pub since: Option<Mark>,
}

impl EventFilter {
    pub fn of(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let types = Kinds(kinds.into_iter().collect());
        Self { types: Some(types), ..Self::default() }
    }
}
