//! How a server stands, with what is known of it.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    clock::{Timestamp, doubling},
    words,
};
use tokio::time::Instant;

use super::definition::Definitions;

/// The first pause after a start that failed. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

words! {
    /// How a server stands.
    #[derive(Default)]
    #[schemars(rename = "McpServerState")]
    pub enum ServerState {
        /// Nobody has needed it yet.
        #[default]
        Unused = "unused",
        /// It is being started or connected.
        Starting = "starting",
        /// It can be called.
        Ready = "ready",
        /// It has ended, and starts again with the next call.
        Resting = "resting",
        /// It cannot be started or connected; it is tried again.
        Failing = "failing",
    }
}

/// How a server stands, with what is known of it.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub state: ServerState,
    /// What it offers; none before it was asked for the first time.
    pub offers: Option<Arc<Definitions>>,
    /// Another list has another number.
    pub version: u64,
    pub last_error: Option<(Timestamp, String)>,
    /// The number of the connection whose error that is.
    failed: usize,
    pub calls: u64,
    failures: u32,
    /// The HTTP status of the last failure, if that was one.
    pub(super) http: Option<u16>,
    retry_at: Option<Instant>,
    pub(super) used: Option<Instant>,
}

impl Status {
    /// Keeps why a connection failed, unless a later one has: what is left of a connection takes its time to end.
    pub(super) fn note(&mut self, number: usize, at: Timestamp, reason: &str) {
        if number >= self.failed {
            self.failed = number;
            self.last_error = Some((at, reason.to_owned()));
        }
    }

    /// How long it is left alone.
    pub(super) fn pause(&self) -> Option<Duration> {
        let pause = self.retry_at?.checked_duration_since(Instant::now())?;
        (!pause.is_zero()).then_some(pause)
    }

    /// It could not be had: it is left alone for so long, longer each time.
    pub(super) fn fail(&mut self, http: Option<u16>) -> Duration {
        self.http = http;
        let pause = doubling(FIRST_PAUSE, LONGEST_PAUSE, self.failures);
        self.failures = (self.failures + 1).min(16);
        self.retry_at = Some(Instant::now() + pause);
        pause
    }

    /// It failed no time before.
    pub(super) fn forgive(&mut self) {
        self.failures = 0;
        self.retry_at = None;
    }
}
