//! `/api/v1/doctor`: what could be wrong with the installation.

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use serde::Deserialize;
use serde_json::json;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json::{self, Body},
    routes::{self, Methods},
};
use crate::doctor::{Finding, machine, models, settings};

pub(super) fn resource() -> Resource {
    routes::resource(
        "/api/v1/doctor",
        Methods::new().get(look).post(look_closely),
    )
}

#[derive(Deserialize)]
struct Wish {
    #[serde(default)]
    deep: bool,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] = &["deep"];
}

async fn look(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    examined(&state, false).await
}

/// A deep look asks each model a question, which costs money.
async fn look_closely(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let Wish { deep } = json::read(&request, payload).await?;
    if deep && !principal.may(Scope::Operate) {
        return Err(ApiError::forbidden(Scope::Operate));
    }
    examined(&state, deep).await
}

async fn examined(state: &web::Data<State>, deep: bool) -> Result<HttpResponse, ApiError> {
    let files = state.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let (home, environment) = (&files.files.home, &files.files.environment);
        let found = settings::check(home, environment);
        let of_machine = [
            machine::modes(home),
            machine::disk(home),
            machine::clock(home),
        ];
        (found, of_machine.concat())
    });
    let (settings, of_machine) = looked.await.map_err(ApiError::internal)?;
    let mut checks = vec![service(state), channels(state)];
    checks.extend(settings.findings);
    checks.extend(of_machine);
    checks.push(vault(state));
    checks.extend(models::check(settings.providers, deep).await);
    if deep {
        let home = &state.files.home;
        checks.extend(machine::sandbox(home, settings.config.as_ref()).await);
    }
    let answer = json!({ "data": { "checks": checks } });
    Ok(json::clean(&state.secrets, &answer))
}

fn service(state: &State) -> Finding {
    let id = "service";
    match state.service.is_draining() {
        true => Finding::warn(id, "is about to stop", "start it again if it should run"),
        false => {
            let minutes = state.started.elapsed().as_secs() / 60;
            Finding::ok(
                id,
                format!("runs since {minutes} minutes, version {}", super::VERSION),
            )
        }
    }
}

fn channels(state: &State) -> Finding {
    let id = "channels";
    match state.service.channels_fault() {
        Some(fault) => Finding::error(id, fault, "mend `config/channels.yaml`"),
        None if state.service.has_websocket() => Finding::ok(id, "WebSocket is on"),
        None => Finding::ok(id, "WebSocket is off"),
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
