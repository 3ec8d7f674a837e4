//! What operators do to teams.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use actix_web::{Either, http::StatusCode, web};
use hivewright_actors::{
    budget::Caps,
    ids::{MAIN, TaskId, TeamName},
    org::{
        Beside, Bootstrap, Pause, Shutdown, Spawn, Update, error::OrgError, record::Capability,
        shutdown::Removed, tree::By,
    },
    queue::submit::Refusal,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts;
use crate::{
    api::{endpoint::Empty, scope::Scope},
    http::{
        State,
        arguments::{Caller, Json, Operate},
        error::ApiError,
        reply::{Accepted, Created, Data},
        vault,
    },
    teams::creation::{self, Wish, WishError},
    tools::org::{credentials, office::Parts},
    vault::audit::Actor,
};

/// What takes longer goes on without whoever asked for it.
const PATIENCE: Duration = Duration::from_secs(25);

/// A team that was just made.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MadeTeam")]
pub(super) struct Made {
    team: TeamName,
    /// How often the name was given.
    generation: u32,
    /// Its first work.
    bootstrap_task_id: TaskId,
}

/// What a team takes on now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TeamScope")]
pub(super) struct Changed {
    team: TeamName,
    scope: Vec<String>,
    capabilities: Vec<Capability>,
}

/// What became of a shutdown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TeamsRemoved")]
pub(super) struct Ended {
    /// The teams that are gone, in the order in which they went.
    removed: Vec<TeamName>,
    cancelled_tasks: u64,
    /// Where the folder of the team is now.
    trash: Option<String>,
}

impl From<Removed> for Ended {
    fn from(removed: Removed) -> Self {
        Self {
            removed: removed.removed,
            cancelled_tasks: removed.cancelled_tasks,
            trash: removed.trash,
        }
    }
}

/// A shutdown that goes on.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TeamEnding")]
pub(super) struct Ending {
    team: TeamName,
    state: &'static str,
}

/// Teams whose state changed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TeamsPaused")]
pub(super) struct Standing {
    teams: Vec<TeamName>,
    /// `paused` or `active`.
    state: &'static str,
}

/// How far a team is with its first work.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TeamBootstrap")]
pub(super) struct SetUp {
    team: TeamName,
    /// `initializing` or `ready`.
    phase: &'static str,
    task_id: Option<TaskId>,
}

/// A team that is wanted, with the secrets it is given. They go into its vault and nowhere else.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewTeam")]
pub(super) struct Order {
    name: String,
    /// Who is above it; without one it is the main team.
    parent: Option<String>,
    /// What it is for.
    #[serde(default)]
    #[schemars(length(max = 500))]
    description: String,
    /// Words for what it takes on.
    scope_accepts: Vec<String>,
    /// What it should know from the start.
    init_context: Option<String>,
    /// Patterns of tools; without them it has the usual ones.
    allowed_tools: Option<Vec<String>>,
    /// The profile of its model; without one it is the default.
    provider_profile: Option<String>,
    /// What it may spend.
    budgets: Option<Caps>,
    /// Secrets by their names.
    #[serde(default)]
    credentials: BTreeMap<String, String>,
}

impl Order {
    /// The team, and its secrets.
    fn parted(self) -> (Wish, BTreeMap<String, String>) {
        let wish = Wish {
            name: self.name,
            parent: self.parent,
            description: self.description,
            scope_accepts: self.scope_accepts,
            init_context: self.init_context,
            allowed_tools: self.allowed_tools,
            provider_profile: self.provider_profile,
            budgets: self.budgets,
        };
        (wish, self.credentials)
    }
}

/// Takes secrets out of a wish. Returns what gives them to the team once it is there.
fn stow(
    wish: &mut Wish,
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

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TeamChange")]
pub(super) struct Change {
    /// Words for what it takes on from now on.
    #[serde(default)]
    scope_add: Vec<String>,
    /// Words for what it no longer takes on.
    #[serde(default)]
    scope_remove: Vec<String>,
    #[schemars(length(max = 500))]
    description: Option<String>,
    /// What it may do beyond its tools, instead of what it may now.
    capabilities: Option<BTreeSet<Capability>>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "PauseHow")]
pub(super) struct How {
    /// What runs is stopped at once.
    #[serde(default)]
    now: bool,
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
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(order): Json<Order>,
) -> Result<Created<Made>, ApiError> {
    caller.names(&order.name);
    caller.team(&order.name)?;
    caller.team(order.parent.as_deref().unwrap_or(MAIN))?;
    let (mut wish, credentials) = order.parted();
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
    Ok(Created(Made { team: key.name, generation: key.generation, bootstrap_task_id: task }))
}

pub(super) async fn update(
    state: web::Data<State>,
    caller: Caller<Operate>,
    name: web::Path<String>,
    Json(change): Json<Change>,
) -> Result<Data<Changed>, ApiError> {
    caller.team(&name)?;
    if change.capabilities.is_some() && !caller.principal.may(Scope::Admin) {
        return Err(ApiError::forbidden(Scope::Admin));
    }
    let description = change.description.as_deref().unwrap_or_default();
    if description.chars().count() > 500 {
        return Err(ApiError::invalid_field("description", "at most 500 characters are allowed"));
    }
    let update = Update {
        name: name.into_inner().into(),
        by: By::Operator(caller.principal.id().to_string()),
        add: change.scope_add,
        remove: change.scope_remove,
        description: change.description,
        capabilities: change.capabilities,
        call: None,
    };
    let team = parts(&state).org.send(update).await;
    let team = team.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    Ok(Data(Changed {
        team: team.name,
        scope: team.scope.into_iter().collect(),
        capabilities: team.capabilities.into_iter().collect(),
    }))
}

pub(super) async fn shut_down(
    state: web::Data<State>,
    caller: Caller<Operate>,
    name: web::Path<String>,
) -> Result<Either<Data<Ended>, Accepted<Ending>>, ApiError> {
    caller.team(&name)?;
    let cascade = caller.query.flag("cascade").unwrap_or(false);
    // The teams below may be out of its reach.
    if cascade {
        caller.all_teams()?;
    }
    let name = TeamName::from(name.into_inner());
    let shutdown = Shutdown {
        name: name.clone(),
        cascade,
        by: By::Operator(caller.principal.id().to_string()),
        call: None,
    };
    let ended = parts(&state).org.send(shutdown);
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(ended) => {
            let removed = ended.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
            Ok(Either::Left(Data(Ended::from(removed))))
        }
        Err(_) => Ok(Either::Right(Accepted(Ending { team: name, state: "draining" }))),
    }
}

