//! The command line: one file per command.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use crate::settings::{
    home::{Flags, Home},
    references::Environment,
};

mod acp;
mod answer;
mod approvals;
mod audit;
mod backup;
mod blocking;
mod changes;
mod channel;
mod chat;
mod complete;
mod completions;
mod config;
mod contexts;
mod delegated;
mod doctor;
mod earlier;
mod editor;
mod engine;
mod errand;
mod events;
mod exchange;
mod external_editor;
pub mod failure;
mod history;
mod identity;
mod import;
mod inbox;
mod init;
mod jobs;
mod line;
mod link;
mod logs;
mod markdown;
mod mcp;
mod memory;
mod models;
mod notice;
mod paper;
mod plugin;
mod plugin_tools;
mod policy;
mod progress;
mod prompt;
mod questions;
mod restart;
mod restore;
mod screen;
mod search;
mod send;
mod serve;
mod servers;
mod service;
mod setup;
mod status;
mod stopped;
mod table;
mod tasks;
mod team_plugins;
mod teams;
mod token;
mod topics;
mod transcript;
mod trigger;
mod trust;
mod unknown;
mod untrusted;
mod usage;
mod vault;
mod watch;

use contexts::Way;
use failure::{Exit, Failure};
use screen::Screen;

/// Runs teams of AI agents as a service, and talks to it.
#[derive(Debug, Parser)]
#[command(
    name = "hivewright",
    version,
    propagate_version = true,
    after_help = "Without a command the service is started.\n\n\
        Examples:\n  \
        hivewright                      start the service\n  \
        hivewright send \"good morning\"  say something to the main team\n  \
        hivewright doctor               see whether all is well\n\n\
        Exit codes: 0 done, 1 failed, 2 usage, 3 settings invalid, 4 not allowed, 5 not found,\n\
        6 conflict or already running, 7 service not reachable, 8 timed out, 9 errors found, 130 interrupted"
)]
struct Cli {
    #[command(flatten)]
    everywhere: Everywhere,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
struct Everywhere {
    #[command(flatten)]
    flags: Flags,
    /// The service with this name, see `hivewright context` [default: the one in use]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "url")]
    context: Option<String>,
    /// The service to talk to [default: the one that runs in the home]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// The token to show it [default: the operator token of the home]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the authorities in this file (PEM) and no others, for a service with `https://`
    #[arg(long, global = true, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Print nothing beside results and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Print without colours
    #[arg(long, global = true)]
    no_color: bool,
    /// Go on without asking
    #[arg(long, short, global = true)]
    yes: bool,
}

/// Declares the commands, each run by its module. `serve` has threads of its own, the others share one.
macro_rules! commands {
    ($($(#[$meta:meta])* $name:ident($module:ident::$arguments:ident),)+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            Serve(serve::Arguments),
            $($(#[$meta])* $name($module::$arguments),)+
        }

        fn dispatch(command: Option<Command>, context: Context) -> Result<(), Failure> {
            match command {
                None => serve::run(serve::Arguments::default(), context),
                Some(Command::Serve(arguments)) => serve::run(arguments, context),
                $(Some(Command::$name(arguments)) => wait_for($module::run(arguments, &context)),)+
            }
        }
    };
}

commands! {
    Init(init::Arguments),
    Doctor(doctor::Arguments),
    Status(status::Arguments),
    Restart(restart::Arguments),
    Send(send::Arguments),
    Chat(chat::Arguments),
    #[command(subcommand)]
    Teams(teams::Action),
    #[command(subcommand)]
    Tasks(tasks::Action),
    #[command(subcommand)]
    Topics(topics::Action),
    #[command(subcommand)]
    Token(token::Action),
    #[command(subcommand)]
    Trigger(trigger::Action),
    #[command(subcommand)]
    Trust(trust::Action),
    #[command(subcommand)]
    Identity(identity::Action),
    #[command(subcommand)]
    Memory(memory::Action),
    #[command(subcommand)]
    Vault(vault::Action),
    #[command(subcommand)]
    Approvals(approvals::Action),
    #[command(subcommand)]
    Questions(questions::Action),
    #[command(subcommand)]
    Policy(policy::Action),
    #[command(subcommand)]
    Plugin(plugin::Action),
    #[command(subcommand)]
    Channel(channel::Action),
    Inbox(inbox::Arguments),
    Changes(changes::Arguments),
    Tools(plugin_tools::Arguments),
    #[command(subcommand)]
    History(history::Action),
    Search(search::Arguments),
    Usage(usage::Arguments),
    Models(models::Arguments),
    #[command(subcommand)]
    Engine(engine::Action),
    Logs(logs::Arguments),
    Audit(audit::Arguments),
    Events(events::Arguments),
    #[command(subcommand)]
    Jobs(jobs::Action),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    #[command(subcommand)]
    Import(import::Action),
    #[command(subcommand)]
    Config(config::Action),
    #[command(subcommand)]
    Context(contexts::Action),
    Acp(acp::Arguments),
    Mcp(mcp::Arguments),
    Completions(completions::Arguments),
    Complete(complete::Arguments),
}

/// What every command works with.
#[derive(Clone, Debug)]
struct Context {
    home: Home,
    environment: Environment,
    screen: Screen,
    url: Option<String>,
    token_file: Option<PathBuf>,
    cacert: Option<PathBuf>,
    /// Nobody is to be asked.
    yes: bool,
    /// The flags that lead to the home or service, as they were given, for commands that are suggested.
    way: String,
}

impl Context {
    fn new(everywhere: Everywhere, screen: Screen) -> Result<Self, Failure> {
        let environment = Environment::system();
        let home = Home::new(&everywhere.flags, &environment)?;
        let way = way(&everywhere);
        let Everywhere { context, url, token_file, cacert, .. } = everywhere;
        let named = match &url {
            Some(_) => None,
            None => contexts::way_to(&home, context.as_deref())?,
        };
        let (url, token_file, cacert) = match named {
            Some(Way { url, token_file: token, cacert: authority }) => {
                (Some(url), token_file.or(Some(token)), cacert.or(authority))
            }
            None => (url, token_file, cacert),
        };
        Ok(Self { home, environment, screen, url, token_file, cacert, yes: everywhere.yes, way })
    }

    /// The folder whose files are changed. Those of a service elsewhere are not here.
    fn own_home(&self) -> Result<Home, Failure> {
        match &self.url {
            None => Ok(self.home.clone()),
            Some(url) => Err(Failure::usage(format!(
                "the files of {url} are changed on its own machine, or in its page: this is about the files of this \
                 one, so run it without `--url` or `--context`, or after `hivewright context use local`"
            ))),
        }
    }

    /// A command of this program for the same home, to be suggested.
    fn command(&self, words: &str) -> String {
        format!("`hivewright{} {words}`", self.way)
    }
}

fn way(everywhere: &Everywhere) -> String {
    let Everywhere { flags, context, url, token_file, cacert, .. } = everywhere;
    let paths = [
        ("--home", &flags.home),
        ("--data-dir", &flags.data_dir),
        ("--run-dir", &flags.run_dir),
        ("--token-file", token_file),
        ("--cacert", cacert),
    ];
    let paths = paths
        .into_iter()
        .filter_map(|(name, path)| Some(format!(" {name} {}", path.as_ref()?.display())));
    let words = [("--context", context), ("--url", url)].into_iter();
    let words = words.filter_map(|(name, word)| Some(format!(" {name} {}", word.as_ref()?)));
    paths.chain(words).collect()
}

/// Does what the arguments say, and tells what the process ends with.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell if this fails.
            return match (error.use_stderr(), error.print()) {
                (true, _) => Exit::Usage.code().into(),
                (false, Err(_)) => Exit::Failed.code().into(),
                (false, Ok(())) => ExitCode::SUCCESS,
            };
        }
    };
    let Everywhere { json, quiet, no_color, .. } = cli.everywhere;
    let screen = Screen::new(json, quiet, no_color);
    let ended = Context::new(cli.everywhere, screen)
        .and_then(|context| dispatch(cli.command, context))
        .and_then(|()| screen::written());
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure, screen);
            failure.exit.code().into()
        }
    }
}

/// Runs a command that talks to the service or waits for something.
fn wait_for(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("no thread can be started", error))?;
    let ended = runtime.block_on(command);
    // A command that was broken off leaves its blocking work behind.
    runtime.shutdown_background();
    ended
}

fn report(failure: &Failure, screen: Screen) {
    if failure.message.is_empty() {
        return;
    }
    if screen.json {
        let error = serde_json::json!({
            "error": {"code": failure.exit.as_str(), "message": failure.message},
        });
        screen.say(&error.to_string());
    }
    for line in failure.message.lines() {
        screen::complain(&format!("hivewright: {line}"));
    }
}

#[cfg(test)]
mod tests;
