//! `/api/v1/jobs`: work that takes longer than a request.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use actix_web::{http::StatusCode, web};
use hivewright_actors::{
    clock::{Clock, Timestamp},
    live::{
        Publisher,
        event::{Event, Kind},
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    State,
    arguments::{Admin, Caller, Json},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Accepted, Data, Rows},
    routes::{Resource, at},
};
use crate::api::endpoint::Empty;

/// Jobs that are remembered; the oldest goes.
const MOST: usize = 100;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/jobs").get(
            Operation::new("Lists the jobs of this process.")
                .query(
                    const {
                        &[Field::word(
                            "state",
                            || vec!["running", "done", "failed", "cancelled"],
                            "Only in this state.",
                        )]
                    },
                )
                .pages(&["-started_at", "kind"]),
            list,
        ),
        at("/api/v1/jobs/{id}").get(Operation::new("Says how far a job is."), show),
        at("/api/v1/jobs/{id}/cancel").post(
            Operation::new("Asks a job to stop at the next safe point, leaving nothing half done.")
                .description(
                    "It is `cancelled` once it has stopped. One that is done or has failed stays so.",
                )
                .refuses(&[409]),
            cancel,
        ),
    ]
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At work.
    Running,
    /// Ended well.
    Done,
    /// Ended badly: `message` says why.
    Failed,
    /// Stopped because somebody wanted it to.
    Cancelled,
}

/// How much of a job is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "JobProgress")]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// What there is to do in all; 0 while that is unknown.
    pub total: u64,
    /// What is counted.
    pub unit: &'static str,
}

/// A job, as its followers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Job {
    /// Its name.
    pub id: String,
    /// What it does.
    pub kind: &'static str,
    /// How far it is.
    pub state: JobState,
    /// How much is done.
    #[serde(flatten)]
    pub progress: Progress,
    /// What came of it.
    pub message: String,
    /// When it began.
    pub started_at: String,
}

/// The jobs of this process.
#[derive(Clone)]
pub struct Jobs {
    clock: Arc<dyn Clock>,
    live: Publisher,
    list: Arc<Mutex<VecDeque<Job>>>,
    /// Of those at work, by id: how they are asked to stop.
    stops: Arc<Mutex<HashMap<String, CancellationToken>>>,
}

/// A job, as whoever does it sees it.
pub struct Work {
    jobs: Jobs,
    id: String,
    stop: CancellationToken,
}

impl Work {
    /// Tells how far it is.
    pub fn report(&self, progress: Progress) {
        self.jobs.update(&self.id, |job| job.progress = progress);
    }

