//! Jobs: work that takes longer than a request.

use clap::Args;
use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::*};

pub const LIST_JOBS: Endpoint<Rows<Job>, Empty, JobFilter> =
    get("/api/v1/jobs", Admin, "Lists the jobs of this process.").sorted(&["-started_at", "kind"]);

pub const SHOW_JOB: Endpoint<Data<Job>, ById> =
    get("/api/v1/jobs/{id}", Admin, "Says how far a job is.");

pub const CANCEL_JOB: Endpoint<Accepted<Job>, ById> = post(
    "/api/v1/jobs/{id}/cancel",
    Admin,
    "Asks a job to stop at the next safe point, leaving nothing half done.",
)
.description("It is `cancelled` once it has stopped. One that is done or has failed stays so.")
.refuses(&[409]);

words! {
    /// How far a job is.
    pub enum JobState {
        /// At work.
        Running = "running",
        /// Ended well.
        Done = "done",
        /// Ended badly: `message` says why.
        Failed = "failed",
        /// Stopped because somebody wanted it to.
        Cancelled = "cancelled",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct JobFilter {
    /// Only in this state.
    #[arg(long, value_parser = flags::words::<JobState>())]
    pub state: Option<JobState>,
}

/// How much of a job is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobProgress {
    /// What is done.
    pub done: u64,
    /// What there is to do in all; 0 while that is unknown.
    pub total: u64,
    /// What is counted.
    pub unit: String,
}

/// A job, as its followers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    pub id: String,
    /// What it does.
    pub kind: String,
    pub state: JobState,
    #[serde(flatten)]
    pub progress: JobProgress,
    /// What came of it.
    pub message: String,
    /// What else there is to know, such as what a backup left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    pub started_at: Moment,
}

/// Work that goes on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct StartedJob {
    /// For `/api/v1/jobs/{id}`.
    pub job_id: String,
}
