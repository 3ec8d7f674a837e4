//! `/api/v1/channels`: the ways in and out, and how they stand.

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use hivewright_actors::channel::CountConnections;
use serde::Serialize;

use super::{
    State,
    approvals::{PATIENCE, ask},
    auth::scope::Scope,
    error::ApiError,
    json,
    routes::{self, Methods},
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/channels", Methods::new().get(list))
}

/// A kind of channel, as answers show it.
#[derive(Clone, Debug, Serialize)]
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

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = ask(connected.await)?;
    Ok(json::list(&all(&state, connected)))
}
