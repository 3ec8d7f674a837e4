//! Dispatch: the arguments of the program, and the command that each leads to.

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use futures_util::future::LocalBoxFuture;

use super::{
    acp, approvals, audit, backup, changes, channel, chat, complete, completions, config, context,
    doctor, engine, events, history, identity, import, inbox, init, jobs, logs, mcp, memory,
    models, plugin, plugin_tools, policy, questions, restart, restore, search, send, serve, status,
    stop, tasks, teams, token, topics, trigger, trust, usage, vault,
};
use crate::cli::{
    context::{Context, Everywhere},
    failure::{Exit, Failure},
    screen::{self, Screen},
};

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
pub(super) struct Cli {
    #[command(flatten)]
    everywhere: Everywhere,
    #[command(subcommand)]
    command: Option<Command>,
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
            Complete(complete::Arguments),
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
                Some(Command::Complete(arguments)) => {
                    wait_for(Box::pin(complete::run(arguments, &context?, Cli::command())))
                }
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
    Context(context::Action),
    Acp(acp::Arguments),
    Mcp(mcp::Arguments),
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
