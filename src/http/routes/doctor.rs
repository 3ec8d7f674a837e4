//! `/api/v1/doctor`: what could be wrong with the installation.

use actix_web::web;

use hivewright_actors::blocking;

use crate::{
    api::{doctor::*, endpoint::*, reply::*, scope::Scope},
    doctor::{browser, engines, machine, models, settings, store},
    http::{
        kit::{call::*, error::*},
        state::State,
    },
    settings::channels::WebSocket,
};

pub(super) async fn look(Call { state, caller, .. }: Call) -> ApiResult<Data<Findings>> {
    caller.all_teams()?;
    examined(&state, Examination::default()).await
}

pub(super) async fn look_closely(
    Call { state, caller, body: wanted, .. }: Call<Empty, Empty, Examination>,
) -> ApiResult<Data<Findings>> {
    caller.all_teams()?;
    if (wanted.deep || wanted.store) && !caller.principal.may(Scope::Operate) {
        return Err(ApiError::forbidden(Scope::Operate));
    }
    examined(&state, wanted).await
}

async fn examined(
    state: &web::Data<State>,
    Examination { deep, store: whole_store }: Examination,
) -> ApiResult<Data<Findings>> {
    let files = state.clone();
    let looked = blocking::run(move || {
        let (home, environment) = (&files.files.home, &files.files.environment);
        let found = settings::check(home, environment);
        let agents = found.config.as_ref().map(|config| config.engines.clone());
        let agents = agents.unwrap_or_default();
        let engines = engines::look(&files.installations, home, &agents, found.providers.as_ref());
        let of_machine = [
            machine::modes(home),
            engines::findings(&engines, &agents),
            vec![browser::check(home)],
            machine::disk(home),
            machine::clock(home),
        ];
        (found, of_machine.concat(), engines)
    });
    let (settings, of_machine, engines) = looked.await?;
    let mut checks = vec![service(state), channels(state)];
    checks.extend(settings.findings);
    checks.extend(of_machine);
    if whole_store {
        checks.extend(state.read(|storage| store::read_all(storage, &|_| {})).await?);
    }
    checks.push(vault(state));
    checks.extend(models::check(settings.providers, deep, &|_, _| {}).await);
    if deep {
        let home = &state.files.home;
        checks.extend(machine::sandbox(home, settings.config.as_ref()).await);
    }
    Ok(Data(Findings { checks, engines }))
}

fn service(state: &State) -> Finding {
    let id = "service";
    if state.service.is_draining() {
        Finding::warn(id, "is about to stop", "start it again if it should run")
    } else {
        let minutes = state.started.elapsed().as_secs() / 60;
        Finding::ok(
            id,
            format!(
                "has been running for {minutes} minutes, version {}",
                env!("CARGO_PKG_VERSION")
            ),
        )
    }
}

fn channels(state: &State) -> Finding {
    let id = "channels";
    match state.service.channels_fault() {
        Some(fault) => Finding::error(id, fault, "mend `config/channels.yaml`"),
        None => {
            let discord = state.service.discord().row();
            if let Some(error) = discord.as_ref().and_then(|row| row.error.as_ref()) {
                let found = format!("Discord is not connected: {error}");
                return Finding::warn(id, state.secrets.scrub(&found), "see `docs/discord.md`");
            }
            let found = match state.service.websocket() {
                WebSocket::On => "WebSocket is on",
                WebSocket::Loopback => {
                    "WebSocket is on for this machine alone: there is no `config/channels.yaml`"
                }
                WebSocket::Off => "WebSocket is off",
            };
            let discord = discord.map(|row| format!(", Discord is {}", row.state));
            Finding::ok(id, format!("{found}{}", discord.unwrap_or_default()))
        }
    }
}

fn vault(state: &State) -> Finding {
    let id = "vault";
    match state.vault.locked() {
        Some(locked) => Finding::error(
            id,
            format!("is locked: {locked}"),
            "put the master key back where it was, and start the service again",
        ),
        None => Finding::ok(id, "is open"),
    }
}
