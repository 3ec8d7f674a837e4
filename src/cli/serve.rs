//! `hivewright serve`: runs the service.

use std::net::IpAddr;

use clap::Args;

use super::{Context, failure::Failure};
use crate::ServeOptions;

/// Run the service in the foreground (the default)
#[derive(Debug, Default, PartialEq, Args)]
#[command(after_help = "Example:\n  hivewright serve --port 9000 --open")]
pub(super) struct Arguments {
    /// The address to listen on, instead of `server.bind`
    #[arg(long, value_name = "ADDRESS")]
    pub(super) bind: Option<IpAddr>,
    /// The port to listen on, instead of `server.port`; 0 is any free one
    #[arg(long)]
    pub(super) port: Option<u16>,
    /// Open the chat in the browser
    #[arg(long)]
    pub(super) open: bool,
}

pub(super) fn run(arguments: Arguments, context: Context) -> Result<(), Failure> {
    let options = ServeOptions {
        home: context.home,
        bind: arguments.bind,
        port: arguments.port,
        open: arguments.open,
    };
    Ok(crate::run(options)?)
}
