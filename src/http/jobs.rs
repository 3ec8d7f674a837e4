//! `/api/v1/jobs`: work that takes longer than a request.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hivewright_actors::{
    clock::Clock,
    live::{
        Publisher,
        event::{Event, Kind},
    },
};
use tokio_util::sync::CancellationToken;

use super::{call::*, error::*, listing};
use crate::api::{endpoint::*, jobs::*, reply::*};

/// Jobs that are remembered; the oldest goes.
const MOST: usize = 100;

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
    pub fn report(&self, progress: JobProgress) {
        self.jobs.update(&self.id, |job| job.progress = progress);
    }

    /// It is to stop where nothing is left half done.
    pub fn is_cancelled(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// What came of asking a job to stop.
pub enum Stopping {
    Heard(Job),
    Over,
}

impl Jobs {
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
            let number = list.back().map_or(0, |job| number(&job.id)) + 1;
            // Numbers begin anew with the process, names do not.
            let id = format!("job-{}-{number}", self.live.mark().boot);
            list.push_back(Job {
                id: id.clone(),
                kind: kind.to_owned(),
                state: JobState::Running,
                progress: JobProgress::default(),
                message: String::new(),
                started_at: self.clock.now().date(),
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
    id.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

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
