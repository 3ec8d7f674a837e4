//! Watchdog of a session: its deadline, and its signs of life. The session sets the timer.

use std::time::Duration;

use tokio::time::Instant;

/// A tool that runs has its own limit; the session stalls only this long after that.
const STALL_MARGIN_AFTER_TOOL: Duration = Duration::from_secs(60);

/// When a session is warned about and stopped.
#[derive(Debug)]
pub(super) struct Watchdog {
    deadline: Instant,
    idle_timeout: Duration,
    last_sign: Instant,
    /// The sign after which the operator was told that none followed.
    warned: Option<Instant>,
}

/// What is to be done about a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Alarm {
    Deadline,
    /// Nothing moved for so many seconds.
    Stalled(u64),
    /// The same, and in so many more it counts as stalled.
    Warning(u64, f64),
}

impl Watchdog {
    pub(super) fn new(deadline: Instant, idle_timeout: Duration) -> Self {
        Self { deadline, idle_timeout, last_sign: Instant::now(), warned: None }
    }

    pub(super) fn sign(&mut self) {
        self.last_sign = Instant::now();
    }

    /// What is due now, with tools running that may take so long. A warning is given once.
    pub(super) fn alarm(&mut self, longest_call: Option<Duration>) -> Option<Alarm> {
        let now = Instant::now();
        let silent = now.duration_since(self.last_sign).as_secs();
        let stalls_at = self.stalls_at(longest_call);
        if now >= self.deadline {
            return Some(Alarm::Deadline);
        }
        if now >= stalls_at {
            return Some(Alarm::Stalled(silent));
        }
        if self.warns_at(longest_call).is_some_and(|at| now >= at) {
            self.warned = Some(self.last_sign);
            let rest = stalls_at.duration_since(now).as_secs_f64().ceil();
            return Some(Alarm::Warning(silent, rest));
        }
        None
    }

    /// When it is to be looked at next.
    pub(super) fn next(&self, longest_call: Option<Duration>) -> Instant {
        let next = self.deadline.min(self.stalls_at(longest_call));
        self.warns_at(longest_call).map_or(next, |at| next.min(at))
    }

    /// When the operator is told that nothing moves, if they have not been. A tool may take its time.
    fn warns_at(&self, longest_call: Option<Duration>) -> Option<Instant> {
        let told = self.warned == Some(self.last_sign);
        let waits = told || longest_call.is_some();
        (!waits).then(|| self.last_sign + self.idle_timeout / 2)
    }

    fn stalls_at(&self, longest_call: Option<Duration>) -> Instant {
        let limit = longest_call.map_or(self.idle_timeout, |limit| limit + STALL_MARGIN_AFTER_TOOL);
        self.last_sign + limit
    }
}
