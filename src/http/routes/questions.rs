//! `/api/v1/questions`: what teams ask the operator, and the answers.

use hivewright_actors::{
    approvals::{
        Reply,
        query::WaitQuery,
        question::{Answer, Question, QuestionStatus},
        refusal::NotAnswered,
    },
    clock::Timestamp,
    ids::QuestionId,
    queue::refusal::Refusal,
    store::reads::get,
};

use super::approvals::{decider, list_waits, rank, settle};
use crate::{
    api::{endpoint::*, questions::*, reply::*},
    http::{
        kit::{ask::ask, call::*, error::*},
        state::State,
    },
};

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, QuestionFilter>,
) -> ApiResult<Rows<QuestionRow>> {
    let QuestionFilter { status, team } = query;
    let status = status.map(QuestionStatus::as_str);
    let wanted = WaitQuery { teams: caller.teams(team), status, kind: None, rank: rank(&page) };
    list_waits::<Question, _>(&state, page, wanted, QuestionRow::from).await
}

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Data<QuestionRow>> {
    settle(&state).await?;
    let found = find(&state, &caller, &QuestionId::from(path.id)).await?;
    Ok(Data(found.into()))
}

/// A question of a team that the caller reaches.
async fn find(state: &State, caller: &Caller, id: &QuestionId) -> ApiResult<Question> {
    let id = id.clone();
    let found = state.read(move |storage| get::<Question>(storage, &id)).await?;
    found
        .filter(|question| caller.reaches(question.team.name.as_str()))
        .ok_or_else(|| ApiError::not_found("there is no such question"))
}

pub(super) async fn reply(
    Call { state, caller, path, body, request, .. }: Call<ById, Empty, QuestionAnswer>,
) -> ApiResult<Data<QuestionRow>> {
    let QuestionAnswer { selected, text } = body;
    let id = QuestionId::from(path.id);
    if caller.principal.teams.is_some() {
        find(&state, &caller, &id).await?;
    }
    let reply = Reply {
        question: id,
        answer: Answer { selected, text },
        by: decider(&state, &caller, &request),
        channel: None,
    };
    let answered = ask(&state.spine.approvals, reply).await??;
    Ok(Data(answered.into()))
}

impl From<NotAnswered> for ApiError {
    fn from(refusal: NotAnswered) -> Self {
        let message = refusal.to_string();
        match refusal {
            NotAnswered::NotFound => Self::not_found(message),
            NotAnswered::AlreadyAnswered(question) => {
                let who = question.by.as_deref().unwrap_or("nobody");
                let when = question.answered_at.map(Timestamp::date).unwrap_or_default();
                Self::conflict_as("already_answered", format!("it was answered by {who} at {when}"))
            }
            NotAnswered::Expired => Self::conflict_as("expired", message),
            NotAnswered::Unfit(unfit) => Self::unfit(unfit.field, unfit.reason),
            NotAnswered::Refused(Refusal::QueueFull(_)) => Self::queue_full(message),
            NotAnswered::Refused(Refusal::DiskFull) => Self::disk_full(),
            NotAnswered::Cancelled
            | NotAnswered::Busy
            | NotAnswered::Vault(_)
            | NotAnswered::Refused(_) => Self::conflict(message),
            other => Self::internal(other),
        }
    }
}
