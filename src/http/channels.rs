//! `/api/v1/channels`: the ways in and out, and how they stand.

use actix_web::web;
use hivewright_actors::channel::{CountConnections, Reconnect};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    State,
    approvals::{PATIENCE, ask},
    arguments::{Caller, Json, Operate, Read},
    error::ApiError,
    listing,
    operation::Operation,
    reply::{Data, Rows},
    routes::{Resource, at},
    teams::acting::Nothing,
};
use crate::settings::channels::WebSocket;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/channels").get(
            Operation::new("Lists the ways in and out, and how they stand.").pages(&["type"]),
            list,
        ),
        at("/api/v1/channels/{type}/reconnect").post(
            Operation::new("Ends all connections of a channel, so that they are made anew.")
                .description("Clients of `ws` come back by themselves, and miss nothing.")
                .refuses(&[409]),
            reconnect,
        ),
    ]
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
    let is_on = state.service.websocket() != WebSocket::Off;
    vec![Channel {
        kind: "ws",
        state: if is_on { "on" } else { "off" },
        connected,
        error: state.service.channels_fault(),
    }]
}

/// Connections that were ended.
#[derive(Serialize, ToSchema)]
#[schema(as = Reconnected)]
struct Ended {
    #[serde(rename = "type")]
    kind: &'static str,
    /// How many there were.
    connections: usize,
}

async fn reconnect(
    state: web::Data<State>,
    caller: Caller<Operate>,
    kind: web::Path<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<Data<Ended>, ApiError> {
    caller.all_teams()?;
    let known = all(&state, 0).into_iter().find(|row| row.kind == *kind);
    let row = known.ok_or_else(|| ApiError::not_found("there is no channel of this type"))?;
    if row.state == "off" {
        let way_out = "the channel is off; turn it on in `config/channels.yaml`";
        return Err(ApiError::conflict(way_out));
    }
    let ended = state.spine.channel.send(Reconnect).timeout(PATIENCE);
    Ok(Data(Ended { kind: row.kind, connections: ask(ended.await)? }))
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Channel>, ApiError> {
    caller.all_teams()?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = ask(connected.await)?;
    let page = caller.query.page()?;
    listing::page(all(&state, connected), &page, |row| row.kind.to_owned())
}
