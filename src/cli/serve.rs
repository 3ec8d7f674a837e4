//! `hivewright serve`: runs the service.

use std::{
    io::{IsTerminal, Write},
    net::IpAddr,
    process::{Command, Stdio},
};

use clap::Args;

use super::{Context, failure::Failure};
use crate::{ServeOptions, service::Service};

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
        announce: if arguments.open { open } else { announce },
    };
    Ok(crate::run(options)?)
}

/// Says how to reach the service. The link logs in once, so it is shown to a person only.
fn announce(service: &Service) {
    let mut lines = vec![format!("Hivewright serves on {}", service.url)];
    lines.extend(
        service
            .notices
            .iter()
            .map(|notice| format!("Notice: {notice}")),
    );
    if service.demo {
        lines.push(
            "No model is configured, so the offline demo answers: set ANTHROPIC_API_KEY or \
             OPENAI_API_KEY, or run `hivewright init`."
                .to_owned(),
        );
    }
    if std::io::stdout().is_terminal() {
        lines.push(format!("Open the chat: {}", service.login_link()));
        lines.push(
            "The link works once, for two minutes; `hivewright token link` makes another."
                .to_owned(),
        );
    } else {
        lines.push("Run `hivewright token link` for a link to the chat.".to_owned());
    }
    // Whoever started the service may have closed its output.
    let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
}

fn open(service: &Service) {
    announce(service);
    let browser = Command::new("xdg-open")
        .arg(service.login_link())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = browser {
        tracing::warn!(%error, "no browser could be opened; use the link");
    }
}
