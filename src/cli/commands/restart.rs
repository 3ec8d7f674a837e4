//! `hivewright restart`: the running service stops without losing anything, and starts again in its place.

use std::{os::unix::net::UnixStream, time::Duration};

use clap::Args;
use rustix::{
    net::sockopt::socket_peercred,
    process::{Pid, kill_process},
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    api::snapshot::SHOW_SNAPSHOT,
    boot::RESTART,
    cli::{
        answer::Answer,
        client::Service,
        context::Context,
        failure::{Exit, Failure},
    },
    settings::{home::Home, socket_path::SocketPath},
};

/// Turns have half a minute to come to a safe point, and a store may be large.
const RESTART_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks at whether it is back.
const PAUSE: Duration = Duration::from_millis(100);

/// Restart the service that runs in the home
///
/// Running turns go on to their next safe point, and from there after the start. The process stays the same for
/// whatever watches over it; the program is the one that is installed now, so this also ends an upgrade. Settings
/// that count at a start count then.
#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "Examples:\n  hivewright restart\n  hivewright config check && hivewright restart"
)]
pub(super) struct Arguments {}

pub(super) async fn run(_: Arguments, context: &Context) -> Result<(), Failure> {
    if context.url.is_some() {
        return Err(Failure::usage(
            "a service is restarted on its own machine: run `hivewright restart` there, without `--url` or `--context`, and with `hivewright context use local`",
        ));
    }
    let before = boot(&Service::find(context)?).await?;
    let told = kill_process(process(&context.home)?, RESTART);
    told.map_err(|error| Failure::system("the service cannot be told to restart", error))?;
    context.screen.remark("· restarting: running turns go on to their next safe point");
    let back = async {
        loop {
            // Meanwhile nothing answers, or what is about to end does.
            if let Ok(service) = Service::find(context)
                && let Ok(now) = boot(&service).await
                && now != before
            {
                return service;
            }
            sleep(PAUSE).await;
        }
    };
    let service = timeout(RESTART_TIMEOUT, back).await.map_err(|_| {
        let seconds = RESTART_TIMEOUT.as_secs();
        let message = format!("the service was not back within {seconds} s; its log says why");
        Failure::new(Exit::TimedOut, message)
    })?;
    let url = service.url();
    Answer::naming("url", url).tell(context.screen, |_| format!("the service is back at {url}"))
}

/// Names one life of the service.
async fn boot(service: &Service) -> Result<Value, Failure> {
    Ok(service.get(SHOW_SNAPSHOT.path).await?["data"]["boot"].take())
}

/// The process behind the service's socket, as the kernel knows it: a number in a file may be of another one by now.
pub(super) fn process(home: &Home) -> Result<Pid, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::failed(format!(
            "the service's own socket cannot be used ({why}), so its process is not known; restart or stop it as it was started"
        ))
    };
    let socket = SocketPath::existing(home).ok_or_else(|| cannot(&"there is none"))?;
    let stream = UnixStream::connect(socket.path()).map_err(|error| cannot(&error))?;
    let peer = socket_peercred(&stream).map_err(|error| cannot(&error))?;
    Ok(peer.pid)
}
