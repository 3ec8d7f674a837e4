//! New tasks: work that an operator gives to a team.

use actix_web::{HttpRequest, http::StatusCode};
use hivewright_actors::{
    blocking,
    channel::records::ChannelRow,
    ids::{ChannelId, TaskId},
    queue::submit::{OpenTask, Overlap, Submission, Submit},
    store::{reads::get, records::Writes},
    task::{Kind, Lane, OnResult, Options, Source, Task, TaskState, cause::Cause},
};

use crate::{
    api::{endpoint::*, reply::*, scope::Scope, tasks::*},
    http::{
        auth::authenticator::Principal,
        kit::{call::*, error::*},
        routes::teams::known_team,
        state::State,
    },
    triggers::preconditions::unknown_subagent,
};

/// Where notices about the work go.
const SOURCE_CHANNEL: &str = "x-source-channel";

pub(in crate::http) async fn create(
    Call { state, caller, body: new, request, .. }: Call<Empty, Empty, NewTask>,
) -> ApiResult<Accepted<GivenTask>> {
    let team = known_team(&state, &caller, &new.team)?;
    let source = source_channel(&state, &caller.principal, &request).await?;
    check_words("task", &new.task)?;
    let org = state.org();
    let now = org.clock.now();
    if let Some(subagent) = &new.subagent {
        let (roster, of) = (org.roster.clone(), team.name.clone());
        let known = blocking::run(move || roster(&of)).await?;
        if let Some(problem) = unknown_subagent(&team.name, subagent, &known) {
            return Err(ApiError::unfit("subagent", problem.reason));
        }
    }
    let (id, by) = (org.ids.task(), caller.principal.id.to_string());
    let lane = Lane { team: team.name.clone(), topic: None };
    let mut task = Task {
        generation: team.generation,
        kind: Kind::Delegate,
        priority: new.priority,
        source: source.map(Source::channel),
        on_result: OnResult::Notify,
        options: Options { max_steps: new.max_steps, subagent: new.subagent, ..Options::default() },
        cause: Some(Cause::Operator { name: by.clone() }),
        ..Task::new(id.clone(), lane, new.task, by, now)
    };
    if let Some(deadline) = new.deadline {
        task.deadline_at = now + deadline.0;
    }
    let in_flight = submit(&state, task, new.overlap_policy).await?;
    caller.names(format!("{id} {}", new.team));
    Ok(Accepted(GivenTask { id, team: new.team, state: TaskState::Accepted, in_flight }))
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

/// Hands a task to its team, and answers what that had to do already.
pub(in crate::http) async fn submit(
    state: &State,
    task: Task,
    overlap: Overlap,
) -> ApiResult<Vec<TaskId>> {
    let submit = Submit { task, writes: Writes::new(), overlap: Some(overlap), giver: None };
    let submission = state.org().work.submit(submit).await?;
    let ids = |open: Vec<OpenTask>| open.into_iter().map(|open| open.task_id);
    match submission {
        Submission::Enqueued { in_flight } => Ok(ids(in_flight).collect()),
        Submission::Skipped { in_flight } | Submission::NeedsConfirmation { in_flight, .. } => {
            let open: Vec<String> = ids(in_flight).map(|id| id.to_string()).collect();
            let message = format!(
                "the team has other work: {}; give `overlap_policy: allow` to add to it",
                open.join(", ")
            );
            Err(ApiError::conflict_as("busy", message))
        }
    }
}
