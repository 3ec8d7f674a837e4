//! `/api/v1/changes`: what teams changed about themselves after a person agreed, and the way back.

use actix_web::web;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    State,
    arguments::{Caller, Json, Operate, Read},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Data, Rows},
    routes::{Resource, at},
    teams::acting::Nothing,
};
use crate::changes::{Change, ChangeError};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/changes").get(
            Operation::new("Lists what teams changed about themselves after a person agreed.")
                .query(const { &[Field::text("team", "Only of this team.")] })
                .pages(&["-at", "team", "file"]),
            list,
        ),
        at("/api/v1/changes/{id}/rollback").post(
            Operation::new("Puts back the text from before a change.")
                .description("Refused if the file was changed since.")
                .refuses(&[409]),
            roll_back,
        ),
    ]
}

/// A change as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = SelfChange)]
struct Row {
    id: String,
    team: String,
    file: String,
    reason: String,
    before: String,
    after: String,
    task_id: String,
    at: Option<String>,
    rolled_back_by: Option<String>,
    rolled_back_at: Option<String>,
}

impl Row {
    fn new(change: Change) -> Self {
        let (by, back_at) = change.rolled_back.unzip();
        Self {
            id: change.id,
            team: change.team.name.to_string(),
            file: change.file,
            reason: change.reason,
            before: change.before,
            after: change.after,
            task_id: change.task.to_string(),
            at: json::date(change.at),
            rolled_back_by: by,
            rolled_back_at: back_at.and_then(json::date),
        }
    }
}

fn refused(error: ChangeError) -> ApiError {
    match error {
        ChangeError::Unknown(_) => ApiError::not_found(error.to_string()),
        ChangeError::Again | ChangeError::MovedOn(_) | ChangeError::File(_) => {
            ApiError::conflict(error.to_string())
        }
        error => ApiError::internal(error),
    }
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let page = caller.query.page()?;
    let team = caller.query.text("team");
    let changes = state.changes.list().await.map_err(refused)?;
    let wanted = |change: &Change| {
        let name = change.team.name.as_str();
        caller.reaches(name) && team.is_none_or(|team| name == team)
    };
    let rows = changes.into_iter().filter(wanted).map(Row::new);
    listing::page(rows, &page, |row| row.id.clone())
}

async fn roll_back(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<Data<Row>, ApiError> {
    if caller.principal.teams().is_some() {
        let changes = state.changes.list().await.map_err(refused)?;
        let is_own =
            |change: &Change| change.id == *id && caller.reaches(change.team.name.as_str());
        if !changes.iter().any(is_own) {
            return Err(refused(ChangeError::Unknown(id.into_inner())));
        }
    }
    let change = state.changes.roll_back(&id, caller.principal.id()).await;
    change.map(Row::new).map(Data).map_err(refused)
}
