//! Changes of teams by operators: made, altered, paused, shut down.

use std::{collections::BTreeMap, time::Duration};

use actix_web::http::StatusCode;
use hivewright_actors::{
    ids::{MAIN, TeamName},
    org::{
        Beside, Bootstrap, Pause, Removed, Shutdown, Spawn, Update,
        error::OrgError,
        record::{Phase, TeamState},
        tree::By,
    },
    queue::refusal::Refusal,
};

use super::known_team;
use crate::{
    api::{endpoint::*, reply::*, scope::Scope, teams::*},
    http::{
        kit::{call::*, error::*},
        routes::vault,
        state::State,
    },
    teams::{
        creation::{self, WishError},
        credentials,
        service::Parts,
    },
    vault::audit::Actor,
};

/// What takes longer goes on without whoever asked for it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);

/// Takes secrets out of what is said of a team. Returns what gives them to the team once it is there.
fn stow(
    wish: &mut NewTeam,
    values: BTreeMap<String, String>,
    parts: &Parts,
    by: Actor,
) -> ApiResult<Option<Beside>> {
    if values.is_empty() {
        return Ok(None);
    }
    if values.len() > credentials::MOST {
        let reason = format!("at most {} are allowed", credentials::MOST);
        return Err(ApiError::invalid_field("credentials", reason));
    }
    let vault = parts.credentials.clone();
    vault
        .check(&values)
        .map_err(|error| ApiError::invalid_field("credentials", error.to_string()))?;
    wish.description = credentials::masked(&wish.description, &values);
    if let Some(context) = &mut wish.init_context {
        *context = credentials::masked(context, &values);
    }
    Ok(Some(Box::new(move |team| vault.give(values, team, by))))
}

/// The organisation says no.
impl From<OrgError> for ApiError {
    fn from(error: OrgError) -> Self {
        let status = match error {
            OrgError::Unknown(_) => StatusCode::NOT_FOUND,
            OrgError::Name { .. } | OrgError::NameReserved(_) | OrgError::Scope(_) => {
                StatusCode::BAD_REQUEST
            }
            OrgError::NotAuthorized { .. } | OrgError::Root => StatusCode::FORBIDDEN,
            OrgError::Stopping | OrgError::Refused(Refusal::DiskFull) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            OrgError::Folder(_) | OrgError::Beside(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CONFLICT,
        };
        let refusal = Self::new(status, error.code(), error.to_string());
        if matches!(error, OrgError::Stopping) { refusal.unsure() } else { refusal }
    }
}

/// The queue says no.
impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        OrgError::from(refusal).into()
    }
}

impl From<WishError> for ApiError {
    fn from(error: WishError) -> Self {
        match error {
            WishError::Field { field, reason } => Self::invalid_field(field, reason),
            WishError::Settings(found) => Self::conflict(found),
            WishError::Refused(error) => error.into(),
        }
    }
}

pub(in crate::http) async fn create(
    Call { state, caller, body, .. }: Call<Empty, Empty, TeamOrder>,
) -> ApiResult<Created<MadeTeam>> {
    let TeamOrder { team: mut wish, credentials } = body;
    caller.names(&wish.name);
    caller.team(&wish.name)?;
    known_team(&state, &caller, wish.parent.as_deref().unwrap_or(MAIN))?;
    if !credentials.is_empty() && !caller.principal.may(Scope::Secrets) {
        return Err(ApiError::forbidden(Scope::Secrets));
    }
    let org = state.org();
    let task = org.ids.task();
    wish.check(&org.live, &org.plugins).await?;
    let beside = stow(&mut wish, credentials, org, vault::operator(&caller))?;
    let operator = caller.principal.id.to_string();
    let spawn =
        wish.order(&org.live, &org.plugins, &operator, task.clone(), org.clock.now()).await?;
    let key = org.org.send(Spawn { beside, ..spawn }).await??;
    Ok(Created(MadeTeam { team: key.name, generation: key.generation, bootstrap_task_id: task }))
}

