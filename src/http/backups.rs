//! `/api/v1/backups`: makes backups.

use std::path::PathBuf;

use actix_web::web;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    State,
    arguments::{Admin, Caller, Json},
    error::ApiError,
    jobs::Progress,
    operation::Operation,
    reply::Accepted,
    routes::{Resource, at},
};

/// Makes a backup: in the file, or where backups go. Returns the file, or why there is none.
///
/// Blocks for long. Reports progress as it goes.
pub type BackupRunner =
    dyn Fn(Option<PathBuf>, &dyn Fn(Progress)) -> Result<PathBuf, String> + Send + Sync;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/backups").post(
            Operation::new("Makes a backup, as a job that goes on after the answer.")
                .description("`file` is an absolute path; without it the backup goes where all go.")
                .refuses(&[409])
                .example("{}"),
            create,
        ),
    ]
}

#[derive(Deserialize, ToSchema)]
#[schema(as = NewBackup)]
struct Wish {
    /// Where it goes: an absolute path.
    #[schema(value_type = Option<String>)]
    file: Option<PathBuf>,
}

/// Work that goes on.
#[derive(Serialize, ToSchema)]
#[schema(as = StartedJob)]
struct Started {
    /// For `/api/v1/jobs/{id}`.
    job_id: String,
}

async fn create(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(Wish { file }): Json<Wish>,
) -> Result<Accepted<Started>, ApiError> {
    caller.all_teams()?;
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
    Ok(Accepted(Started { job_id: id }))
}
