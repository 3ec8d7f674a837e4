//! `/api/v1/jobs`: work that takes longer than a request.

use crate::{
    api::{endpoint::*, jobs::*, reply::*},
    http::{
        jobs::Stopping,
        kit::{call::*, error::*, listing},
    },
};

pub(super) async fn list(
    Call { state, caller, query: JobFilter { state: wanted }, page, .. }: Call<Empty, JobFilter>,
) -> ApiResult<Rows<Job>> {
    caller.all_teams()?;
    let jobs = state.jobs.all().into_iter();
    let jobs = jobs.filter(|job| wanted.is_none_or(|state| job.state == state));
    listing::page(jobs, &page, |job| job.id.clone())
}

pub(super) async fn show(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Data<Job>> {
    caller.all_teams()?;
    state.jobs.get(&path.id).map(Data).ok_or_else(unknown)
}

pub(super) async fn cancel(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Accepted<Job>> {
    caller.all_teams()?;
    match state.jobs.cancel(&path.id).ok_or_else(unknown)? {
        Stopping::Heard(job) => Ok(Accepted(job)),
        Stopping::Over => Err(ApiError::conflict_as("final", "the job has ended already")),
    }
}

fn unknown() -> ApiError {
    ApiError::not_found("there is no such job")
}
