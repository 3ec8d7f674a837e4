//! `hivewright stop`: ends the service of the home.

use std::time::Duration;

use clap::Args;
use rustix::process::{Signal, kill_process};
use tokio::time::{sleep, timeout};

use super::restart::process;
use crate::cli::{
    answer::Answer,
    client::Service,
    context::Context,
    failure::{Exit, Failure},
    notice::notice,
};

/// Turns have half a minute to come to a safe point.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at whether it is gone.
const PAUSE: Duration = Duration::from_millis(50);

/// Stop the service that runs in the home
///
/// Running turns go on to their next safe point, and from there after the next start.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Example:\n  hivewright stop")]
pub(super) struct Arguments {}

pub(super) async fn run(_: Arguments, context: &Context) -> Result<(), Failure> {
    let home = context.own_home()?;
    let url = Service::find(context)?.url().clone();
    let told = kill_process(process(&home)?, Signal::TERM);
    told.map_err(|error| Failure::system("the service cannot be told to stop", error))?;
    context.screen.remark("· stopping: running turns go on to their next safe point");
    let gone = async {
        while notice(&home)?.is_some() {
            sleep(PAUSE).await;
        }
        Ok::<_, Failure>(())
    };
    timeout(STOP_TIMEOUT, gone).await.unwrap_or_else(|_| {
        let seconds = STOP_TIMEOUT.as_secs();
        let message = format!("the service was not gone within {seconds} s; its log says why");
        Err(Failure::new(Exit::TimedOut, message))
    })?;
    Answer::naming("stopped", url)
        .tell(context.screen, |_| format!("it has stopped; {} starts it", context.command("serve")))
}
