//! `/api/v1/channels`: the ways in and out, and how they stand.

use actix_web::web;
use hivewright_actors::channel::CountConnections;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    State,
    approvals::{PATIENCE, ask},
    arguments::{Caller, Read},
    error::ApiError,
    listing,
    operation::Operation,
    reply::Rows,
    routes::{Resource, at},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![at("/api/v1/channels").get(
        Operation::new("Lists the ways in and out, and how they stand.").pages(&["type"]),
        list,
    )]
}

/// A kind of channel, as answers show it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Channel {
    #[serde(rename = "type")]
    kind: &'static str,
    /// `on` or `off`.
    state: &'static str,
    /// Clients that are connected now.
    connected: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// All of them, with so many connections.
pub(super) fn all(state: &State, connected: usize) -> Vec<Channel> {
    let is_on = state.service.has_websocket();
    vec![Channel {
        kind: "ws",
        state: if is_on { "on" } else { "off" },
        connected,
        error: state.service.channels_fault(),
    }]
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Channel>, ApiError> {
    caller.all_teams()?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = ask(connected.await)?;
    let page = caller.query.page()?;
    listing::page(all(&state, connected), &page, |row| row.kind.to_owned())
}
