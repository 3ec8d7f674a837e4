//! What operators do to teams.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    ids::TeamName,
    org::{
        Beside, Bootstrap, Pause, Shutdown, Spawn, Update, error::OrgError, record::Capability,
        tree::By,
    },
};
use serde::Deserialize;
use serde_json::json;

use super::parts;
use crate::{
    http::{
        State,
        auth::scope::Scope,
        error::ApiError,
        json::{self, Body},
        query::Query,
        routes::{self, Methods},
    },
    teams::creation::{self, Wish, WishError},
    tools::org::{credentials, office::Parts},
};

/// What takes longer goes on without whoever asked for it.
const PATIENCE: Duration = Duration::from_secs(25);

pub(in crate::http) fn pause() -> Resource {
    routes::resource("/api/v1/teams/{name}/pause", Methods::new().post(pause_one))
}

pub(in crate::http) fn resume() -> Resource {
    routes::resource(
        "/api/v1/teams/{name}/resume",
        Methods::new().post(resume_one),
    )
}

pub(in crate::http) fn bootstrap() -> Resource {
    routes::resource(
        "/api/v1/teams/{name}/bootstrap",
        Methods::new().post(set_up_again),
    )
}

pub(in crate::http) fn pause_all() -> Resource {
    routes::resource("/api/v1/pause", Methods::new().post(pause_every))
}

pub(in crate::http) fn resume_all() -> Resource {
    routes::resource("/api/v1/resume", Methods::new().post(resume_every))
}

/// A team that is wanted, with the secrets it is given. They go into its vault and nowhere else.
#[derive(Deserialize)]
struct Order {
    #[serde(flatten)]
    wish: Wish,
    #[serde(default)]
    credentials: BTreeMap<String, String>,
}

impl Body for Order {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "parent",
        "description",
        "scope_accepts",
        "init_context",
        "allowed_tools",
        "provider_profile",
        "budgets",
        "credentials",
    ];
}

impl Order {
    /// Puts the secrets aside under a name. Returns what hands them over to the team once it is there.
    async fn stow(&mut self, parts: &Parts, name: &str) -> Result<Option<Beside>, ApiError> {
        let values = std::mem::take(&mut self.credentials);
        if values.is_empty() {
            return Ok(None);
        }
        if values.len() > credentials::MOST {
            let reason = format!("at most {} are allowed", credentials::MOST);
            return Err(ApiError::invalid_field("credentials", reason));
        }
        let writes = parts.credentials.put_aside(name, &values);
        let writes = writes.map_err(|reason| ApiError::invalid_field("credentials", reason))?;
        let stored = parts.store.commit(writes).await;
        stored.map_err(ApiError::internal)?;
        let wish = &mut self.wish;
        wish.description = credentials::masked(&wish.description, &values);
        if let Some(context) = &mut wish.init_context {
            *context = credentials::masked(context, &values);
        }
        let keys: Vec<String> = values.keys().cloned().collect();
        let (vault, name) = (parts.credentials.clone(), name.to_owned());
        Ok(Some(Box::new(move |team| {
            vault.hand_over(&name, keys, team)
        })))
    }
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    scope_add: Vec<String>,
    #[serde(default)]
    scope_remove: Vec<String>,
    description: Option<String>,
    capabilities: Option<BTreeSet<Capability>>,
}

impl Body for Change {
    const FIELDS: &'static [&'static str] =
        &["scope_add", "scope_remove", "description", "capabilities"];
}

#[derive(Deserialize)]
struct How {
    #[serde(default)]
    now: bool,
}

impl Body for How {
    const FIELDS: &'static [&'static str] = &["now"];
}

#[derive(Deserialize)]
struct Nothing {}

impl Body for Nothing {
    const FIELDS: &'static [&'static str] = &[];
}

