//! Work that an operator gives to a team.

use actix_web::{HttpRequest, http::StatusCode};
use hivewright_actors::{
    channel::records::ChannelRow,
    ids::ChannelId,
    queue::submit::{Submission, Submit},
    store::{reads::get, records::Writes},
    task::{Cause, Kind, Lane, OnResult, Options, Source, Task, TaskState},
};

use crate::{
    api::{endpoint::*, reply::*, scope::Scope, tasks::*},
    http::{State, auth::authenticator::Principal, call::*, error::*},
};

/// Where notices about the work go.
const SOURCE_CHANNEL: &str = "x-source-channel";

pub(in crate::http) async fn create(
    Call { state, caller, body: new, request, .. }: Call<Empty, Empty, NewTask>,
) -> ApiResult<Accepted<GivenTask>> {
    caller.team(&new.team)?;
    let source = source_channel(&state, &caller.principal, &request).await?;
    check_words("task", &new.task)?;
    let org = state.org();
    let (tree, now) = (org.view.now(), org.clock.now());
    let unknown = || ApiError::not_found(format!("there is no team `{}`", new.team));
    let team = tree.get(&new.team).ok_or_else(unknown)?;
    let (id, by) = (org.ids.task(), caller.principal.id.to_string());
    let lane = Lane { team: team.name.clone(), topic: None };
    let mut task = Task {
        generation: team.generation,
        kind: Kind::Delegate,
        priority: new.priority,
        source: source.map(Source::channel),
        on_result: OnResult::Notify,
        options: Options { max_steps: new.max_steps, ..Options::default() },
        cause: Some(Cause::Operator { name: by.clone() }),
        ..Task::new(id.clone(), lane, new.task, by, now)
    };
    if let Some(deadline) = new.deadline {
        task.deadline_at = now + deadline.0;
    }
    submit(&state, task).await?;
    caller.names(format!("{id} {}", new.team));
    Ok(Accepted(GivenTask { id, team: new.team, state: TaskState::Accepted }))
}

/// Refuses words for a team that say nothing, or too much. `field` is where they stood.
pub(in crate::http) fn check_words(field: &str, words: &str) -> ApiResult<()> {
    if !words.trim().is_empty() && words.chars().count() <= LONGEST_TASK {
        return Ok(());
    }
    Err(ApiError::invalid_field(field, format!("expected 1 to {LONGEST_TASK} characters")))
}

/// Another channel that hears of the work. It must be one of their own, unless they operate.
pub(crate) async fn source_channel(
    state: &State,
    principal: &Principal,
    request: &HttpRequest,
) -> ApiResult<Option<ChannelId>> {
    let Some(named) = request.headers().get(SOURCE_CHANNEL) else {
        return Ok(None);
    };
    if let Some(id) = named.to_str().ok().and_then(ChannelId::named) {
        let of = id.clone();
        let known = state.read(move |storage| get::<ChannelRow>(storage, &of)).await?;
        let may =
            |row: ChannelRow| row.belongs_to(&principal.owner()) || principal.may(Scope::Operate);
        if known.is_some_and(may) {
            return Ok(Some(id));
        }
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "source_channel_not_allowed",
        "`X-Source-Channel` names no channel that this token opened",
    ))
}

/// Hands a task to its team.
pub(in crate::http) async fn submit(state: &State, task: Task) -> ApiResult<()> {
    let submit = Submit { task, writes: Writes::new(), overlap: None, giver: None };
    match state.org().work.submit(submit).await? {
        Submission::Enqueued { .. } => Ok(()),
        _ => Err(ApiError::conflict("the team is busy")),
    }
}
