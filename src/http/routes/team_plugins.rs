//! `/api/v1/teams/{name}/plugins`: the plugins of a team. Its file is the truth; what is set here is written there.

use std::{collections::BTreeSet, sync::Arc};

use actix_web::web;
use hivewright_actors::{
    blocking,
    ids::{TeamKey, TeamName},
    plugin::lifecycle::Status,
};
use serde_json::{Value, json};

use super::{
    config::{editing, looking},
    teams::known_team,
    vault,
};
use crate::{
    api::{endpoint::*, reply::*, scope::Scope, team_plugins::*},
    http::{
        kit::{call::*, error::*, json as dates, listing},
        ports::Files,
        state::State,
    },
    plugins::{
        instance::{
            TeamPlugin,
            config::{shown, unmasked, uses_secrets},
            setup::{
                SetupProgress, SetupStep,
                state::{SetupError, SetupState},
            },
        },
        package::Package,
        schema::{Mismatch, listed},
    },
    settings::{
        home::Home,
        load,
        plugins::{LARGEST_CONFIG, PluginSwitch},
        problem::Problem,
        replace::{self, replace},
        team::Team,
    },
    teams::file::with_plugin,
    tools::{REGISTRY, filter::ToolFilter},
};

fn row(state: &State, team: &TeamKey, key: &str, file: &Team) -> TeamPluginRow {
    let switch = file.plugins.0.get(key).cloned().unwrap_or_default();
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
    let setup = plugin.setup().map(|(session, state)| PluginSetup { session, state });
    let channel = manifest.and_then(|it| it.channel.as_ref());
    let status = match stands.status {
        _ if package.is_none() => Status::Unavailable,
        // It is settled with the next turn at the latest.
        Status::Disabled if switch.enabled => Status::Idle,
        Status::Disabled if setup.is_some() => Status::Setup,
        status => status,
    };
    let namespace = manifest.and_then(|it| it.tools.as_ref()).map(|it| it.namespace.clone());
    let offers = plugin.offers().filter(|_| switch.enabled).unwrap_or_default();
    let allowed = ToolFilter::parse(&file.allowed_tools, REGISTRY).unwrap_or_default();
    let is_left_out = |namespace: &String| !allowed.could_allow(&format!("{namespace}."));
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
        withheld: namespace.as_ref().is_some_and(is_left_out),
        trusted_output: stands.trusted_output,
        has_setup: channel.is_some_and(|channel| channel.setup),
        setup,
        webhook_url: channel
            .is_some_and(|channel| channel.webhook.is_some())
            .then(|| plugin.webhook_url()),
    }
}

/// What the file of a team says now.
async fn file_of(state: &web::Data<State>, team: &TeamName) -> ApiResult<Arc<Team>> {
    let (looking, team) = (state.clone(), team.clone());
    let file = blocking::run(move || looking.org().live.team_now(&team)).await?;
    file.map_err(|found| ApiError::conflict(found.to_string()))
}

pub(super) async fn list(
    Call { state, caller, path: ByName { name }, page, .. }: Call<ByName>,
) -> ApiResult<Rows<TeamPluginRow>> {
    let team = known_team(&state, &caller, &name)?;
    let file = file_of(&state, &team.name).await?;
    let loaded = state.plugins.catalogue().now();
    let mut all: BTreeSet<&str> = loaded.packages.keys().map(|key| key.as_str()).collect();
    all.extend(file.plugins.0.keys().map(String::as_str));
    let rows = all.into_iter().map(|key| row(&state, &team, key, &file));
    listing::page(rows, &page, |row| row.key.clone())
}

pub(super) async fn set(
    Call { state, caller, path, body, .. }: Call<ByTeamPlugin, Empty, TeamPluginChange>,
) -> ApiResult<Data<TeamPluginRow>> {
    let ByTeamPlugin { team, key } = path;
    let team = known_team(&state, &caller, &team)?;
    let missing = || ApiError::not_found(format!("no plugin `{key}` is installed"));
    let package = state.plugins.catalogue().get(&key);
    let TeamPluginChange { enabled, config, trusted_output } = body;
    let now = file_of(&state, &team.name).await?.plugins.0.get(&key).cloned();
    // One that is not there guards the team until it is switched off.
    let is_lifted = now.is_some() && enabled == Some(false);
    if package.is_none() && !is_lifted {
        return Err(missing());
    }
    let mut now = now.unwrap_or_default();
    let config = config.map(Value::Object).map(|sent| match &package {
        Some(package) => unmasked(&package.schema, &sent, &now.config),
        None => sent,
    });
    let mut change = Change { enabled, config, may_run: caller.principal.teams.is_none() };
    let is_other = change.config.as_ref().is_some_and(|config| *config != now.config);
    // Before the vault or a file is touched.
    change.make(&mut now)?;
    if let Some(config) = &change.config {
        let package = package.ok_or_else(missing)?;
        if config.to_string().len() > LARGEST_CONFIG {
            return Err(ApiError::unfit("config", "is larger than 64 KiB"));
        }
        if is_other && uses_secrets(&package.schema, config) {
            may_keep_secrets(&caller)?;
        }
        let (wanted, by) = (config.clone(), vault::operator(&caller));
        let planned = change.clone();
        try_to_write(&state, &team.name, &key, move |switch| planned.make(switch)).await?;
        let received = state.plugins.received(&team, &package, &wanted, &by).await;
        change.config = Some(received.map_err(|wrong| refused(&wrong))?);
    }
    write(&state, &team.name, &key, move |switch| change.make(switch)).await?;
    let file = file_of(&state, &team.name).await?;
    state.plugins.settle(&team, &file.plugins);
    if let Some(patterns) = trusted_output {
        let trusted = state.plugins.get(&team, &key).trust(patterns).await;
        trusted.map_err(ApiError::internal)?;
    }
    Ok(Data(row(&state, &team, &key, &file)))
}

