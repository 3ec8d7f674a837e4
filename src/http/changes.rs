//! `/api/v1/changes`: what teams changed about themselves after a person agreed, and the way back.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use serde::{Deserialize, Serialize};

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json::{self, Body},
    query::Query,
    routes::{self, Methods},
};
use crate::changes::{Change, ChangeError};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/changes", Methods::new().get(list))
}

pub(super) fn rollback() -> Resource {
    routes::resource(
        "/api/v1/changes/{id}/rollback",
        Methods::new().post(roll_back),
    )
}

/// A change as answers show it.
#[derive(Serialize)]
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

#[derive(Deserialize)]
struct Nothing {}

impl Body for Nothing {
    const FIELDS: &'static [&'static str] = &[];
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

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &["team", "limit", "offset"])?;
    let page = query.page()?;
    let team = query.text("team");
    let changes = state.changes.list().await.map_err(refused)?;
    let wanted = |change: &Change| team.is_none_or(|team| change.team.name.as_str() == team);
    let rows: Vec<Row> = changes.into_iter().filter(wanted).map(Row::new).collect();
    Ok(json::page(&rows, page))
}

async fn roll_back(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let Nothing {} = json::read(&request, payload).await?;
    let change = state.changes.roll_back(&id, principal.id()).await;
    let change = change.map_err(refused)?;
    Ok(json::data(StatusCode::OK, Row::new(change)))
}
