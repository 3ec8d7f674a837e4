//! `/api/v1/backups`: makes backups, and lists them.

use std::{io, path::PathBuf};

use actix_web::web;
use hivewright_actors::clock::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    arguments::{Admin, Caller, Json},
    error::ApiError,
    jobs::Work,
    json, listing,
    operation::Operation,
    reply::{Accepted, Rows},
    routes::{Resource, at},
};
use crate::storage::backup::BackupName;

/// Makes backups and knows those that are kept. All of it blocks.
pub trait Backups: Send + Sync + 'static {
    /// Makes one where backups go, under this name or as a regular one. Returns the file, or why there is
    /// none. Takes long, reports how far it is, and leaves nothing behind if it is cancelled.
    fn make(&self, name: Option<BackupName>, work: &Work) -> Result<PathBuf, String>;

    /// Those that are where backups go, newest first. There are never many.
    fn list(&self) -> io::Result<Vec<Backup>>;
}

/// A backup that is kept.
pub struct Backup {
    /// Where.
    pub file: PathBuf,
    /// How large.
    pub bytes: u64,
    /// When it was complete.
    pub made: Timestamp,
}

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/backups")
            .get(
                Operation::new("Lists the backups that are kept where all go.").pages(&[
                    "-created_at",
                    "file",
                    "bytes",
                ]),
                list,
            )
            .post(
                Operation::new("Makes a backup, as a job that goes on after the answer.")
                    .description(
                        "It goes where all go, and replaces nothing there. One with a `name` stays until it is \
                         deleted by hand; of those without, the newest seven stay.",
                    )
                    .refuses(&[409])
                    .example(r#"{"name": "before-the-move"}"#),
                create,
            ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewBackup")]
struct Wish {
    /// 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit; not `hivewright-…`.
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    name: Option<String>,
}

/// Work that goes on.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StartedJob")]
struct Started {
    /// For `/api/v1/jobs/{id}`.
    job_id: String,
}

/// A backup as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Backup")]
struct Row {
    file: String,
    bytes: u64,
    created_at: Option<String>,
}

async fn list(state: web::Data<State>, caller: Caller<Admin>) -> Result<Rows<Row>, ApiError> {
    caller.all_teams()?;
    let page = caller.query.page()?;
    let backups = state.backups.clone();
    let kept = web::block(move || backups.list()).await;
    let kept = kept.map_err(ApiError::internal)?;
    let rows = kept.map_err(ApiError::internal)?.into_iter();
    let rows = rows.map(|backup| Row {
        file: backup.file.display().to_string(),
        bytes: backup.bytes,
        created_at: json::date(backup.made),
    });
    listing::page(rows, &page, |row| row.file.clone())
}

async fn create(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(Wish { name }): Json<Wish>,
) -> Result<Accepted<Started>, ApiError> {
    caller.all_teams()?;
    let named = |name: String| {
        BackupName::new(&name).ok_or_else(|| ApiError::invalid_field("name", BackupName::FORM))
    };
    let wished = name.clone().unwrap_or_default();
    let name = name.map(named).transpose()?;
    let backups = state.backups.clone();
    let job = state.jobs.start("backup", move |work| {
        let file = backups.make(name, work)?;
        Ok(file.display().to_string())
    });
    let id = job.ok_or_else(|| ApiError::conflict("a backup is being made already"))?;
    caller.names(format!("{id} {wished}").trim_end());
    Ok(Accepted(Started { job_id: id }))
}
