//! What operators do to teams.

use std::{collections::BTreeMap, time::Duration};

use actix_web::http::StatusCode;
use hivewright_actors::{
    ids::{MAIN, TeamName},
    org::{
        Beside, Bootstrap, Pause, Shutdown, Spawn, Update,
        error::OrgError,
        record::{Phase, TeamState},
        shutdown::Removed,
        tree::By,
    },
    queue::refusal::Refusal,
};

use super::parts;
use crate::{
    api::{
        endpoint::{ByName, Empty},
        reply::{Created, Data, Settled},
        scope::Scope,
        teams::{
            MadeTeam, NewTeam, TeamBootstrap, TeamChange, TeamEnding, TeamOrder, TeamPause,
            TeamScope, TeamShutdown, TeamsPaused,
        },
    },
    http::{State, call::Call, error::ApiError, vault},
    teams::creation::{self, WishError},
    tools::org::{credentials, office::Parts},
    vault::audit::Actor,
};

/// What takes longer goes on without whoever asked for it.
const PATIENCE: Duration = Duration::from_secs(25);

/// Takes secrets out of what is said of a team. Returns what gives them to the team once it is there.
fn stow(
    wish: &mut NewTeam,
    values: BTreeMap<String, String>,
    parts: &Parts,
    by: Actor,
) -> Result<Option<Beside>, ApiError> {
    if values.is_empty() {
        return Ok(None);
    }
    if values.len() > credentials::MOST {
        let reason = format!("at most {} are allowed", credentials::MOST);
        return Err(ApiError::invalid_field("credentials", reason));
    }
    let vault = parts.credentials.clone();
    let fit = vault.check(&values);
    fit.map_err(|error| ApiError::invalid_field("credentials", error.to_string()))?;
    wish.description = credentials::masked(&wish.description, &values);
    if let Some(context) = &mut wish.init_context {
        *context = credentials::masked(context, &values);
    }
    Ok(Some(Box::new(move |team| vault.give(values, team, by))))
}

/// The organisation says no.
pub(in crate::http) fn refused(error: &OrgError) -> ApiError {
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
    let refusal = ApiError::new(status, error.code(), error.to_string());
    match error {
        OrgError::Stopping => refusal.unsure(),
        _ => refusal,
    }
}

fn unwanted(error: WishError) -> ApiError {
    match error {
        WishError::Field { field, reason } => ApiError::invalid_field(field, reason),
        WishError::Settings(found) => ApiError::conflict(found),
        WishError::Refused(error) => refused(&error),
    }
}

pub(super) async fn create(
    Call { state, caller, body, .. }: Call<Empty, Empty, TeamOrder>,
) -> Result<Created<MadeTeam>, ApiError> {
    let TeamOrder { team: mut wish, credentials } = body;
    caller.names(&wish.name);
    caller.team(&wish.name)?;
    caller.team(wish.parent.as_deref().unwrap_or(MAIN))?;
    if !credentials.is_empty() && !caller.principal.may(Scope::Secrets) {
        return Err(ApiError::forbidden(Scope::Secrets));
    }
    let parts = parts(&state);
    let task = parts.ids.task();
    let operator = caller.principal.id().to_string();
    wish.check(&parts.live).await.map_err(unwanted)?;
    let by = vault::operator(&caller.principal);
    let beside = stow(&mut wish, credentials, parts, by)?;
    let now = parts.clock.now();
    let spawn = wish.order(&parts.live, &operator, task.clone(), now);
    let spawn = Spawn { beside, ..spawn.await.map_err(unwanted)? };
    let made = parts.org.send(spawn).await;
    let key = made.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    Ok(Created(MadeTeam { team: key.name, generation: key.generation, bootstrap_task_id: task }))
}

pub(super) async fn update(
    Call { state, caller, path: ByName { name }, body: change, .. }: Call<
        ByName,
        Empty,
        TeamChange,
    >,
) -> Result<Data<TeamScope>, ApiError> {
    caller.team(&name)?;
    if change.capabilities.is_some() && !caller.principal.may(Scope::Admin) {
        return Err(ApiError::forbidden(Scope::Admin));
    }
    let update = Update {
        name: name.into(),
        by: By::Operator(caller.principal.id().to_string()),
        add: change.scope_add,
        remove: change.scope_remove,
        description: change.description,
        capabilities: change.capabilities,
        call: None,
    };
    let team = parts(&state).org.send(update).await;
    let team = team.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    Ok(Data(TeamScope { team: team.name, scope: team.scope, capabilities: team.capabilities }))
}

pub(super) async fn shut_down(
    Call { state, caller, path: ByName { name }, query, .. }: Call<ByName, TeamShutdown>,
) -> Result<Settled<Removed, TeamEnding>, ApiError> {
    caller.team(&name)?;
    // The teams below may be out of its reach.
    if query.cascade {
        caller.all_teams()?;
    }
    let name = TeamName::from(name);
    let shutdown = Shutdown {
        name: name.clone(),
        cascade: query.cascade,
        by: By::Operator(caller.principal.id().to_string()),
        call: None,
    };
    let ended = parts(&state).org.send(shutdown);
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(ended) => {
            let removed = ended.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
            Ok(Settled::Done(removed))
        }
        Err(_) => Ok(Settled::GoesOn(TeamEnding { team: name, state: TeamState::Draining })),
    }
}

async fn pause(state: &State, pause: Pause) -> Result<Data<TeamsPaused>, ApiError> {
    let wanted = if pause.paused { TeamState::Paused } else { TeamState::Active };
    let teams = parts(state).org.send(pause).await;
    let teams = teams.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    Ok(Data(TeamsPaused { teams, state: wanted }))
}

pub(super) async fn pause_one(
    Call { state, caller, path: ByName { name }, body, .. }: Call<ByName, Empty, TeamPause>,
) -> Result<Data<TeamsPaused>, ApiError> {
    caller.team(&name)?;
    pause(&state, Pause { team: Some(name.into()), paused: true, now: body.now }).await
}

pub(super) async fn resume_one(
    Call { state, caller, path: ByName { name }, .. }: Call<ByName>,
) -> Result<Data<TeamsPaused>, ApiError> {
    caller.team(&name)?;
    pause(&state, Pause { team: Some(name.into()), paused: false, now: false }).await
}

pub(super) async fn pause_every(
    Call { state, caller, body, .. }: Call<Empty, Empty, TeamPause>,
) -> Result<Data<TeamsPaused>, ApiError> {
    caller.all_teams()?;
    pause(&state, Pause { team: None, paused: true, now: body.now }).await
}

pub(super) async fn resume_every(
    Call { state, caller, .. }: Call,
) -> Result<Data<TeamsPaused>, ApiError> {
    caller.all_teams()?;
    pause(&state, Pause { team: None, paused: false, now: false }).await
}

/// The first work of a team is given to it again. A team that is ready has none to do.
pub(super) async fn set_up_again(
    Call { state, caller, path: ByName { name }, .. }: Call<ByName>,
) -> Result<Data<TeamBootstrap>, ApiError> {
    caller.team(&name)?;
    let parts = parts(&state);
    let operator = caller.principal.id().to_string();
    let team = TeamName::from(name);
    let task = creation::bootstrap(&team, &operator, parts.ids.task(), parts.clock.now());
    let given = parts.org.send(Bootstrap { task }).await;
    let task_id = given.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    let phase = if task_id.is_some() { Phase::Initializing } else { Phase::Ready };
    Ok(Data(TeamBootstrap { team, phase, task_id }))
}
