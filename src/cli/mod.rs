//! The command line: one file per command.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use futures_util::future::LocalBoxFuture;

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
mod service;
mod setup;
mod status;
mod stop;
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
        hivewright serve --port 9000    the same, on another port\n  \
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
    /// The token to show it [default: the operator token of the home, on this machine or its network]
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
            #[command(alias = "completion")]
            Completions(completions::Arguments),
        }

        fn dispatch(
            command: Option<Command>,
            context: Result<Context, Failure>,
            screen: Screen,
        ) -> Result<(), Failure> {
            match command {
                None => serve::run(serve::Arguments::default(), context?),
                Some(Command::Serve(arguments)) => serve::run(arguments, context?),
                $(Some(Command::$name(arguments)) => {
                    wait_for(Box::pin($module::run(arguments, &context?)))
                })+
                // It needs no home: where packages are built nobody has one.
                Some(Command::Completions(arguments)) => {
                    completions::print(&arguments, screen);
                    Ok(())
                }
            }
        }
    };
}

// What is said in the plural by one command is in the singular by another; either is understood.
commands! {
    Init(init::Arguments),
    Doctor(doctor::Arguments),
    Status(status::Arguments),
    Restart(restart::Arguments),
    Stop(stop::Arguments),
    Send(send::Arguments),
    Chat(chat::Arguments),
    #[command(subcommand, alias = "team")]
    Teams(teams::Action),
    #[command(subcommand, alias = "task")]
    Tasks(tasks::Action),
    #[command(subcommand, alias = "topic")]
    Topics(topics::Action),
    #[command(subcommand, alias = "tokens")]
    Token(token::Action),
    #[command(subcommand, alias = "triggers")]
    Trigger(trigger::Action),
    #[command(subcommand)]
    Trust(trust::Action),
    #[command(subcommand, alias = "identities")]
    Identity(identity::Action),
    #[command(subcommand, alias = "memories")]
    Memory(memory::Action),
    #[command(subcommand, aliases = ["secret", "secrets"])]
    Vault(vault::Action),
    #[command(subcommand, alias = "approval")]
    Approvals(approvals::Action),
    #[command(subcommand, alias = "question")]
    Questions(questions::Action),
    #[command(subcommand, alias = "policies")]
    Policy(policy::Action),
    #[command(subcommand, alias = "plugins")]
    Plugin(plugin::Action),
    #[command(subcommand, alias = "channels")]
    Channel(channel::Action),
    Inbox(inbox::Arguments),
    #[command(alias = "change")]
    Changes(changes::Arguments),
    #[command(alias = "tool")]
    Tools(plugin_tools::Arguments),
    #[command(subcommand)]
    History(history::Action),
    Search(search::Arguments),
    Usage(usage::Arguments),
    #[command(alias = "model")]
    Models(models::Arguments),
    #[command(subcommand, alias = "engines")]
    Engine(engine::Action),
    #[command(alias = "log")]
    Logs(logs::Arguments),
    Audit(audit::Arguments),
    #[command(alias = "event")]
    Events(events::Arguments),
    #[command(subcommand, alias = "job")]
    Jobs(jobs::Action),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    #[command(subcommand)]
    Import(import::Action),
    #[command(subcommand, alias = "settings")]
    Config(config::Action),
    #[command(subcommand, alias = "contexts")]
    Context(contexts::Action),
    Acp(acp::Arguments),
    Mcp(mcp::Arguments),
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

    /// A text of the layers below, which know no flags: commands that it suggests are for the same home. Those about a
    /// service elsewhere stay as they are, since some are to be run there.
    fn led(&self, text: &str) -> String {
        if self.way.is_empty() || self.url.is_some() {
            return text.to_owned();
        }
        let led = format!("`hivewright{} ", self.way);
        // What leads there already is left alone.
        let parts = text.split(led.as_str()).map(|part| part.replace("`hivewright ", &led));
        parts.collect::<Vec<_>>().join(led.as_str())
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
    let context = Context::new(cli.everywhere, screen);
    let ended = dispatch(cli.command, context.clone(), screen)
        .map_err(|failure| match &context {
            Ok(context) => Failure { message: context.led(&failure.message), ..failure },
            Err(_) => failure,
        })
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
///
/// All commands are one type to it, so that a runtime is compiled once and not for each.
fn wait_for(command: LocalBoxFuture<'_, Result<(), Failure>>) -> Result<(), Failure> {
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
