//! State of the connection to Discord, for whoever asks, and when a lost one is tried again.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    clock::{Clock, Timestamp, doubling},
    ids::Entropy as _,
    live::{
        Publisher,
        event::{Event, Kind},
    },
};
use parking_lot::Mutex;

use crate::{
    api::channels::Channel,
    system::{Randomness, WallClock},
};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The state of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// No token is given.
    #[default]
    Off,
    Connecting,
    Connected,
    /// Lost, and tried again.
    Retrying {
        attempt: u32,
        next_at: Timestamp,
        last_error: String,
    },
    /// Not tried again before the settings change.
    Failed {
        reason: String,
    },
}

impl ConnectionState {
    /// As lists show it; none while it is off.
    pub fn row(&self) -> Option<Channel> {
        (*self != Self::Off).then(|| self.shown())
    }

    fn shown(&self) -> Channel {
        let (state, error) = match self {
            Self::Off => ("off", None),
            Self::Connecting => ("connecting", None),
            Self::Connected => ("connected", None),
            Self::Retrying { attempt, next_at, last_error } => {
                let error =
                    format!("{last_error}; attempt {} follows at {}", attempt + 1, next_at.date());
                ("retrying", Some(error))
            }
            Self::Failed { reason } => ("failed", Some(reason.clone())),
        };
        Channel {
            kind: "discord".to_owned(),
            state: state.to_owned(),
            connected: usize::from(*self == Self::Connected),
            error,
        }
    }
}

/// The state that everybody sees. Cheap to clone.
#[derive(Clone)]
pub struct SharedState {
    now: Arc<Mutex<ConnectionState>>,
    live: Publisher,
}

impl SharedState {
    pub(super) fn new(live: Publisher) -> Self {
        Self { now: Arc::default(), live }
    }

    pub fn now(&self) -> ConnectionState {
        self.now.lock().clone()
    }

    /// Tells whoever watches, if it is news.
    pub(super) fn set(&self, state: ConnectionState) {
        let former = {
            let mut now = self.now.lock();
            std::mem::replace(&mut *now, state.clone())
        };
        if former == state {
            return;
        }
        match &state {
            ConnectionState::Off => tracing::info!("Discord is off"),
            ConnectionState::Connecting => {}
            ConnectionState::Connected => tracing::info!("Discord is connected"),
            ConnectionState::Retrying { attempt, last_error, .. } => {
                tracing::warn!(
                    attempt,
                    error = last_error,
                    "Discord is not connected; it is tried again"
                );
            }
            ConnectionState::Failed { reason } => tracing::error!(
                error = reason,
                "Discord is not connected, and is not tried again before its settings change"
            ),
        }
        if let Ok(data) = serde_json::to_value(state.shown()) {
            self.live.publish(Event::new(Kind::ChannelChanged, data));
        }
    }

    /// Says that attempt number so many failed, and how long to wait for the next.
    pub(super) fn retry(&self, attempt: u32, last_error: String) -> Duration {
        let pause = pause_after(attempt, Randomness.fraction());
        let next_at = WallClock.now() + pause;
        self.set(ConnectionState::Retrying { attempt, next_at, last_error });
        pause
    }
}

/// Doubles with each attempt, a fifth more or less.
fn pause_after(attempt: u32, chance: f64) -> Duration {
    let pause = doubling(FIRST_PAUSE, LONGEST_PAUSE, attempt.saturating_sub(1));
    pause.mul_f64(0.8 + 0.4 * chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-144
    #[test]
    fn pauses_double_up_to_the_longest_and_differ_by_a_fifth() {
        let seconds = |attempt, chance| pause_after(attempt, chance).as_millis();

        assert_eq!(
            [1, 2, 3, 9].map(|attempt| seconds(attempt, 0.5)),
            [1_000, 2_000, 4_000, 256_000]
        );
        assert_eq!(seconds(10, 0.5), 300_000);
        assert_eq!((seconds(u32::MAX, 0.0), seconds(u32::MAX, 1.0)), (240_000, 360_000));
    }

    /// CH-144
    #[test]
    fn a_row_says_why_it_is_not_connected() {
        let retrying = ConnectionState::Retrying {
            attempt: 2,
            next_at: Timestamp(0),
            last_error: "no route".to_owned(),
        };
        let row = retrying.row().unwrap();

        assert_eq!((row.state.as_str(), row.connected), ("retrying", 0));
        assert_eq!(
            row.error.as_deref(),
            Some("no route; attempt 3 follows at 1970-01-01T00:00:00.000Z")
        );
        assert!(ConnectionState::Off.row().is_none());
        assert_eq!(ConnectionState::Connected.row().unwrap().connected, 1);
    }
}