pub(in crate::http) async fn update(
    Call { state, caller, path, body: change, .. }: Call<ByName, Empty, TeamChange>,
) -> ApiResult<Data<TeamScope>> {
    known_team(&state, &caller, &path.name)?;
    if change.capabilities.is_some() && !caller.principal.may(Scope::Admin) {
        return Err(ApiError::forbidden(Scope::Admin));
    }
    let update = Update {
        name: path.name.into(),
        by: operator(&caller),
        add: change.scope_add,
        remove: change.scope_remove,
        description: change.description,
        capabilities: change.capabilities,
        call: None,
    };
    let team = state.org().org.send(update).await??;
    Ok(Data(TeamScope { team: team.name, scope: team.scope, capabilities: team.capabilities }))
}

pub(in crate::http) async fn shut_down(
    Call { state, caller, path, query: TeamShutdown { cascade }, .. }: Call<ByName, TeamShutdown>,
) -> ApiResult<Settled<Removed, TeamEnding>> {
    known_team(&state, &caller, &path.name)?;
    // The teams below may be out of its reach.
    if cascade {
        caller.all_teams()?;
    }
    let name = TeamName::from(path.name);
    let by = operator(&caller);
    let shutdown = Shutdown { name: name.clone(), cascade, by, call: None };
    match tokio::time::timeout(SHUTDOWN_TIMEOUT, state.org().org.send(shutdown)).await {
        Ok(ended) => Ok(Settled::Done(ended??)),
        Err(_) => Ok(Settled::GoesOn(TeamEnding { team: name, state: TeamState::Draining })),
    }
}

fn operator(caller: &Caller) -> By {
    By::Operator(caller.principal.id.to_string())
}

/// Lets a team, or all of them, rest or work.
async fn pause(
    state: &State,
    caller: &Caller,
    team: Option<ByName>,
    paused: bool,
    now: bool,
) -> ApiResult<Data<TeamsPaused>> {
    match &team {
        Some(ByName { name }) => drop(known_team(state, caller, name)?),
        None => caller.all_teams()?,
    }
    let team = team.map(|path| path.name.into());
    let pause = Pause { team, paused, now, by: operator(caller) };
    let teams = state.org().org.send(pause).await??;
    let state = if paused { TeamState::Paused } else { TeamState::Active };
    Ok(Data(TeamsPaused { teams, state }))
}

pub(in crate::http) async fn pause_one(
    Call { state, caller, path, body, .. }: Call<ByName, Empty, TeamPause>,
) -> ApiResult<Data<TeamsPaused>> {
    pause(&state, &caller, Some(path), true, body.now).await
}

pub(in crate::http) async fn resume_one(
    Call { state, caller, path, .. }: Call<ByName>,
) -> ApiResult<Data<TeamsPaused>> {
    pause(&state, &caller, Some(path), false, false).await
}

pub(in crate::http) async fn pause_every(
    Call { state, caller, body, .. }: Call<Empty, Empty, TeamPause>,
) -> ApiResult<Data<TeamsPaused>> {
    pause(&state, &caller, None, true, body.now).await
}

pub(in crate::http) async fn resume_every(
    Call { state, caller, .. }: Call,
) -> ApiResult<Data<TeamsPaused>> {
    pause(&state, &caller, None, false, false).await
}

/// The first work of a team is given to it again. A team that is ready has none to do.
pub(in crate::http) async fn set_up_again(
    Call { state, caller, path, .. }: Call<ByName>,
) -> ApiResult<Data<TeamBootstrap>> {
    known_team(&state, &caller, &path.name)?;
    let (org, team) = (state.org(), TeamName::from(path.name));
    let operator = caller.principal.id.to_string();
    let task = creation::bootstrap(&team, &operator, org.ids.task(), org.clock.now());
    let task_id = org.org.send(Bootstrap { task }).await??;
    let phase = if task_id.is_some() { Phase::Initializing } else { Phase::Ready };
    Ok(Data(TeamBootstrap { team, phase, task_id }))
}
