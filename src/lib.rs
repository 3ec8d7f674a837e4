//! The edges of Hivewright: what the spine needs from outside, and the service that it makes.

use std::net::IpAddr;

pub mod briefing;
pub mod channels;
pub mod cli;
pub mod engines;
pub mod http;
pub mod logging;
pub mod prompt;
pub mod providers;
pub mod sandbox;
pub mod scrub;
pub mod settings;
pub mod storage;
pub mod tools;

/// How the service is to run.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where everything is.
    pub home: settings::home::Home,
    /// The address to listen on, instead of that of the settings.
    pub bind: Option<IpAddr>,
    /// The port to listen on, instead of that of the settings.
    pub port: Option<u16>,
    /// Open the chat in the browser.
    pub open: bool,
}

/// Runs the service until it is told to stop.
pub fn run(_options: ServeOptions) -> anyhow::Result<()> {
    anyhow::bail!("this build has no service")
}
