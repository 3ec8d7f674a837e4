//! `/api/v1/channels`: the ways in and out, and how they stand.

use hivewright_actors::channel::{CountConnections, Reconnect};

use super::{State, ask, call::*, error::*, listing};
use crate::{
    api::{channels::*, reply::*},
    settings::channels::WebSocket,
};

/// All of them, with so many connections.
pub(super) fn all(state: &State, connected: usize) -> Vec<Channel> {
    let is_on = state.service.websocket() != WebSocket::Off;
    let websocket = Channel {
        kind: "ws".to_owned(),
        state: if is_on { "on" } else { "off" }.to_owned(),
        connected,
        error: state.service.channels_fault(),
    };
    let discord = state.service.discord().row();
    let discord = discord
        .map(|row| Channel { error: row.error.map(|error| state.secrets.scrub(&error)), ..row });
    [websocket].into_iter().chain(discord).collect()
}

pub(super) async fn reconnect(
    Call { state, caller, path, .. }: Call<ByType>,
) -> ApiResult<Data<Reconnected>> {
    caller.all_teams()?;
    let known = all(&state, 0).into_iter().find(|row| row.kind == path.kind);
    let row = known.ok_or_else(|| ApiError::not_found("there is no channel of this type"))?;
    if row.state == "off" {
        let way_out = "the channel is off; turn it on in `config/channels.yaml`";
        return Err(ApiError::conflict(way_out));
    }
    let connections = if row.kind == "discord" {
        state.service.reconnect_discord();
        row.connected
    } else {
        ask(&state.spine.channel, Reconnect).await?
    };
    Ok(Data(Reconnected { kind: row.kind, connections }))
}

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<Channel>> {
    caller.all_teams()?;
    let connected = ask(&state.spine.channel, CountConnections).await?;
    listing::page(all(&state, connected), &page, |row| row.kind.clone())
}
