//! Background jobs: work that takes longer than a request, and how far it is.

use std::{collections::VecDeque, sync::Arc};

use hivewright_actors::{
    blocking,
    clock::Clock,
    live::{
        Publisher,
        event::{Event, Kind},
    },
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::api::{
    jobs::{Job, JobProgress, JobState},
    when::Moment,
};

/// Jobs that are remembered; the oldest goes.
const MOST: usize = 100;

/// The jobs of this process.
#[derive(Clone)]
pub struct Jobs {
    clock: Arc<dyn Clock>,
    live: Publisher,
    list: Arc<Mutex<VecDeque<Known>>>,
}

/// A job that is remembered, and how it is asked to stop.
struct Known {
    job: Job,
    stop: CancellationToken,
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

    /// Says what else whoever follows it should know.
    pub fn remark(&self, remarks: Vec<String>) {
        if !remarks.is_empty() {
            self.jobs.update(&self.id, |job| job.remarks.extend(remarks));
        }
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
        Self { clock, live, list: Arc::default() }
    }

    /// Starts blocking work on a thread of its own; none if one of its kind is at work already.
    ///
    /// The work returns what is to be said of it.
    pub fn start(
        &self,
        kind: &'static str,
        work: impl FnOnce(&Work) -> Result<String, String> + Send + 'static,
    ) -> Option<String> {
        let stop = CancellationToken::new();
        let id = {
            let mut list = self.list.lock();
            let is_running =
                |Known { job, .. }: &Known| job.kind == kind && job.state == JobState::Running;
            if list.iter().any(is_running) {
                return None;
            }
            let number = list.back().map_or(0, |known| number(&known.job.id)) + 1;
            // Numbers begin anew with the process, names do not.
            let id = format!("job-{}-{number}", self.live.mark().boot);
            let job = Job {
                id: id.clone(),
                kind: kind.to_owned(),
                state: JobState::Running,
                progress: JobProgress::default(),
                message: String::new(),
                remarks: Vec::new(),
                started_at: Moment(self.clock.now()),
            };
            list.push_back(Known { job, stop: stop.clone() });
            if list.len() > MOST {
                list.pop_front();
            }
            id
        };
        let at_work = Work { jobs: self.clone(), id: id.clone(), stop };
        blocking::begin(move || {
            // A panic must not leave it running for ever.
            let mut ending =
                Ending { work: &at_work, outcome: Err("the job failed unexpectedly".to_owned()) };
            ending.outcome = work(&at_work);
        });
        Some(id)
    }

    /// Asks a job to stop. None: there is no such job.
    pub fn cancel(&self, id: &str) -> Option<Stopping> {
        let list = self.list.lock();
        let known = list.iter().find(|known| known.job.id == id)?;
        if matches!(known.job.state, JobState::Done | JobState::Failed) {
            return Some(Stopping::Over);
        }
        known.stop.cancel();
        Some(Stopping::Heard(known.job.clone()))
    }

    /// A job by its name.
    pub fn get(&self, id: &str) -> Option<Job> {
        self.list.lock().iter().find(|known| known.job.id == id).map(|known| known.job.clone())
    }

    /// All that are remembered, newest first.
    pub fn all(&self) -> Vec<Job> {
        self.list.lock().iter().rev().map(|known| known.job.clone()).collect()
    }

    fn update(&self, id: &str, change: impl FnOnce(&mut Job)) {
        let mut list = self.list.lock();
        let Some(known) = list.iter_mut().find(|known| known.job.id == id) else {
            return;
        };
        change(&mut known.job);
        let told = serde_json::to_value(&known.job).unwrap_or_default();
        drop(list);
        self.live.publish(Event::new(Kind::JobProgress, told));
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
    }
}

fn number(id: &str) -> u64 {
    id.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}
