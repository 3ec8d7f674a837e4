//! `/api/v1/backups`: makes backups.

use std::path::PathBuf;

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use serde::Deserialize;
use serde_json::json;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    jobs::Progress,
    json::{self, Body},
    routes::{self, Methods},
};

/// Makes a backup: in the file, or where backups go. Returns the file, or why there is none.
///
/// Blocks for long. Reports progress as it goes.
pub type BackupRunner =
    dyn Fn(Option<PathBuf>, &dyn Fn(Progress)) -> Result<PathBuf, String> + Send + Sync;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/backups", Methods::new().post(create))
}

#[derive(Deserialize)]
struct Wish {
    file: Option<PathBuf>,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] = &["file"];
}

async fn create(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let Wish { file } = json::read(&request, payload).await?;
    if file.as_ref().is_some_and(|file| !file.is_absolute()) {
        return Err(ApiError::invalid_field(
            "file",
            "expected an absolute path: the service does not know where you are",
        ));
    }
    let runner = state.backups.clone();
    let job = state.jobs.start("backup", move |progress| {
        let file = runner(file, progress)?;
        Ok(file.display().to_string())
    });
    let id = job.ok_or_else(|| ApiError::conflict("a backup is being made already"))?;
    Ok(json::data(StatusCode::ACCEPTED, json!({ "job_id": id })))
}
