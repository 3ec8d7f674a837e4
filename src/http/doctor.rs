//! `/api/v1/doctor`: what could be wrong with the installation.

use actix_web::web;
use hivewright_actors::storage::Storage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    arguments::{Caller, Json, Read},
    error::ApiError,
    operation::Operation,
    reply::{Clean, Data},
    routes::{Resource, at},
};
use crate::{
    api::scope::Scope,
    doctor::{Finding, machine, models, settings, store},
    settings::channels::WebSocket,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/doctor")
            .get(
                Operation::new("Says what could be wrong with the installation."),
                look,
            )
            .post(
                Operation::new("Says what could be wrong, and looks closer if that is wanted.")
                    .description(
                        "With `deep` each model is asked a question, which costs money and needs the \
                         scope `operate` too. With `store` every record of the store is read, which takes a \
                         moment and needs that scope too; the service goes on meanwhile.",
                    )
                    .example(r#"{"deep": false}"#),
                look_closely,
            ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DoctorWish")]
struct Wish {
    /// Asks each model a question.
    #[serde(default)]
    deep: bool,
    /// Reads every record of the store.
    #[serde(default)]
    store: bool,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Findings")]
struct Report {
    checks: Vec<Finding>,
}

async fn look(
    state: web::Data<State>,
    caller: Caller<Read>,
) -> Result<Clean<Data<Report>>, ApiError> {
    caller.all_teams()?;
    examined(&state, false, false).await
}

/// A deep look asks each model a question, which costs money.
async fn look_closely(
    state: web::Data<State>,
    caller: Caller<Read>,
    Json(Wish { deep, store }): Json<Wish>,
) -> Result<Clean<Data<Report>>, ApiError> {
    caller.all_teams()?;
    if (deep || store) && !caller.principal.may(Scope::Operate) {
        return Err(ApiError::forbidden(Scope::Operate));
    }
    examined(&state, deep, store).await
}

async fn examined(
    state: &web::Data<State>,
    deep: bool,
    whole_store: bool,
) -> Result<Clean<Data<Report>>, ApiError> {
    let files = state.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let (home, environment) = (&files.files.home, &files.files.environment);
        let found = settings::check(home, environment);
        let of_machine = [machine::modes(home), machine::disk(home), machine::clock(home)];
        (found, of_machine.concat())
    });
    let (settings, of_machine) = looked.await.map_err(ApiError::internal)?;
    let mut checks = vec![service(state), channels(state)];
    checks.extend(settings.findings);
    checks.extend(of_machine);
    if whole_store {
        let read = |storage: &dyn Storage| store::read_all(storage, &|_| {});
        let found = state.spine.store.read(read).await;
        checks.extend(found.map_err(ApiError::internal)?);
    }
    checks.push(vault(state));
    checks.extend(models::check(settings.providers, deep, &|_, _| {}).await);
    if deep {
        let home = &state.files.home;
        checks.extend(machine::sandbox(home, settings.config.as_ref()).await);
    }
    Ok(Clean::new(&state.secrets, Data(Report { checks })))
}

fn service(state: &State) -> Finding {
    let id = "service";
    if state.service.is_draining() {
        Finding::warn(id, "is about to stop", "start it again if it should run")
    } else {
        let minutes = state.started.elapsed().as_secs() / 60;
        Finding::ok(id, format!("runs since {minutes} minutes, version {}", super::VERSION))
    }
}

fn channels(state: &State) -> Finding {
    let id = "channels";
    match state.service.channels_fault() {
        Some(fault) => Finding::error(id, fault, "mend `config/channels.yaml`"),
        None => {
            let found = match state.service.websocket() {
                WebSocket::On => "WebSocket is on",
                WebSocket::Loopback => {
                    "WebSocket is on for this machine alone: there is no `config/channels.yaml`"
                }
                WebSocket::Off => "WebSocket is off",
            };
            Finding::ok(id, found)
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