/// What becomes of the entry of a plugin in a team's file. What is not given stays as it is.
#[derive(Clone)]
struct Change {
    enabled: Option<bool>,
    config: Option<Value>,
    /// A plugin is a program: who may not give a team more of the machine may not switch one on.
    may_run: bool,
}

impl Change {
    fn make(&self, switch: &mut PluginSwitch) -> ApiResult<()> {
        let before = switch.clone();
        switch.enabled = self.enabled.unwrap_or(switch.enabled);
        if let Some(config) = &self.config {
            switch.config = config.clone();
        }
        let needs_right = switch.enabled && *switch != before;
        if needs_right && !self.may_run { Err(ApiError::other_team()) } else { Ok(()) }
    }
}

fn may_keep_secrets(caller: &Caller) -> ApiResult<()> {
    let may = caller.principal.may(Scope::Secrets);
    if may { Ok(()) } else { Err(ApiError::forbidden(Scope::Secrets)) }
}

fn refused(wrong: &[Mismatch]) -> ApiError {
    let message = listed(wrong);
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

/// The file of a team, as it is now, with what is switched in it; none if that changes nothing.
fn edited(
    home: &Home,
    team: &TeamName,
    key: &str,
    change: impl FnOnce(&mut PluginSwitch) -> ApiResult<()>,
) -> ApiResult<Option<String>> {
    let path = home.team_file(team.as_str());
    let old = replace::text(&path)?;
    let mut expected = load::team_of(home, team.as_str(), &old)
        .map_err(|found| ApiError::conflict(found.to_string()))?;
    let before = expected.plugins.0.get(key).cloned().unwrap_or_default();
    let mut switch = before.clone();
    change(&mut switch)?;
    if switch == before {
        return Ok(None);
    }
    expected.plugins.0.insert(key.to_owned(), switch);
    let text = with_plugin(&old, &expected.plugins, key);
    if load::team_of(home, team.as_str(), &text).as_ref() != Ok(&expected) {
        let path = path.display();
        let reason = format!("`plugins` cannot be changed in {path}; change it by hand");
        return Err(ApiError::conflict(reason));
    }
    Ok(Some(text))
}

/// Finds out whether a change could be written, before secrets of it go into the vault.
async fn try_to_write(
    state: &web::Data<State>,
    team: &TeamName,
    key: &str,
    change: impl FnOnce(&mut PluginSwitch) -> ApiResult<()> + Send + 'static,
) -> ApiResult<()> {
    let (team, key) = (team.clone(), key.to_owned());
    let tried = looking(state, move |Files { home, .. }| edited(home, &team, &key, change));
    tried.await?.map(drop)
}

/// Writes what is switched into the file of a team, as it is now.
async fn write(
    state: &web::Data<State>,
    team: &TeamName,
    key: &str,
    change: impl FnOnce(&mut PluginSwitch) -> ApiResult<()> + Send + 'static,
) -> ApiResult<()> {
    let (name, key) = (team.clone(), key.to_owned());
    let written = editing(state, move |Files { home, .. }| -> ApiResult<bool> {
        let Some(text) = edited(home, &name, &key, change)? else { return Ok(false) };
        replace(&home.team_file(name.as_str()), &home.teams(), &text)?;
        Ok(true)
    });
    if !written.await?? {
        return Ok(());
    }
    let file = state.files.home.team_file(team.as_str());
    state.taint.operator_wrote(file).await.map_err(ApiError::internal)
}

pub(super) async fn restart(
    Call { state, caller, path: ByTeamPlugin { team, key }, .. }: Call<ByTeamPlugin>,
) -> ApiResult<Data<TeamPluginRow>> {
    let team = known_team(&state, &caller, &team)?;
    let file = file_of(&state, &team.name).await?;
    state.plugins.settle(&team, &file.plugins);
    if !file.plugins.0.get(&key).is_some_and(|switch| switch.enabled) {
        let reason = format!("team `{}` has not switched on a plugin `{key}`", team.name);
        return Err(ApiError::not_found(reason));
    }
    if state.plugins.catalogue().get(&key).is_none() {
        return Err(ApiError::conflict(format!("plugin `{key}` is not loaded")));
    }
    state.plugins.get(&team, &key).restart();
    Ok(Data(row(&state, &team, &key, &file)))
}

impl From<SetupError> for ApiError {
    fn from(error: SetupError) -> Self {
        let message = error.to_string();
        match error {
            SetupError::None | SetupError::Unknown => Self::not_found(message),
            SetupError::WrongState => Self::conflict_as("wrong_state", message),
            SetupError::Unfit { field, .. } => Self::unfit(format!("values.{field}"), message),
            _ => Self::conflict_as("plugin_failed", message),
        }
    }
}

/// The plugin that a step of a setup is about.
async fn setup_of(
    state: &State,
    caller: &Caller,
    ByTeamPlugin { team, key }: &ByTeamPlugin,
) -> ApiResult<(TeamKey, Arc<TeamPlugin>, Arc<Package>)> {
    caller.all_teams()?;
    let team = known_team(state, caller, team)?;
    let missing = || ApiError::not_found(format!("no plugin `{key}` is installed"));
    let package = state.plugins.catalogue().get(key).ok_or_else(missing)?;
    // What a setup finds out is kept in the vault.
    may_keep_secrets(caller)?;
    let plugin = state.plugins.get(&team, key);
    Ok((team, plugin, package))
}

pub(super) async fn begin_setup(
    Call { state, caller, path, .. }: Call<ByTeamPlugin>,
) -> ApiResult<Data<PluginSetup>> {
    let (team, plugin, package) = setup_of(&state, &caller, &path).await?;
    let progress = plugin.begin_setup(&package).await?;
    settled(&state, &caller, &team, &package, progress).await
}

pub(super) async fn poll_setup(
    Call { state, caller, path, body, .. }: Call<ByTeamPlugin, Empty, SetupSession>,
) -> ApiResult<Data<PluginSetup>> {
    let (team, plugin, package) = setup_of(&state, &caller, &path).await?;
    let progress = plugin.go_on_with_setup(&body.session, SetupStep::Poll).await?;
    settled(&state, &caller, &team, &package, progress).await
}

pub(super) async fn submit_setup(
    Call { state, caller, path, body, .. }: Call<ByTeamPlugin, Empty, SetupValues>,
) -> ApiResult<Data<PluginSetup>> {
    let (team, plugin, package) = setup_of(&state, &caller, &path).await?;
    let progress = plugin.go_on_with_setup(&body.session, SetupStep::Submit(body.values)).await?;
    settled(&state, &caller, &team, &package, progress).await
}

pub(super) async fn cancel_setup(
    Call { state, caller, path, body, .. }: Call<ByTeamPlugin, Empty, SetupSession>,
) -> ApiResult<Data<PluginSetup>> {
    let (_, plugin, _) = setup_of(&state, &caller, &path).await?;
    let SetupProgress { session, state, .. } = plugin.cancel_setup(&body.session).await?;
    Ok(Data(PluginSetup { session, state }))
}

/// A step is done. The settings at the end of a setup are checked and written, and the plugin is switched on.
async fn settled(
    state: &web::Data<State>,
    caller: &Caller,
    team: &TeamKey,
    package: &Package,
    progress: SetupProgress,
) -> ApiResult<Data<PluginSetup>> {
    let SetupProgress { session, state: stands, config } = progress;
    let Some(channel) = config else {
        return Ok(Data(PluginSetup { session, state: stands }));
    };
    let key = package.manifest.key.as_str();
    let switch = file_of(state, &team.name).await?.plugins.0.get(key).cloned();
    let mut config = switch.unwrap_or_default().config;
    config["channel"] = Value::Object(channel);
    if config.to_string().len() > LARGEST_CONFIG {
        let message = "The plugin made settings that are larger than 64 KiB.".to_owned();
        return Ok(Data(PluginSetup { session, state: SetupState::Error { message } }));
    }
    let set_up = |mut config: Value| {
        move |switch: &mut PluginSwitch| {
            switch.enabled = true;
            switch.config["channel"] = config["channel"].take();
            Ok(())
        }
    };
    try_to_write(state, &team.name, key, set_up(config.clone())).await?;
    let by = vault::operator(caller);
    let stands = match state.plugins.received(team, package, &config, &by).await {
        Ok(config) => {
            write(state, &team.name, key, set_up(config)).await?;
            let file = file_of(state, &team.name).await?;
            state.plugins.settle(team, &file.plugins);
            stands
        }
        Err(wrong) => {
            let message = format!("The plugin made settings that do not fit: {}", listed(&wrong));
            SetupState::Error { message }
        }
    };
    Ok(Data(PluginSetup { session, state: stands }))
}
