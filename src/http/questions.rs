//! `/api/v1/questions`: what teams ask the operator, and the answers.

use actix_web::{http::StatusCode, web};
use hivewright_actors::{
    approvals::{
        Reply,
        question::{Answer, AnswerKind, Question, QuestionStatus},
        record::Decider,
        records,
        refusal::NotAnswered,
    },
    ids::QuestionId,
    queue::submit::Refusal,
    store::reads::get,
    task::Lane,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    State,
    approvals::{PATIENCE, ask, settled, words},
    arguments::{Approve, Caller, Json, Read},
    error::ApiError,
    json,
    listing::Gathering,
    operation::{Field, Operation},
    reply::{Data, Rows},
    routes::{Resource, at},
};
use crate::vocabulary;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/questions").get(
            Operation::new("Lists what teams ask the operator.")
                .query(
                    const {
                        &[
                            Field::word(
                                "status",
                                || words(&QuestionStatus::ALL),
                                "Only with this status.",
                            ),
                            Field::text("team", "Only of this team."),
                        ]
                    },
                )
                .pages(&["created_at", "expires_at"]),
            list,
        ),
        at("/api/v1/questions/{id}").get(Operation::new("Shows a question."), show),
        at("/api/v1/questions/{id}/answer").post(
            Operation::new("Answers a question.")
                .description(
                    "Of kind `secret`, `text` goes into the vault under `key` and nowhere else.",
                )
                .refuses(&[409, 422, 503])
                .secret()
                .example(r#"{"selected": ["staging"], "text": "and only today"}"#),
            reply,
        ),
    ]
}

/// A question as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Question)]
pub(super) struct Row {
    id: String,
    team: String,
    generation: u32,
    /// Where the answer goes.
    #[schema(schema_with = vocabulary::of::<Lane>)]
    lane: Lane,
    task_id: String,
    question: String,
    /// What can be chosen; other words are always welcome.
    options: Vec<String>,
    multi: bool,
    #[schema(schema_with = vocabulary::of::<AnswerKind>)]
    kind: AnswerKind,
    /// Where a secret goes in the vault.
    key: Option<String>,
    #[schema(schema_with = vocabulary::of::<QuestionStatus>)]
    status: QuestionStatus,
    /// Never a secret.
    #[schema(schema_with = vocabulary::maybe::<Answer>)]
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

/// It may hold a secret: it is not to be shown.
#[derive(Deserialize, ToSchema)]
#[schema(as = QuestionAnswer)]
struct Wish {
    /// Of the options.
    #[serde(default)]
    selected: Vec<String>,
    /// Words, or the secret that was asked for.
    #[serde(default)]
    text: String,
}

/// Oldest first.
async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let status = query.word("status", &QuestionStatus::ALL);
    let team = query.text("team").map(str::to_owned);
    let page = query.page()?;
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
        Some(QuestionStatus::Open) => records::each_open,
        _ => records::each_question,
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
            Ok(row.map(Row::from))
        })
    });
    rows.await.map_err(ApiError::internal)
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Data<Row>, ApiError> {
    settled(&state).await?;
    let found = find(&state, &caller, &QuestionId::from(id.into_inner())).await?;
    Ok(Data(Row::from(found)))
}

/// A question of a team that the caller reaches.
async fn find<R>(state: &State, caller: &Caller<R>, id: &QuestionId) -> Result<Question, ApiError> {
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
    state: web::Data<State>,
    caller: Caller<Approve>,
    id: web::Path<String>,
    Json(Wish { selected, text }): Json<Wish>,
) -> Result<Data<Row>, ApiError> {
    let id = QuestionId::from(id.into_inner());
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
        Ok(question) => Ok(Data(Row::from(question))),
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
