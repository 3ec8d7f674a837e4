//! `/api/v1/backups`: makes backups, and lists them.

use hivewright_actors::blocking;

use crate::{
    api::{backups::*, endpoint::*, jobs::StartedJob, reply::*},
    http::kit::{call::*, error::*, listing},
    storage::backup::BackupName,
};

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<BackupRow>> {
    caller.all_teams()?;
    let backups = state.backups.clone();
    let kept = blocking::run(move || backups.list()).await??;
    listing::page(kept, &page, |row| row.file.clone())
}

pub(super) async fn make(
    Call { state, caller, body: NewBackup { name }, .. }: Call<Empty, Empty, NewBackup>,
) -> ApiResult<Accepted<StartedJob>> {
    caller.all_teams()?;
    let named = |name: &String| {
        BackupName::new(name).ok_or_else(|| ApiError::invalid_field("name", BackupName::FORM))
    };
    let file_name = name.as_ref().map(named).transpose()?;
    let backups = state.backups.clone();
    let job = state.jobs.start("backup", move |work| {
        let file = backups.make(file_name, work)?;
        Ok(file.display().to_string())
    });
    let job_id = job.ok_or_else(|| ApiError::conflict("a backup is being made already"))?;
    caller.names(format!("{job_id} {}", name.unwrap_or_default()).trim_end());
    Ok(Accepted(StartedJob { job_id }))
}
