//! `/api/v1/teams/{name}/plugins`: the plugins of a team. Its file is the truth; what is set here is written there.

use std::collections::BTreeMap;

use actix_web::web;
use hivewright_actors::{
    blocking,
    ids::{TeamKey, TeamName},
    plugin::lifecycle::Status,
};
use serde_json::{Value, json};

use super::{State, call::*, error::*, json as dates, listing, vault};
use crate::{
    api::{endpoint::*, reply::*, team_plugins::*},
    plugins::{instance::config::shown, schema::Mismatch},
    settings::{
        load,
        plugins::{LARGEST_CONFIG, PluginSwitch, Plugins},
        problem::Problem,
        replace::{self, replace},
    },
    teams::file::with_plugin,
};

fn row(state: &State, team: &TeamKey, key: &str, switch: &PluginSwitch) -> TeamPluginRow {
    let package = state.plugins.catalogue().get(key);
    let plugin = state.plugins.get(team, key);
    let stands = plugin.row();
    let manifest = package.as_ref().map(|package| &package.manifest);
    let mut capabilities = Vec::new();
    if let Some(manifest) = manifest {
        let brings = [
            ("tools", manifest.tools.is_some()),
            ("channel", manifest.channel.is_some()),
            ("hooks", manifest.hooks.is_some()),
        ];
        capabilities
            .extend(brings.iter().filter(|(_, has)| *has).map(|(name, _)| (*name).to_owned()));
    }
    let status = match stands.status {
        _ if package.is_none() => Status::Unavailable,
        // It is settled with the next turn at the latest.
        Status::Disabled if switch.enabled => Status::Idle,
        status => status,
    };
    let namespace = manifest.and_then(|it| it.tools.as_ref()).map(|it| it.namespace.clone());
    let offers = plugin.offers().filter(|_| switch.enabled).unwrap_or_default();
    let tools = namespace.iter().flat_map(|namespace| {
        offers.tools.iter().map(move |tool| format!("{namespace}.{}", tool.name))
    });
    TeamPluginRow {
        key: key.to_owned(),
        display_name: manifest.map_or_else(|| key.to_owned(), |it| it.display_name.clone()),
        capabilities,
        enabled: switch.enabled,
        config: match &package {
            Some(package) => shown(&package.schema, &switch.config),
            // Nobody knows what in it is a secret.
            None => json!({}),
        },
        status,
        last_error: stands.last_error,
        last_error_at: stands.last_error_at.and_then(dates::date),
        runtime_state: stands.runtime_state,
        tools: tools.collect(),
        trusted_output: stands.trusted_output,
    }
}

fn team_of(state: &State, name: &str) -> ApiResult<TeamKey> {
    let team = state.service.team(name);
    team.ok_or_else(|| ApiError::not_found(format!("there is no team `{name}`")))
}

/// What the file of a team says of plugins now.
async fn switches(state: &web::Data<State>, team: &TeamName) -> ApiResult<Plugins> {
    let (looking, team) = (state.clone(), team.clone());
    let file = blocking::run(move || looking.org().live.team_now(&team)).await?;
    let file = file.map_err(|found| ApiError::conflict(found.to_string()))?;
    Ok(file.plugins.clone())
}

pub(super) async fn list(
    Call { state, caller, path: ByName { name }, page, .. }: Call<ByName>,
) -> ApiResult<Rows<TeamPluginRow>> {
    caller.team(&name)?;
    let team = team_of(&state, &name)?;
    let mut all: BTreeMap<String, PluginSwitch> = switches(&state, &team.name).await?.0;
    for key in state.plugins.catalogue().now().packages.keys() {
        all.entry(key.to_string()).or_default();
    }
    let rows = all.iter().map(|(key, switch)| row(&state, &team, key, switch));
    listing::page(rows, &page, |row| row.key.clone())
}

