//! `hivewright mcp`: our tools as an MCP server on its standard streams, for the agent that works on a turn.
//!
//! All of it is in the service, behind the socket of the turn. This carries lines there and back.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
};

use clap::Args;
use serde_json::json;

use crate::cli::{context::Context, failure::Failure};

/// The variable with what stands for the turn.
const TOKEN: &str = "HIVEWRIGHT_TURN_TOKEN";

/// Offer the tools of a turn to the agent that works on it
#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "The service starts it itself, for teams whose `sdk` is a command-line agent.\n\
        `hivewright teams servers` lists the MCP servers that teams use.\n\n\
        Examples:\n  hivewright mcp --socket /run/hivewright/socket"
)]
pub(super) struct Arguments {
    /// The socket of the turn
    #[arg(long, value_name = "PATH")]
    pub(super) socket: PathBuf,
}

pub(super) async fn run(arguments: Arguments, _: &Context) -> Result<(), Failure> {
    let token = std::env::var(TOKEN).unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::usage(format!("{TOKEN} is not set; the service starts this itself")));
    }
    let path = arguments.socket.display();
    let mut service = UnixStream::connect(&arguments.socket)
        .map_err(|error| Failure::system(format!("{path} cannot be reached"), error))?;
    let broke = |error| Failure::system("the connection to the service broke", error);
    writeln!(service, "{}", json!({"token": token})).map_err(broke)?;
    let mut requests = service.try_clone().map_err(broke)?;
    std::thread::spawn(move || {
        // Whatever ends it, the service hears that no more will come.
        let _ = carry(io::stdin().lock(), &mut requests);
        let _ = requests.shutdown(Shutdown::Write);
    });
    carry(service, &mut io::stdout().lock()).map_err(broke)
}

/// Passes on what is there, as soon as it is there.
fn carry(mut from: impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = [0; 16 << 10];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            read => {
                to.write_all(&bytes[..read])?;
                to.flush()?;
            }
        }
    }
}
