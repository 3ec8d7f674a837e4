//! `/api/v1/backups`: makes backups, and lists them.

use std::{io, path::PathBuf};

use hivewright_actors::blocking;

use super::{call::*, error::*, jobs::Work, listing};
use crate::{
    api::{backups::*, endpoint::*, jobs::StartedJob, reply::*},
    storage::backup::BackupName,
};

/// Makes backups and knows those that are kept. All of it blocks.
pub trait Backups: Send + Sync + 'static {
    /// Makes one where backups go, under this name or as a regular one. Returns the file, or why there is
    /// none. Takes long, reports how far it is, and leaves nothing behind if it is cancelled.
    fn make(&self, name: Option<BackupName>, work: &Work) -> Result<PathBuf, String>;

    /// Those that are where backups go, newest first. There are never many.
    fn list(&self) -> io::Result<Vec<BackupRow>>;
}

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
