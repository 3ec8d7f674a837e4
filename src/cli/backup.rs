//! `hivewright backup`: a verified copy of everything but secrets.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::{
    Context,
    failure::{Exit, Failure},
    progress::Gauge,
    service::Service,
    stopped::{self, Stopped},
};
use crate::storage::backup::{create, create_at};

/// How often a running job is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Copy the store, teams and settings into one verified file
///
/// Works while the service runs, and while it is stopped. Keys and tokens are never inside.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright backup\n  \
    hivewright backup /mnt/usb/hive.tar.zst")]
pub(super) struct Arguments {
    /// The file to make; otherwise one in the folder of regular backups, where the newest seven stay
    pub(super) file: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let making = async {
        match Service::if_running(context)? {
            Some(service) => ask_for(&service, arguments.file, context).await,
            None => make(arguments.file, context).await,
        }
    };
    let file = tokio::select! {
        made = making => made?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(
            Exit::Interrupted,
            format!("stopped; there is no new backup from here, {} makes one", context.command("backup")),
        )),
    };
    let screen = context.screen;
    if screen.json {
        return screen.document(&json!({"data": {"file": file}}));
    }
    screen.say(&file.display().to_string());
    Ok(())
}

/// Makes the backup here, with the service stopped.
async fn make(file: Option<PathBuf>, context: &Context) -> Result<PathBuf, Failure> {
    if !stopped::has_store(context) {
        let store = context.home.store();
        let message = format!("there is no store in `{}` yet", store.display());
        return Err(Failure::new(Exit::NotFound, message));
    }
    let context = context.clone();
    blocking(move || {
        let gauge = Gauge::new(context.screen, "backup");
        let progress = |progress| gauge.storage(progress);
        let Stopped { storage, home, .. } = &Stopped::open(&context, &progress)?;
        match file {
            Some(file) => {
                create_at(storage, home, &file, &progress)?;
                Ok(file)
            }
            None => Ok(create(storage, home, &progress)?),
        }
    })
    .await
}

/// Runs work that blocks beside what waits for it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::system("the work was cut off", error)))
}

#[derive(Deserialize)]
struct Accepted {
    job_id: String,
}

#[derive(Deserialize)]
struct Job {
    state: String,
    #[serde(default)]
    done: u64,
    #[serde(default)]
    total: u64,
    #[serde(default)]
    unit: String,
    message: Option<String>,
    file: Option<PathBuf>,
}

/// Lets the running service make it.
async fn ask_for(
    service: &Service,
    file: Option<PathBuf>,
    context: &Context,
) -> Result<PathBuf, Failure> {
    let gauge = Gauge::new(context.screen, "backup");
    let answer = service.post("/api/v1/backups", &json!({})).await?;
    let Accepted { job_id } = part(answer)?;
    let job = loop {
        let job: Job = part(service.get(&format!("/api/v1/jobs/{job_id}")).await?)?;
        match job.state.as_str() {
            "queued" | "running" => gauge.set(job.done, job.total, &job.unit),
            _ => break job,
        }
        tokio::time::sleep(PAUSE).await;
    };
    let said = job.message.unwrap_or_default();
    if job.state != "done" {
        return Err(Failure::failed(format!(
            "the service made no backup ({}): {said}",
            job.state
        )));
    }
    let made = job.file.unwrap_or_else(|| PathBuf::from(said));
    match file {
        None => Ok(made),
        Some(file) => {
            let to = file.clone();
            let copied = blocking(move || {
                copy(&made, &to).map_err(|error| {
                    let (made, to) = (made.display(), to.display());
                    Failure::system(
                        format!("the backup is `{made}`, but cannot be copied to `{to}`"),
                        error,
                    )
                })
            });
            copied.await.map(|()| file)
        }
    }
}

/// Copies a file so that it has its name only when it is complete.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    fs::copy(from, &partial)?;
    fs::File::open(&partial)?.sync_all()?;
    fs::rename(&partial, to)
}

fn part<T: serde::de::DeserializeOwned>(mut answer: serde_json::Value) -> Result<T, Failure> {
    serde_json::from_value(answer["data"].take())
        .map_err(|error| Failure::system("the service's answer cannot be read", error))
}
