//! The host process: this program, started anew in the sandbox as `hivewright plugin-host`.
//!
//! It has its standard streams and nothing else; the sources of what it runs come over them.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;

use super::{calls, plugin, wire::Opening};
use crate::sandbox::process::script;

/// Where messages to the service go, a line each. Cheap to clone.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<dyn Write + Send>>);

impl Output {
    pub(super) fn new(to: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(to)))
    }

    pub(super) fn say(&self, message: &impl Serialize) {
        if let Ok(line) = serde_json::to_string(message) {
            self.line(line);
        }
    }

    /// Writes a line. Without anybody to read it there is nothing left to do, and the input ends too.
    pub(super) fn line(&self, mut line: String) {
        line.push('\n');
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_all(line.as_bytes()).and_then(|()| to.flush());
    }
}

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
