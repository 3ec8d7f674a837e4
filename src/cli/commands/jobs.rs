//! `hivewright jobs`: work of the service that takes longer than a request.

use clap::Subcommand;

use crate::{
    api::{
        endpoint::ById,
        jobs::{CANCEL_JOB, Job, JobFilter, LIST_JOBS, SHOW_JOB},
    },
    cli::{
        answer::Listing,
        client::Service,
        context::Context,
        failure::Failure,
        table::{self, columns, moment},
        watch::Watched,
    },
};

/// See and stop long work of the service, such as backups
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright jobs list\n  \
    hivewright jobs cancel job-1")]
pub(super) enum Action {
    /// List the jobs of this process, newest first
    #[command(after_help = "Example:\n  hivewright jobs list --state running --json")]
    List(Watched<Listing<JobFilter>>),
    /// Say how far a job is
    #[command(after_help = "Example:\n  hivewright jobs show job-1")]
    Show {
        /// The id of the job
        id: String,
    },
    /// Have a job stop at the next safe point, leaving nothing half done
    #[command(after_help = "Example:\n  hivewright jobs cancel job-1")]
    Cancel {
        /// The id of the job
        id: String,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let (service, screen) = (Service::find(context)?, context.screen);
    match action {
        Action::List(list) => list.show(&LIST_JOBS, context).await,
        Action::Show { id } => {
            let job = service.at(&SHOW_JOB, &ById { id }).await?;
            job.show(screen, |job| table::rows(&[job]))
        }
        Action::Cancel { id } => {
            let job = service.at(&CANCEL_JOB, &ById { id }).await?;
            job.tell(screen, |job| {
                format!("{} is {}; it stops at the next safe point", job.id, job.state)
            })
        }
    }
}

columns!(Job {
    "ID" => |job| job.id.clone(),
    "KIND" => |job| job.kind.clone(),
    "STATE" => |job| job.state.to_string(),
    "DONE" => |job| match job.progress.total {
        0 => job.progress.done.to_string(),
        total => format!("{} of {total} {}", job.progress.done, job.progress.unit),
    },
    "SINCE" => |job| moment(job.started_at),
    "RESULT" => |job| job.message.clone(),
});
