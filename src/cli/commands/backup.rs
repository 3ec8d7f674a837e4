//! `hivewright backup`: a verified copy of everything but secrets.

use std::{ops::ControlFlow, path::PathBuf, pin::pin, sync::atomic::Ordering};

use clap::Args;
use hivewright_actors::live::event::Kind;

use crate::{
    api::{
        backups::{MAKE_BACKUP, NewBackup},
        endpoint::ById,
        events::EventFilter,
        jobs::{CANCEL_JOB, Job, JobProgress, JobState, SHOW_JOB},
    },
    cli::{
        answer::{Answer, read},
        blocking::{blocking, interruptible},
        client::Service,
        context::Context,
        events::{Follower, Step},
        failure::{Exit, Failure},
        progress::Gauge,
        screen::complain,
        stopped::{self, Stopped},
    },
    storage::backup::{Made, create, move_to, refuse_existing},
};

/// Copy the store, teams and settings into one verified file
///
/// Works while the service runs, and while it is stopped. Keys and tokens are never inside.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright backup\n  \
    hivewright backup /mnt/usb/hive.tar.zst")]
pub(super) struct Arguments {
    /// The file to make, which must not exist; otherwise one in the folder of regular backups, where the
    /// newest seven stay
    pub(super) file: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    if let Some(file) = &arguments.file {
        refuse_existing(file)?;
    }
    let Made { file, left_out } = match Service::if_running(context)? {
        Some(service) => ask_for(&service, arguments.file, context).await?,
        None => make(arguments.file, context).await?,
    };
    for line in &left_out {
        complain(&format!("left out: {line}"));
    }
    let file = file.display();
    Answer::naming("file", &file).show(context.screen, |_| format!("{file}\n"))
}

fn stopped_by_person() -> Failure {
    let message = "stopped; there is no new backup, make it with `hivewright backup`";
    Failure::new(Exit::Interrupted, message)
}

/// Makes the backup here, with the service stopped.
async fn make(file: Option<PathBuf>, context: &Context) -> Result<Made, Failure> {
    if !stopped::has_store(context) {
        let store = context.home.store();
        return Err(Failure::not_found(format!(
            "there is no store in `{}` yet; the first start of the service makes it",
            store.display()
        )));
    }
    let context = context.clone();
    // What is half made is removed where it is made: the process must not end before.
    let making = interruptible(move |is_stopped| {
        let gauge = Gauge::new(context.screen, "backup");
        let progress = |progress| {
            let shown = gauge.storage(progress);
            if is_stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { shown }
        };
        let Stopped { storage, home, .. } = &Stopped::open(&context, &progress)?;
        Ok(create(storage, home, file.as_deref(), &progress)?)
    });
    match making.await {
        (Err(_), true) => Err(stopped_by_person()),
        (made, _) => made,
    }
}

/// Lets the running service make it among its own, and takes it to its place: the service writes nowhere
/// else, whoever asks.
async fn ask_for(
    service: &Service,
    file: Option<PathBuf>,
    context: &Context,
) -> Result<Made, Failure> {
    let Some(file) = file else {
        return await_made(service, &NewBackup::default(), context).await;
    };
    let bits = getrandom::u64().map_err(|error| Failure::system("no random number", error))?;
    // One of a service elsewhere may have to stay there.
    let name = context.url.is_none().then(|| format!("moving-{bits:016x}"));
    let new = NewBackup { name };
    let made = await_made(service, &new, context).await?;
    blocking(move || match move_to(&made.file, &file) {
        Ok(()) => Ok(Made { file, ..made }),
        Err(error) => {
            let kept = made.file.display();
            Err(Failure::failed(format!("{error}; the backup stays in `{kept}`")))
        }
    })
    .await
}

async fn await_made(
    service: &Service,
    new: &NewBackup,
    context: &Context,
) -> Result<Made, Failure> {
    let gauge = Gauge::new(context.screen, "backup");
    // It listens before there is a job, so that no step of it is missed.
    let mut follower = Follower::open(context, EventFilter::of([Kind::JobProgress])).await?;
    let path = ById { id: service.give(&MAKE_BACKUP, new).await?.data()?.job_id };
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    loop {
        let step = tokio::select! {
            step = gauge.over(follower.next()) => step?,
            _ = &mut interrupted => {
                service.at(&CANCEL_JOB, &path).await?;
                return Err(stopped_by_person());
            }
        };
        let job: Job = match step {
            Step::Begin => {
                follower.read(async |service| service.at(&SHOW_JOB, &path).await).await?.data()?
            }
            Step::Event { data, .. } => read(&data)?,
        };
        if job.id != path.id {
            continue;
        }
        // Its message says where the backup is, or why there is none.
        match job.state {
            JobState::Running => {
                let JobProgress { done, total, unit } = job.progress;
                gauge.set(done, total, &unit);
            }
            JobState::Done => {
                return Ok(Made { file: PathBuf::from(job.message), left_out: job.remarks });
            }
            JobState::Failed | JobState::Cancelled => return Err(Failure::failed(job.message)),
        }
    }
}
