//! `hivewright config`: the settings files, without starting anything.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    screen::{Tone, complain},
};
use crate::settings::{load, problem::Problem};

/// Check the settings files
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Example:\n  hivewright config check")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with the settings.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// Read all settings files and say what is wrong in them, with file, line and field
    #[command(after_help = "Examples:\n  \
        hivewright config check\n  \
        hivewright config check --json && systemctl reload hivewright")]
    Check,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<(), Failure> {
    match arguments.action {
        Action::Check => check(context),
    }
}

fn check(context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let report = load::check(&context.home, &context.environment);
    let (problems, warnings) = (&report.problems.0, &report.warnings);
    if screen.json {
        let document = json!({"data": {
            "problems": listed(problems),
            "warnings": listed(warnings),
        }});
        screen.document(&document)?;
    } else {
        for problem in problems {
            let mark = screen.paint(Tone::Bad, "error");
            screen.say(&format!("{mark} {problem}"));
        }
        for warning in warnings {
            let mark = screen.paint(Tone::Doubtful, "warn ");
            screen.say(&format!("{mark} {warning}"));
        }
    }
    if problems.is_empty() {
        if !screen.json && !screen.quiet && warnings.is_empty() {
            let place = context.home.data().display();
            complain(&format!("no fault in {place} and the teams' files"));
        }
        return Ok(());
    }
    let many = match problems.len() {
        1 => "1 fault".to_owned(),
        many => format!("{many} faults"),
    };
    let message = format!("{many} in the settings; a running service keeps what it had before");
    // The document has been written; a second one would make it unreadable.
    let message = if screen.json { String::new() } else { message };
    Err(Failure::new(Exit::FoundErrors, message))
}

fn listed(problems: &[Problem]) -> Vec<Value> {
    let row = |problem: &Problem| {
        json!({
            "file": problem.file,
            "line": problem.line,
            "column": problem.column,
            "field": problem.path,
            "message": problem.reason,
        })
    };
    problems.iter().map(row).collect()
}
