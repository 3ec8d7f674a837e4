//! `hivewright serve`: runs the service.

use std::{
    io::{IsTerminal, Write},
    net::IpAddr,
    process::{Command, Stdio},
};

use clap::Args;

use super::{Context, failure::Failure};
use crate::{ServeOptions, service::Service};

/// Ten lines hold these, one that there are more, and four others.
const MOST_NOTICES: usize = 5;

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
    lines.extend(noticed(&service.notices));
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

/// What the operator should know, one line each. If that is too much for a glance, the rest is for
/// the doctor.
fn noticed(notices: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = notices
        .iter()
        .take(MOST_NOTICES)
        .map(|notice| format!("Notice: {}", notice.replace('\n', " ")))
        .collect();
    if let more @ 1.. = notices.len().saturating_sub(MOST_NOTICES) {
        lines.push(format!("and {more} more: see `hivewright doctor`"));
    }
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
    fn many_notices_are_cut_to_a_few_lines() {
        let many: Vec<String> = (1..=8).map(|number| format!("fault\n{number}")).collect();

        let lines = noticed(&many);

        assert_eq!(lines.len(), MOST_NOTICES + 1);
        assert_eq!(lines[0], "Notice: fault 1");
        assert_eq!(lines[MOST_NOTICES], "and 3 more: see `hivewright doctor`");
        assert_eq!(noticed(&many[..5]).len(), 5);
    }
}
