//! Error output of a plugin: lines for the log, no more than so many in a second, and the last one for an operator.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{excerpt, ids::TeamKey};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, BufReader},
    process::ChildStderr,
    time::Instant,
};

use crate::{mcp::definition::shown, scrub::Scrubber, vault::scrubbers::Scrubbers};

/// Lines of a plugin that the log takes in a second.
const A_SECOND: u32 = 50;
/// What of a line is logged, in characters.
const LONGEST: usize = 1_000;
/// What of a line is kept, in bytes.
const KEPT: usize = 4 << 10;

/// The log lines of one child. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lines(Arc<Inner>);

struct Inner {
    team: TeamKey,
    plugin: String,
    scrubbers: Arc<Scrubbers>,
    state: Mutex<State>,
}

struct State {
    since: Instant,
    lines: u32,
    last: Option<String>,
    /// What no vault knows yet.
    hidden: Option<Scrubber>,
}

impl Lines {
    pub(super) fn new(team: &TeamKey, plugin: &str, scrubbers: Arc<Scrubbers>) -> Self {
        let state = State { since: Instant::now(), lines: 0, last: None, hidden: None };
        Self(Arc::new(Inner {
            team: team.clone(),
            plugin: plugin.to_owned(),
            scrubbers,
            state: Mutex::new(state),
        }))
    }

    /// From now on no line shows these either.
    pub(super) fn hide(&self, hidden: Scrubber) {
        self.0.state.lock().hidden = Some(hidden);
    }

    /// Writes a line to the log, unless there were too many in this second.
    pub(super) fn log(&self, line: &str) {
        let Inner { team, plugin, scrubbers, state } = &*self.0;
        let mut state = state.lock();
        let mut line = scrubbers.of(&team.name).scrub(&shown(line)).into_owned();
        if let Some(hidden) = &state.hidden {
            line = hidden.scrub(&line).into_owned();
        }
        let line = excerpt::line(line.trim(), LONGEST);
        if line.is_empty() {
            return;
        }
        if state.since.elapsed() >= Duration::from_secs(1) {
            let left_out = state.lines.saturating_sub(A_SECOND);
            (state.since, state.lines) = (Instant::now(), 0);
            if left_out > 0 {
                tracing::info!(team = %team.name, plugin, left_out, "lines of a plugin were left out");
            }
        }
        state.lines += 1;
        if state.lines <= A_SECOND {
            tracing::info!(team = %team.name, plugin, line, "a plugin says");
        }
        state.last = Some(line);
    }

    /// A reason with the last line.
    pub(super) fn with_last(&self, reason: String) -> String {
        let state = self.0.state.lock();
        match &state.last {
            Some(last) => format!("{reason}; its last words: {last}"),
            None => reason,
        }
    }

    /// Reads until the end.
    pub(super) async fn follow(self, errors: ChildStderr) {
        let (mut errors, mut chunk, mut line) = (BufReader::new(errors), [0; 1 << 10], Vec::new());
        // What can be read no more says nothing more.
        while let Ok(length @ 1..) = errors.read(&mut chunk).await {
            for byte in &chunk[..length] {
                match byte {
                    b'\n' => self.log(&String::from_utf8_lossy(&std::mem::take(&mut line))),
                    byte if line.len() < KEPT => line.push(*byte),
                    _ => {}
                }
            }
        }
        self.log(&String::from_utf8_lossy(&line));
    }
}
