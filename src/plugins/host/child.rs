//! The host process: this program, started anew in the sandbox as `hivewright plugin-host`.
//!
//! It has its standard streams and nothing else; the sources of what it runs come over them.

use std::{
    io::{self, BufRead},
    process::ExitCode,
};

use super::{
    calls, plugin,
    wire::{Opening, Output},
};
use crate::sandbox::process::script;

/// Runs a host until its input ends.
pub fn main() -> ExitCode {
    if let Err(error) = script::seal() {
        eprintln!("the host cannot be confined: {error}");
        return ExitCode::FAILURE;
    }
    let mut lines = io::stdin().lock().lines();
    let opening = lines.next().and_then(Result::ok);
    let opening = opening.and_then(|line| serde_json::from_str(&line).ok());
    let output = Output::new(io::stdout());
    match opening {
        Some(Opening::Tools { memory }) => calls::serve(memory, lines, &output),
        Some(Opening::Plugin(opening)) => plugin::serve(opening, lines, &output),
        None => {
            eprintln!(
                "`plugin-host` is started by the service, for the code of plugins; it is of no use by itself"
            );
            return ExitCode::FAILURE;
        }
    }
    // Threads that are still at work end with the process.
    ExitCode::SUCCESS
}
