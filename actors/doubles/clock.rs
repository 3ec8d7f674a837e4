//! A clock that tests set.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::clock::{Clock, Timestamp, millis};

/// A clock that is moved by hand, and may go with the runtime's time beside that.
#[derive(Debug)]
pub struct ManualClock {
    at: AtomicU64,
    began: Option<Instant>,
}

impl ManualClock {
    /// One that stands until it is moved.
    pub fn standing(at: Timestamp) -> Self {
        Self { at: at.0.into(), began: None }
    }

    /// One that goes with the runtime's time, which tests pause.
    pub fn running(at: Timestamp) -> Self {
        Self { at: at.0.into(), began: Some(Instant::now()) }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.at.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Sets it, forward or back.
    pub fn set(&self, now: Timestamp) {
        self.at.store((now - self.elapsed()).0, Ordering::SeqCst);
    }

    fn elapsed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::standing(Timestamp(1_700_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.at.load(Ordering::SeqCst)) + self.elapsed()
    }
}