    /// It is to stop where nothing is left half done.
    pub fn is_cancelled(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// What came of asking a job to stop.
pub enum Stopping {
    /// It will, or has.
    Heard(Job),
    /// It ended before.
    Over,
}

impl Jobs {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>, live: Publisher) -> Self {
        Self { clock, live, list: Arc::default(), stops: Arc::default() }
    }

    /// Starts blocking work on a thread of its own; none if one of its kind is at work already.
    ///
    /// The work returns what is to be said of it.
    pub fn start(
        &self,
        kind: &'static str,
        work: impl FnOnce(&Work) -> Result<String, String> + Send + 'static,
    ) -> Option<String> {
        let id = {
            let mut list = self.lock();
            let is_running = |job: &Job| job.kind == kind && job.state == JobState::Running;
            if list.iter().any(is_running) {
                return None;
            }
            let now: Timestamp = self.clock.now();
            let number = list.back().map_or(0, |job| number(&job.id)) + 1;
            // Numbers begin anew with the process, names do not.
            let id = format!("job-{}-{number}", self.live.mark().boot);
            list.push_back(Job {
                id: id.clone(),
                kind,
                state: JobState::Running,
                progress: Progress::default(),
                message: String::new(),
                started_at: json::date(now).unwrap_or_default(),
            });
            if list.len() > MOST {
                list.pop_front();
            }
            id
        };
        let at_work = Work { jobs: self.clone(), id: id.clone(), stop: CancellationToken::new() };
        self.stops().insert(id.clone(), at_work.stop.clone());
        tokio::task::spawn_blocking(move || {
            // A panic must not leave it running for ever.
            let mut ending =
                Ending { work: &at_work, outcome: Err("the job failed unexpectedly".to_owned()) };
            ending.outcome = work(&at_work);
        });
        Some(id)
    }

    /// Asks a job to stop. None: there is no such job.
    pub fn cancel(&self, id: &str) -> Option<Stopping> {
        let job = self.get(id)?;
        match self.stops().get(id) {
            Some(stop) => stop.cancel(),
            None if job.state == JobState::Cancelled => {}
            None => return Some(Stopping::Over),
        }
        Some(Stopping::Heard(job))
    }

    /// A job by its name.
    pub fn get(&self, id: &str) -> Option<Job> {
        self.lock().iter().find(|job| job.id == id).cloned()
    }

    /// All that are remembered, newest first.
    pub fn all(&self) -> Vec<Job> {
        self.lock().iter().rev().cloned().collect()
    }

    fn update(&self, id: &str, change: impl FnOnce(&mut Job)) {
        let mut list = self.lock();
        let Some(job) = list.iter_mut().find(|job| job.id == id) else {
            return;
        };
        change(job);
        let told = serde_json::to_value(&*job).unwrap_or_default();
        drop(list);
        self.live.publish(Event::new(Kind::JobProgress, told));
    }

    fn stops(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.lock().iter()).finish()
    }
}

struct Ending<'a> {
    work: &'a Work,
    outcome: Result<String, String>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Work { jobs, id, stop } = self.work;
        let (state, message) = match &self.outcome {
            Ok(message) => (JobState::Done, message),
            Err(message) if stop.is_cancelled() => (JobState::Cancelled, message),
            Err(message) => (JobState::Failed, message),
        };
        match state {
            JobState::Failed => tracing::warn!(job = id, outcome = %message, "job failed"),
            JobState::Cancelled => tracing::info!(job = id, outcome = %message, "job cancelled"),
            _ => tracing::info!(job = id, outcome = %message, "job done"),
        }
        jobs.update(id, |job| {
            job.state = state;
            job.message.clone_from(message);
        });
        jobs.stops().remove(id);
    }
}

fn number(id: &str) -> u64 {
    let number = id.rsplit('-').next().and_then(|text| text.parse().ok());
    number.unwrap_or(0)
}

async fn list(state: web::Data<State>, caller: Caller<Admin>) -> Result<Rows<Job>, ApiError> {
    caller.all_teams()?;
    let states = [
        ("running", JobState::Running),
        ("done", JobState::Done),
        ("failed", JobState::Failed),
        ("cancelled", JobState::Cancelled),
    ];
    let wanted = caller.query.word("state", &states);
    let jobs = state.jobs.all().into_iter();
    let jobs = jobs.filter(|job| wanted.is_none_or(|state| job.state == state));
    listing::page(jobs, &caller.query.page()?, |job| job.id.clone())
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Admin>,
    id: web::Path<String>,
) -> Result<Data<Job>, ApiError> {
    caller.all_teams()?;
    let job = state.jobs.get(&id);
    job.map(Data).ok_or_else(|| ApiError::not_found("there is no such job"))
}

async fn cancel(
    state: web::Data<State>,
    caller: Caller<Admin>,
    id: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Accepted<Job>, ApiError> {
    caller.all_teams()?;
    match state.jobs.cancel(&id) {
        None => Err(ApiError::not_found("there is no such job")),
        Some(Stopping::Heard(job)) => Ok(Accepted(job)),
        Some(Stopping::Over) => {
            Err(ApiError::new(StatusCode::CONFLICT, "final", "the job has ended already"))
        }
    }
}
