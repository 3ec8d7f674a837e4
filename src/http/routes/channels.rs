//! `/api/v1/channels`: the ways in and out, and how they stand.

use std::{collections::BTreeMap, sync::Arc};

use hivewright_actors::{
    channel::{CountConnections, Reconnect},
    plugin::lifecycle::Status,
};

use crate::{
    api::{channels::*, endpoint::*, reply::*},
    channels::discord::rest::{Rest, invite},
    http::{
        kit::{ask::ask, call::*, error::*, listing},
        state::State,
    },
    plugins::instance::{TeamPlugin, config::canonical},
    scrub::REDACTED,
    settings::{channels::WebSocket, secret::Secret},
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
    [websocket].into_iter().chain(discord).chain(of_plugins(state)).collect()
}

/// Channels of plugins: one for each plugin, whichever teams have it.
fn of_plugins(state: &State) -> Vec<Channel> {
    let mut found: BTreeMap<String, Vec<Arc<TeamPlugin>>> = BTreeMap::new();
    for plugin in state.plugins.channels() {
        found.entry(canonical(&plugin.key)).or_default().push(plugin);
    }
    let row = |(kind, plugins): (String, Vec<Arc<TeamPlugin>>)| {
        let stands: Vec<_> = plugins.iter().map(|plugin| plugin.row()).collect();
        let is_any = |status| stands.iter().any(|row| row.status == status);
        let state = if is_any(Status::Failed) {
            "failed"
        } else if is_any(Status::Backoff) {
            "retrying"
        } else if stands.iter().all(|row| row.status == Status::Running) {
            "connected"
        } else {
            "connecting"
        };
        let errors = stands.iter().filter_map(|row| {
            row.last_error.as_ref().map(|error| format!("{}: {error}", row.team.name))
        });
        Channel {
            kind,
            state: state.to_owned(),
            connected: stands.iter().filter(|row| row.status == Status::Running).count(),
            error: errors.reduce(|all, one| format!("{all}; {one}")),
        }
    };
    found.into_iter().map(row).collect()
}

pub(super) async fn try_discord(
    Call { state, caller, body: DiscordTrial { token }, .. }: Call<Empty, Empty, DiscordTrial>,
) -> ApiResult<Data<DiscordTried>> {
    // It reaches whatever address the settings name, with what is sent.
    caller.everything()?;
    let settings = state.org().live.held().map(|held| held.channels.discord.clone());
    let api_url = settings.unwrap_or_default().api_url;
    let rest =
        Rest::new(&api_url, Secret::new(token.trim().to_owned())).map_err(ApiError::internal)?;
    let tried = match rest.me().await {
        Ok(me) => {
            DiscordTried { invite: Some(invite(me.id)), bot: Some(me.name.clone()), error: None }
        }
        Err(error) => {
            // Whoever answers may repeat the token.
            let error = error.to_string().replace(token.trim(), REDACTED);
            DiscordTried { bot: None, invite: None, error: Some(error) }
        }
    };
    Ok(Data(tried))
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
    let connections = match row.kind.as_str() {
        "discord" => {
            state.service.reconnect_discord();
            row.connected
        }
        "ws" => ask(&state.spine.channel, Reconnect).await?,
        kind => {
            let all = state.plugins.channels().into_iter();
            all.filter(|plugin| canonical(&plugin.key) == kind).for_each(|plugin| plugin.restart());
            row.connected
        }
    };
    Ok(Data(Reconnected { kind: row.kind, connections }))
}

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<Channel>> {
    caller.all_teams()?;
    let connected = ask(&state.spine.channel, CountConnections).await?;
    listing::page(all(&state, connected), &page, |row| row.kind.clone())
}