async fn set_paused(
    state: &State,
    team: Option<String>,
    paused: bool,
    now: bool,
) -> Result<Data<Standing>, ApiError> {
    let pause = Pause { team: team.map(TeamName::from), paused, now };
    let names = parts(state).org.send(pause).await;
    let names = names.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    Ok(Data(Standing { teams: names, state: if paused { "paused" } else { "active" } }))
}

pub(super) async fn pause_one(
    state: web::Data<State>,
    caller: Caller<Operate>,
    name: web::Path<String>,
    Json(How { now }): Json<How>,
) -> Result<Data<Standing>, ApiError> {
    caller.team(&name)?;
    set_paused(&state, Some(name.into_inner()), true, now).await
}

pub(super) async fn resume_one(
    state: web::Data<State>,
    caller: Caller<Operate>,
    name: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Data<Standing>, ApiError> {
    caller.team(&name)?;
    set_paused(&state, Some(name.into_inner()), false, false).await
}

pub(super) async fn pause_every(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(How { now }): Json<How>,
) -> Result<Data<Standing>, ApiError> {
    caller.all_teams()?;
    set_paused(&state, None, true, now).await
}

pub(super) async fn resume_every(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(Empty {}): Json<Empty>,
) -> Result<Data<Standing>, ApiError> {
    caller.all_teams()?;
    set_paused(&state, None, false, false).await
}

/// The first work of a team is given to it again. A team that is ready has none to do.
pub(super) async fn set_up_again(
    state: web::Data<State>,
    caller: Caller<Operate>,
    name: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Data<SetUp>, ApiError> {
    caller.team(&name)?;
    let parts = parts(&state);
    let operator = caller.principal.id().to_string();
    let team = TeamName::from(name.into_inner());
    let task = creation::bootstrap(&team, &operator, parts.ids.task(), parts.clock.now());
    let given = parts.org.send(Bootstrap { task }).await;
    let given = given.map_err(ApiError::internal)?.map_err(|error| refused(&error))?;
    let phase = if given.is_some() { "initializing" } else { "ready" };
    Ok(Data(SetUp { team, phase, task_id: given }))
}
