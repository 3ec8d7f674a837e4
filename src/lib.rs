//! The edges of Hivewright: what the spine needs from outside, and the service that it makes.

use std::{net::IpAddr, os::unix::process::CommandExt, path::Path, process::Command};

pub mod api;
pub mod boot;
pub mod briefing;
pub mod browser;
pub mod channels;
pub mod cli;
pub mod doctor;
pub mod engines;
pub mod files;
pub mod http;
pub mod import;
mod json_limits;
pub mod logging;
pub mod mcp;
pub mod memory;
pub mod plugins;
pub mod policy;
pub mod prompt;
pub mod providers;
mod removal;
pub mod retention;
pub mod sandbox;
pub mod scrub;
pub mod settings;
pub mod storage;
pub mod system;
pub mod taint;
pub mod teams;
#[cfg(test)]
mod tests;
mod text;
pub mod time;
pub mod timezone;
pub mod tools;
pub mod transcript;
pub mod triggers;
pub mod vault;

use boot::{Options, Service, error::ServiceError};
use engines::native::retry::RetryPolicy;
use settings::{home::Home, references::Environment};

/// Runs the service until it is told to stop or to start again, listening on this address and port instead of those of the
/// settings: the one place where everything is put together. `announce` is called once it serves.
pub fn run(
    home: Home,
    bind: Option<IpAddr>,
    port: Option<u16>,
    announce: fn(&Service),
) -> Result<(), ServiceError> {
    let launcher = std::env::current_exe().map_err(|error| ServiceError::Machine {
        what: "this program cannot be found",
        reason: error.to_string(),
    })?;
    let program = launcher.clone();
    let restarts = actix::System::new().block_on(async move {
        let service = Service::start(Options {
            home,
            environment: Environment::system(),
            bind,
            port,
            launcher,
            toolbox: tools::all(),
            retry: RetryPolicy::default(),
        })
        .await?;
        announce(&service);
        boot::systemd::ready();
        Ok::<bool, ServiceError>(service.until_told_to_stop().await)
    })?;
    if restarts { Err(start_again(&program)) } else { Ok(()) }
}

/// Becomes this program anew, as it was started; one that was put in its place meanwhile if there is. Returns why not.
fn start_again(program: &Path) -> ServiceError {
    let error = Command::new(program).args(std::env::args_os().skip(1)).exec();
    ServiceError::Machine {
        what: "this program cannot be started again",
        reason: error.to_string(),
    }
}