pub(super) async fn set(
    Call { state, caller, path: ByTeamPlugin { team, key }, body, .. }: Call<
        ByTeamPlugin,
        Empty,
        TeamPluginChange,
    >,
) -> ApiResult<Data<TeamPluginRow>> {
    caller.team(&team)?;
    let team = team_of(&state, &team)?;
    let missing = || ApiError::not_found(format!("no plugin `{key}` is installed"));
    let package = state.plugins.catalogue().get(&key).ok_or_else(missing)?;
    let TeamPluginChange { enabled, config, trusted_output } = body;
    let before = switches(&state, &team.name).await?.0.remove(&key).unwrap_or_default();
    let mut switch = before.clone();
    switch.enabled = enabled.unwrap_or(switch.enabled);
    if let Some(config) = config {
        if Value::Object(config.clone()).to_string().len() > LARGEST_CONFIG {
            return Err(ApiError::unfit("config", "is larger than 64 KiB"));
        }
        let (config, by) = (Value::Object(config), vault::operator(&caller));
        let received = state.plugins.received(&team, &package, &config, &by).await;
        switch.config = received.map_err(|wrong| refused(&wrong))?;
    }
    if switch != before {
        // A plugin is a program: who may not give a team more of the machine may not switch one on.
        if switch.enabled && caller.principal.teams.is_some() {
            return Err(ApiError::other_team());
        }
        write(&state, &team.name, &key, &switch).await?;
    }
    let settled = switches(&state, &team.name).await?;
    state.plugins.settle(&team, &settled);
    if let Some(patterns) = trusted_output {
        state.plugins.get(&team, &key).trust(patterns);
    }
    Ok(Data(row(&state, &team, &key, &switch)))
}

fn refused(wrong: &[Mismatch]) -> ApiError {
    let words = wrong.iter().map(|it| format!("`{}`: {}", it.pointer, it.message));
    let message = words.collect::<Vec<_>>().join("; ");
    let problem = |it: &Mismatch| Problem {
        file: "config".to_owned(),
        path: it.pointer.clone(),
        line: 0,
        column: 0,
        reason: it.message.clone(),
    };
    let problems = wrong.iter().map(problem).collect();
    ApiError::config_invalid(message, problems)
}

/// Writes what is switched into the file of a team.
async fn write(
    state: &web::Data<State>,
    team: &TeamName,
    key: &str,
    switch: &PluginSwitch,
) -> ApiResult<()> {
    let (looking, name) = (state.clone(), team.clone());
    let (key, switch) = (key.to_owned(), switch.clone());
    let written = blocking::run(move || {
        let home = &looking.files.home;
        let (path, beside) = (home.team_file(name.as_str()), home.teams());
        let old = replace::text(&path)?;
        let mut expected = load::team_of(home, name.as_str(), &old)
            .map_err(|found| ApiError::conflict(found.to_string()))?;
        expected.plugins.0.insert(key.clone(), switch.clone());
        let text = with_plugin(&old, &expected.plugins, &key);
        if load::team_of(home, name.as_str(), &text).as_ref() != Ok(&expected) {
            let path = path.display();
            let reason = format!("`plugins` cannot be changed in {path}; change it by hand");
            return Err(ApiError::conflict(reason));
        }
        Ok(replace(&path, &beside, &text)?)
    });
    written.await??;
    let file = state.files.home.team_file(team.as_str());
    state.taint.operator_wrote(file).await.map_err(ApiError::internal)
}

pub(super) async fn restart(
    Call { state, caller, path: ByTeamPlugin { team, key }, .. }: Call<ByTeamPlugin>,
) -> ApiResult<Data<TeamPluginRow>> {
    caller.team(&team)?;
    let team = team_of(&state, &team)?;
    let wanted = switches(&state, &team.name).await?;
    state.plugins.settle(&team, &wanted);
    let switch = wanted.0.get(&key).filter(|switch| switch.enabled).cloned();
    let Some(switch) = switch else {
        let reason = format!("team `{}` has not switched on a plugin `{key}`", team.name);
        return Err(ApiError::not_found(reason));
    };
    if state.plugins.catalogue().get(&key).is_none() {
        return Err(ApiError::conflict(format!("plugin `{key}` is not loaded")));
    }
    state.plugins.get(&team, &key).restart();
    Ok(Data(row(&state, &team, &key, &switch)))
}
