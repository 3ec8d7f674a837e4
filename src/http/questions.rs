//! `/api/v1/questions`: what teams ask the operator, and the answers.

use actix_web::http::StatusCode;
use hivewright_actors::{
    approvals::{
        Reply,
        question::{Answer, Question, QuestionStatus},
        record::Decider,
        records,
        refusal::NotAnswered,
    },
    ids::QuestionId,
    queue::refusal::Refusal,
    store::reads::get,
};

use super::{
    State,
    approvals::{PATIENCE, ask, settled},
    call::Call,
    caller::Caller,
    error::ApiError,
    json,
    listing::Gathering,
    routes::{Resource, on},
};
use crate::api::{
    endpoint::{ById, Empty},
    questions::{
        ANSWER_QUESTION, LIST_QUESTIONS, QuestionAnswer, QuestionFilter, QuestionRow, SHOW_QUESTION,
    },
    reply::{Data, Rows},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&LIST_QUESTIONS, list), on(&SHOW_QUESTION, show), on(&ANSWER_QUESTION, reply)]
}

impl From<Question> for QuestionRow {
    fn from(question: Question) -> Self {
        Self {
            id: question.id.to_string(),
            generation: question.team.generation,
            team: question.team.name.to_string(),
            lane: question.lane,
            task_id: question.task.to_string(),
            question: question.question,
            options: question.options,
            multi: question.multi,
            kind: question.kind,
            key: question.key,
            status: question.status,
            answer: question.answer,
            by: question.by,
            created_at: json::date(question.created_at),
            expires_at: json::date(question.expires_at),
            answered_at: question.answered_at.and_then(json::date),
        }
    }
}

/// Oldest first.
async fn list(
    Call { state, caller, query: QuestionFilter { status, team }, page, .. }: Call<
        Empty,
        QuestionFilter,
    >,
) -> Result<Rows<QuestionRow>, ApiError> {
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let wanted = move |row: &Question| {
        let name = row.team.name.as_str();
        let reached = |teams: &Vec<String>| teams.iter().any(|team| team == name);
        teams.as_ref().is_none_or(reached)
            && status.is_none_or(|wanted| row.status == wanted)
            && team.as_ref().is_none_or(|wanted| name == wanted)
    };
    settled(&state).await?;
    // What waits is found without looking at the rest.
    let each = match status {
        Some(QuestionStatus::Open) => records::each_waiting::<Question>,
        _ => records::each::<Question>,
    };
    let rows = state.spine.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        each(storage, &mut |row: Question| {
            if wanted(&row) {
                let at = match page.sort.field {
                    "expires_at" => row.expires_at,
                    _ => row.created_at,
                };
                gathering.see(at, row.id.as_str());
            }
        })?;
        gathering.rows(&page, |id| {
            let row = get::<Question>(storage, &QuestionId::from(id))?;
            Ok(row.map(QuestionRow::from))
        })
    });
    rows.await.map_err(ApiError::internal)
}

async fn show(Call { state, caller, path, .. }: Call<ById>) -> Result<Data<QuestionRow>, ApiError> {
    settled(&state).await?;
    let found = find(&state, &caller, &QuestionId::from(path.id)).await?;
    Ok(Data(found.into()))
}

/// A question of a team that the caller reaches.
async fn find(state: &State, caller: &Caller, id: &QuestionId) -> Result<Question, ApiError> {
    let id = id.clone();
    let store = &state.spine.store;
    let found = store.read(move |storage| get::<Question>(storage, &id));
    found
        .await
        .map_err(ApiError::internal)?
        .filter(|question| caller.reaches(question.team.name.as_str()))
        .ok_or_else(|| ApiError::not_found("there is no such question"))
}

async fn reply(
    Call { state, caller, path, body, .. }: Call<ById, Empty, QuestionAnswer>,
) -> Result<Data<QuestionRow>, ApiError> {
    let QuestionAnswer { selected, text } = body;
    let id = QuestionId::from(path.id);
    if caller.principal.teams().is_some() {
        find(&state, &caller, &id).await?;
    }
    let reply = Reply {
        question: id,
        answer: Answer { selected, text },
        by: Decider {
            credential: Some(caller.principal.credential().to_string()),
            ..Decider::new(caller.principal.id().clone())
        },
        channel: None,
    };
    let answered = state.spine.approvals.send(reply).timeout(PATIENCE).await;
    match ask(answered)? {
        Ok(question) => Ok(Data(question.into())),
        Err(refusal) => Err(refused(refusal)),
    }
}

fn refused(refusal: NotAnswered) -> ApiError {
    let message = refusal.to_string();
    let conflict = |code, message| ApiError::new(StatusCode::CONFLICT, code, message);
    match refusal {
        NotAnswered::NotFound => ApiError::not_found(message),
        NotAnswered::AlreadyAnswered(question) => {
            let who = question.by.as_deref().unwrap_or("nobody");
            let when = question.answered_at.and_then(json::date).unwrap_or_default();
            conflict("already_answered", format!("it was answered by {who} at {when}"))
        }
        NotAnswered::Expired => conflict("expired", message),
        NotAnswered::Cancelled | NotAnswered::Busy | NotAnswered::Vault(_) => {
            conflict("conflict", message)
        }
        NotAnswered::Unfit(unfit) => ApiError::unfit(unfit.field, unfit.reason),
        NotAnswered::Refused(Refusal::QueueFull(_)) => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "queue_full", message)
        }
        NotAnswered::Refused(Refusal::DiskFull) => ApiError::disk_full(),
        NotAnswered::Refused(_) => conflict("conflict", message),
        other => ApiError::internal(other),
    }
}
