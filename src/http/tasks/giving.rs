//! Work that an operator gives to a team.

use std::time::Duration;

use actix_web::{HttpRequest, http::StatusCode, web};
use hivewright_actors::{
    channel::records::ChannelRow,
    ids::{ChannelId, TaskId, TeamName},
    queue::submit::{Submission, Submit},
    store::{reads::get, records::Writes},
    task::{Cause, Kind, Lane, OnResult, Options, Priority, Source, Task},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    http::{
        State,
        arguments::{Caller, Json, Operate},
        auth::{principal::Principal, scope::Scope},
        error::ApiError,
        reply::Accepted,
        teams::{acting::refused, parts},
    },
    settings::units,
    vocabulary,
};

/// The longest text of a task, in characters.
pub(in crate::http) const LONGEST: usize = 100_000;
/// The most model calls of a task.
const MOST_STEPS: u32 = 500;
/// Where notices about the work go.
const SOURCE_CHANNEL: &str = "x-source-channel";

#[derive(Deserialize, ToSchema)]
#[schema(as = NewTask)]
pub(super) struct Wish {
    team: String,
    /// What is to be done.
    #[schema(min_length = 1, max_length = 100_000)]
    task: String,
    #[serde(default)]
    #[schema(schema_with = vocabulary::of::<Priority>)]
    priority: Priority,
    /// How long it may take, such as `30m`.
    deadline: Option<String>,
    /// The most model calls.
    #[schema(minimum = 1, maximum = 500)]
    max_steps: Option<u32>,
}

/// Work that was given.
#[derive(Serialize, ToSchema)]
#[schema(as = GivenTask)]
pub(super) struct Given {
    #[schema(value_type = String)]
    id: TaskId,
    team: String,
    state: &'static str,
}

pub(super) async fn create(
    state: web::Data<State>,
    caller: Caller<Operate>,
    request: HttpRequest,
    Json(wish): Json<Wish>,
) -> Result<Accepted<Given>, ApiError> {
    caller.team(&wish.team)?;
    let options = Options { max_steps: steps(wish.max_steps)?, ..Options::default() };
    let deadline = match &wish.deadline {
        None => None,
        Some(text) => Some(units::duration(text).ok_or_else(|| {
            ApiError::invalid_field("deadline", "expected a duration such as 90s, 30m or 2h")
        })?),
    };
    let work = Work {
        team: wish.team.as_str().into(),
        kind: Kind::Delegate,
        body: wish.task,
        priority: wish.priority,
        deadline,
        options,
        source: source_channel(&state, &caller.principal, &request).await?,
    };
    let id = give(&state, &caller.principal, work, "task").await?;
    caller.names(format!("{id} {}", wish.team));
    Ok(Accepted(Given { id, team: wish.team, state: "accepted" }))
}

fn steps(wanted: Option<u32>) -> Result<Option<u32>, ApiError> {
    match wanted {
        Some(steps) if !(1..=MOST_STEPS).contains(&steps) => Err(ApiError::invalid_field(
            "max_steps",
            format!("expected a whole number from 1 to {MOST_STEPS}"),
        )),
        wanted => Ok(wanted),
    }
}

/// Another channel that hears of the work. It must be one of their own, unless they operate.
pub(crate) async fn source_channel(
    state: &State,
    principal: &Principal,
    request: &HttpRequest,
) -> Result<Option<ChannelId>, ApiError> {
    let Some(named) = request.headers().get(SOURCE_CHANNEL) else {
        return Ok(None);
    };
    let named = named.to_str().ok().and_then(ChannelId::named);
    let id = named.clone();
    let known = state.spine.store.read(move |storage| match id {
        Some(id) => get::<ChannelRow>(storage, &id),
        None => Ok(None),
    });
    let known = known.await.map_err(ApiError::internal)?;
    let may =
        |row: &ChannelRow| row.belongs_to(&principal.owner()) || principal.may(Scope::Operate);
    if known.is_some_and(|row| may(&row)) {
        Ok(named)
    } else {
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "source_channel_not_allowed",
            "`X-Source-Channel` names no channel that this token opened",
        ))
    }
}

/// Work for a team.
struct Work {
    team: TeamName,
    kind: Kind,
    body: String,
    priority: Priority,
    deadline: Option<Duration>,
    options: Options,
    source: Option<ChannelId>,
}

/// Stores work of an operator. `field` is where its words stood.
async fn give(
    state: &web::Data<State>,
    principal: &Principal,
    work: Work,
    field: &str,
) -> Result<TaskId, ApiError> {
    if work.body.trim().is_empty() || work.body.chars().count() > LONGEST {
        let reason = format!("expected 1 to {LONGEST} characters");
        return Err(ApiError::invalid_field(field, reason));
    }
    let parts = parts(state)?;
    let tree = parts.view.now();
    let unknown = || ApiError::not_found(format!("there is no team `{}`", work.team));
    let team = tree.get(work.team.as_str()).ok_or_else(unknown)?;
    let now = parts.clock.now();
    let lane = Lane { team: work.team.clone(), topic: None };
    let id = parts.ids.task();
    let by = principal.id().to_string();
    let mut task = Task {
        generation: team.generation,
        kind: work.kind,
        priority: work.priority,
        source: work.source.map(Source::channel),
        on_result: OnResult::Notify,
        options: work.options,
        cause: Some(Cause::Operator { name: by.clone() }),
        ..Task::new(id.clone(), lane, work.body, by, now)
    };
    if let Some(deadline) = work.deadline {
        task.deadline_at = now + deadline;
    }
    let submitted =
        parts.work.submit(Submit { task, writes: Writes::new(), overlap: None, giver: None });
    match submitted.await {
        Ok(Submission::Enqueued { .. }) => Ok(id),
        Ok(_) => Err(ApiError::conflict("the team is busy")),
        Err(refusal) => Err(refused(&refusal.into())),
    }
}
