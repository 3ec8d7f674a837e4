//! `/api/v1/questions`: what teams ask the operator, and the answers.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    approvals::{
        ListQuestions, Reply,
        question::{Answer, AnswerKind, Question, QuestionStatus},
        record::Decider,
        refusal::NotAnswered,
    },
    queue::submit::Refusal,
    store::reads,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    State,
    approvals::{PATIENCE, ask, choice},
    auth::scope::Scope,
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/questions", Methods::new().get(list))
}

pub(super) fn answer() -> Resource {
    routes::resource("/api/v1/questions/{id}/answer", Methods::new().post(reply))
}

/// A question as answers show it.
#[derive(Serialize)]
pub(super) struct Row {
    id: String,
    team: String,
    generation: u32,
    lane: Value,
    task_id: String,
    question: String,
    options: Vec<String>,
    multi: bool,
    kind: AnswerKind,
    key: Option<String>,
    status: QuestionStatus,
    /// Never a secret.
    answer: Option<Answer>,
    by: Option<String>,
    created_at: Option<String>,
    expires_at: Option<String>,
    answered_at: Option<String>,
}

impl From<Question> for Row {
    fn from(question: Question) -> Self {
        Self {
            id: question.id.to_string(),
            generation: question.team.generation,
            team: question.team.name.to_string(),
            lane: json!(question.lane),
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

/// It may hold a secret: it is not to be shown.
#[derive(Deserialize)]
struct Wish {
    #[serde(default)]
    selected: Vec<String>,
    #[serde(default)]
    text: String,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] = &["selected", "text"];
}

/// Oldest first.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &["status", "team", "limit", "offset"])?;
    let status = choice(&query, "status", &QuestionStatus::ALL)?;
    let team = query.text("team").map(str::to_owned);
    let page = query.page()?;
    let open = state
        .spine
        .approvals
        .send(ListQuestions)
        .timeout(PATIENCE)
        .await;
    let open = ask(open)?;
    let all = match status {
        Some(QuestionStatus::Open) => open,
        _ => {
            let store = &state.spine.store;
            store
                .commit(Default::default())
                .await
                .map_err(ApiError::internal)?;
            let found = store.read(reads::questions).await;
            found.map_err(ApiError::internal)?.rows
        }
    };
    let rows: Vec<Row> = all
        .into_iter()
        .filter(|row| {
            status.is_none_or(|wanted| row.status == wanted)
                && team
                    .as_ref()
                    .is_none_or(|wanted| row.team.name.as_str() == wanted)
        })
        .map(Row::from)
        .collect();
    Ok(json::page(&rows, page))
}

async fn reply(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Approve)?;
    json::no_query(&request)?;
    let Wish { selected, text } = json::read(&request, payload).await?;
    let reply = Reply {
        question: id.into_inner().into(),
        answer: Answer { selected, text },
        by: Decider::new(principal.id().clone()),
        channel: None,
    };
    let answered = state.spine.approvals.send(reply).timeout(PATIENCE).await;
    match ask(answered)? {
        Ok(question) => Ok(json::data(StatusCode::OK, Row::from(question))),
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
            let when = question
                .answered_at
                .and_then(json::date)
                .unwrap_or_default();
            conflict(
                "already_answered",
                format!("it was answered by {who} at {when}"),
            )
        }
        NotAnswered::Expired => conflict("expired", message),
        NotAnswered::Cancelled | NotAnswered::Busy | NotAnswered::Vault(_) => {
            conflict("conflict", message)
        }
        NotAnswered::Unfit(unfit) => ApiError::unfit(unfit.field, unfit.reason),
        NotAnswered::Refused(Refusal::QueueFull(_)) => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "queue_full", message)
        }
        NotAnswered::Refused(_) => conflict("conflict", message),
        other => ApiError::internal(other),
    }
}