/// The organisation says no.
pub(in crate::http) fn refused(error: &OrgError) -> ApiError {
    let status = match error {
        OrgError::Unknown(_) => StatusCode::NOT_FOUND,
        OrgError::Name { .. } | OrgError::NameReserved(_) | OrgError::Scope(_) => {
            StatusCode::BAD_REQUEST
        }
        OrgError::NotAuthorized { .. } | OrgError::Root => StatusCode::FORBIDDEN,
        OrgError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        OrgError::Folder(_) | OrgError::Beside(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::CONFLICT,
    };
    ApiError::new(status, error.code(), error.to_string())
}

fn unwanted(error: WishError) -> ApiError {
    match error {
        WishError::Field { field, reason } => ApiError::invalid_field(field, reason),
        WishError::Settings(found) => ApiError::conflict(found),
        WishError::Refused(error) => refused(&error),
    }
}

pub(super) async fn create(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let mut order: Order = json::read(&request, payload).await?;
    if !order.credentials.is_empty() {
        state.access.require(&request, Scope::Secrets)?;
    }
    let parts = parts(&state)?;
    let task = parts.ids.task();
    let operator = principal.id().to_string();
    order.wish.check(&parts.live).await.map_err(unwanted)?;
    let beside = order.stow(parts, task.as_str()).await?;
    let now = parts.clock.now();
    let spawn = order.wish.order(&parts.live, &operator, task.clone(), now);
    let spawn = Spawn {
        beside,
        ..spawn.await.map_err(unwanted)?
    };
    let made = parts.org.send(spawn).await;
    let key = made
        .map_err(ApiError::internal)?
        .map_err(|error| refused(&error))?;
    Ok(json::data(
        StatusCode::CREATED,
        json!({
            "team": key.name,
            "generation": key.generation,
            "bootstrap_task_id": task,
        }),
    ))
}

pub(super) async fn update(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let change: Change = json::read(&request, payload).await?;
    if change.capabilities.is_some() && !principal.may(Scope::Admin) {
        return Err(ApiError::forbidden(Scope::Admin));
    }
    let description = change.description.as_deref().unwrap_or_default();
    if description.chars().count() > 500 {
        return Err(ApiError::invalid_field(
            "description",
            "at most 500 characters are allowed",
        ));
    }
    let update = Update {
        name: name.into_inner().into(),
        by: By::Operator(principal.id().to_string()),
        add: change.scope_add,
        remove: change.scope_remove,
        description: change.description,
        capabilities: change.capabilities,
        call: None,
    };
    let team = parts(&state)?.org.send(update).await;
    let team = team
        .map_err(ApiError::internal)?
        .map_err(|error| refused(&error))?;
    Ok(json::data(
        StatusCode::OK,
        json!({ "team": team.name, "scope": team.scope, "capabilities": team.capabilities }),
    ))
}

pub(super) async fn shut_down(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    let query = Query::read(&request, &["cascade"])?;
    let cascade = match query.text("cascade") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::invalid_field("cascade", "expected true or false")),
    };
    let name = TeamName::from(name.into_inner());
    let shutdown = Shutdown {
        name: name.clone(),
        cascade,
        by: By::Operator(principal.id().to_string()),
        call: None,
    };
    let ended = parts(&state)?.org.send(shutdown);
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(ended) => {
            let removed = ended
                .map_err(ApiError::internal)?
                .map_err(|error| refused(&error))?;
            Ok(json::data(StatusCode::OK, removed))
        }
        Err(_) => Ok(json::data(
            StatusCode::ACCEPTED,
            json!({ "team": name, "state": "draining" }),
        )),
    }
}

async fn set_paused(
    state: &State,
    team: Option<String>,
    paused: bool,
    now: bool,
) -> Result<HttpResponse, ApiError> {
    let pause = Pause {
        team: team.map(TeamName::from),
        paused,
        now,
    };
    let names = parts(state)?.org.send(pause).await;
    let names = names
        .map_err(ApiError::internal)?
        .map_err(|error| refused(&error))?;
    let standing = if paused { "paused" } else { "active" };
    Ok(json::data(
        StatusCode::OK,
        json!({ "teams": names, "state": standing }),
    ))
}

async fn pause_one(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let How { now } = json::read(&request, payload).await?;
    set_paused(&state, Some(name.into_inner()), true, now).await
}

async fn resume_one(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let Nothing {} = json::read(&request, payload).await?;
    set_paused(&state, Some(name.into_inner()), false, false).await
}

async fn pause_every(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let How { now } = json::read(&request, payload).await?;
    set_paused(&state, None, true, now).await
}

async fn resume_every(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let Nothing {} = json::read(&request, payload).await?;
    set_paused(&state, None, false, false).await
}

/// The first work of a team is given to it again. A team that is ready has none to do.
async fn set_up_again(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let Nothing {} = json::read(&request, payload).await?;
    let parts = parts(&state)?;
    let operator = principal.id().to_string();
    let team = TeamName::from(name.into_inner());
    let task = creation::bootstrap(&team, &operator, parts.ids.task(), parts.clock.now());
    let given = parts.org.send(Bootstrap { task }).await;
    let given = given
        .map_err(ApiError::internal)?
        .map_err(|error| refused(&error))?;
    let phase = if given.is_some() {
        "initializing"
    } else {
        "ready"
    };
    Ok(json::data(
        StatusCode::OK,
        json!({ "team": team, "phase": phase, "task_id": given }),
    ))
}
