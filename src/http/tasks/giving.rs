//! Work that an operator gives to a team.

use std::time::Duration;

use actix_web::{HttpRequest, http::StatusCode, web};
use hivewright_actors::{
    channel::records::ChannelRow,
    ids::{ChannelId, TaskId, TeamName},
    queue::submit::{Submission, Submit},
    store::{reads::get, records::Writes},
    task::{Cause, Kind, Lane, OnResult, Options, Priority, Source, Task, TaskState},
};

use crate::{
    api::{
        endpoint::Empty,
        reply::Accepted,
        scope::Scope,
        tasks::{GivenTask, NewTask},
    },
    http::{
        State,
        auth::principal::Principal,
        call::Call,
        error::ApiError,
        teams::{acting::refused, parts},
    },
};

/// The longest text of a task, in characters.
pub(in crate::http) const LONGEST: usize = 100_000;
/// Where notices about the work go.
const SOURCE_CHANNEL: &str = "x-source-channel";

pub(super) async fn create(
    Call { state, caller, body: new, request, .. }: Call<Empty, Empty, NewTask>,
) -> Result<Accepted<GivenTask>, ApiError> {
    caller.team(&new.team)?;
    let work = Work {
        team: new.team.as_str().into(),
        kind: Kind::Delegate,
        body: new.task,
        priority: new.priority,
        deadline: new.deadline.map(|span| span.0),
        options: Options { max_steps: new.max_steps, ..Options::default() },
        source: source_channel(&state, &caller.principal, &request).await?,
    };
    let id = give(&state, &caller.principal, work, "task").await?;
    caller.names(format!("{id} {}", new.team));
    Ok(Accepted(GivenTask { id, team: new.team, state: TaskState::Accepted }))
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
    let parts = parts(state);
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
