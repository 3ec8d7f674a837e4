//! `hivewright serve`: runs the service.

use std::{
    io::{IsTerminal, Write},
    net::IpAddr,
    process::{Command, Stdio},
};

use clap::Args;

use crate::{
    boot::{Service, parts::Part},
    cli::{
        context::Context,
        failure::{Exit, Failure},
    },
};

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
    let announce: fn(&Service) = if arguments.open { open } else { announce };
    let ways = [context.command("restart"), context.command("token link")];
    let served = crate::run(context.home, arguments.bind, arguments.port, announce);
    served.map_err(|error| {
        let mut failure = Failure::from(error);
        if failure.exit == Exit::Conflict {
            let [restart, link] = ways;
            failure
                .message
                .push_str(&format!("; {restart} starts it anew, {link} leads to its chat"));
        }
        failure
    })
}

/// Says how each part stands, and how to reach the service. The link logs in once, so it is shown to a
/// person only.
fn announce(service: &Service) {
    let Service { url, parts, notices, .. } = service;
    if std::io::stdout().is_terminal() {
        let lines = lines(url, parts, notices, &service.login_link());
        // Whoever started the service may have closed its output.
        let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
        return;
    }
    for Part { name, is_faulty, standing } in parts {
        if *is_faulty {
            tracing::warn!(part = name, "{standing}");
        } else {
            tracing::info!(part = name, "{standing}");
        }
    }
    for notice in notices {
        tracing::warn!("{notice}");
    }
    tracing::info!(%url, "serving; `hivewright token link` makes a link to the chat");
}

/// What a person reads at the start: at most ten lines.
fn lines(url: &str, parts: &[Part], notices: &[String], link: &str) -> Vec<String> {
    let mut lines = vec![format!("Hivewright serves on {url}")];
    lines.extend(parts.iter().map(|part| {
        let mark = if part.is_faulty { "!" } else { " " };
        format!("{mark} {:<9}  {}", part.name, part.standing)
    }));
    if let [first, others @ ..] = notices {
        let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.push(match others.len() {
            0 => format!("Notice: {first}"),
            more => format!("Notice: {first} (and {more} more: see `hivewright doctor`)"),
        });
    }
    lines.push(format!("Open the chat, once and within two minutes: {link}"));
    lines
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

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-74
    #[test]
    fn ten_lines_say_how_everything_stands() {
        let names = ["store", "sandbox", "vault", "channels", "providers", "scheduler", "teams"];
        let parts = names.map(|name| Part {
            name,
            is_faulty: name == "vault",
            standing: format!("{name} stands"),
        });
        let many: Vec<String> = (1..=8).map(|number| format!("fault\n{number}")).collect();

        let full = lines("http://here", &parts, &many, "http://here/#code=1");
        let calm = lines("http://here", &parts, &[], "http://here/#code=1");

        assert_eq!(full.len(), 10);
        assert_eq!(full[1], "  store      store stands");
        assert_eq!(full[3], "! vault      vault stands");
        assert_eq!(full[8], "Notice: fault 1 (and 7 more: see `hivewright doctor`)");
        assert!(full[9].ends_with("http://here/#code=1"));
        assert!(full.iter().all(|line| !line.contains('\n')));
        assert_eq!(calm.len(), 9);
    }
}
