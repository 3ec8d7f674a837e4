//! Windows: when they open and close, and what is counted while they are open.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    ports::View,
    run::RunOutcome,
    trigger::{
        config::{Hours, StopOn, Window},
        limits::OPEN,
    },
};
use crate::{
    clock::{Timestamp, millis},
    words,
};

/// No window stays open for longer.
pub const LONGEST: Duration = OPEN.end().0;
/// A tick that is later than this was not late but missed.
const MAX_LATENESS: Duration = Duration::from_secs(60);
/// So many ticks in a row that found nothing double the interval …
const IDLE_TICKS_PER_DOUBLING: u32 = 10;
/// … up to so many times the interval.
const MAX_INTERVAL_FACTOR: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);

words! {
    /// How far a window is.
    #[schemars(rename = "WindowPhase")]
    #[derive(Default)]
    pub enum Phase {
        /// It ticks.
        #[default]
        Open = "open",
        /// It ticks no more, and its last work goes on.
        Closing = "closing",
        /// It is over.
        Closed = "closed",
    }
}

words! {
    /// Why a window closed.
    #[schemars(rename = "WindowClosed")]
    pub enum Closed {
        /// It was time.
        Time = "time",
        /// It ticked often enough.
        Ticks = "ticks",
        /// It spent its tokens.
        Tokens = "tokens",
        /// It spent its money.
        Usd = "usd",
        /// A tick found something.
        FirstHit = "first_hit",
        /// Its trigger was switched off.
        Disabled = "disabled",
    }
}

/// One opening of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Occurrence {
    /// When it opened. Names it.
    pub opened_at: Timestamp,
    /// When it closes at the latest.
    pub closes_at: Timestamp,
    pub phase: Phase,
    /// Ticks so far, with those that were skipped.
    pub ticks: u32,
    pub noops: u32,
    /// The newest of them in a row.
    pub noops_in_a_row: u32,
    pub tokens: u64,
    pub usd: f64,
    pub reason: Option<Closed>,
    pub next_tick_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    pub due_at: Timestamp,
    /// Which one of its window, from 1.
    pub number: u32,
}

impl Occurrence {
    fn new(opened_at: Timestamp, closes_at: Timestamp) -> Self {
        Self { opened_at, closes_at, next_tick_at: opened_at, ..Self::default() }
    }

    /// Ticks no more. Work in flight goes on.
    pub fn close(&mut self, reason: Closed, in_flight: bool) {
        if self.phase == Phase::Open {
            self.phase = if in_flight { Phase::Closing } else { Phase::Closed };
            self.reason = Some(reason);
        }
    }

    /// A task of this window ended.
    pub fn ended(&mut self, window: &Window, outcome: RunOutcome, tokens: u64, usd: f64) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.usd += usd;
        match outcome {
            RunOutcome::Noop => {
                self.noops += 1;
                self.noops_in_a_row += 1;
            }
            RunOutcome::Ok | RunOutcome::Failed => self.noops_in_a_row = 0,
            RunOutcome::Cancelled | RunOutcome::Missed => {}
        }
        if window.max_tokens.is_some_and(|most| self.tokens >= most) {
            self.close(Closed::Tokens, false);
        } else if window.max_usd.is_some_and(|most| self.usd >= most) {
            self.close(Closed::Usd, false);
        } else if window.stop_on == Some(StopOn::FirstHit) && outcome == RunOutcome::Ok {
            self.close(Closed::FirstHit, false);
        }
        if self.phase == Phase::Closing {
            self.phase = Phase::Closed;
        }
    }

    fn interval(&self, window: &Window) -> Duration {
        let interval = window.tick_interval.0;
        if !window.backoff {
            return interval;
        }
        interval
            * 2_u32
                .saturating_pow(self.noops_in_a_row / IDLE_TICKS_PER_DOUBLING)
                .min(MAX_INTERVAL_FACTOR)
    }

    /// The first tick after a moment, in step with the opening.
    fn tick_after(&self, window: &Window, after: Timestamp) -> Timestamp {
        let interval = millis(self.interval(window)).max(1);
        let passed = after.0.saturating_sub(self.opened_at.0);
        Timestamp(self.opened_at.0 + (passed / interval + 1) * interval)
    }
}

/// Moves a window on to the present, and tells whether a tick is due.
pub fn advance(
    view: View<'_>,
    window: &Window,
    occurrence: &mut Option<Occurrence>,
    cursor: Timestamp,
    in_flight: bool,
) -> Option<Tick> {
    let View { now, since, .. } = view;
    if let Some(open) = occurrence.as_mut()
        && open.phase == Phase::Open
        && open.closes_at <= now
    {
        open.close(Closed::Time, in_flight);
    }
    if occurrence.as_ref().is_none_or(|found| found.phase != Phase::Open)
        && let Some((opens, closes)) =
            opening(view, window, after_last(window, occurrence.as_ref(), cursor))
        && opens <= now
    {
        *occurrence = Some(Occurrence::new(opens, closes));
    }
    let open = occurrence.as_mut().filter(|found| found.phase == Phase::Open)?;
    let due_at = open.next_tick_at;
    if due_at > now {
        return None;
    }
    open.next_tick_at = open.tick_after(window, now);
    if due_at < since || now.since(due_at) > MAX_LATENESS {
        return None;
    }
    open.ticks += 1;
    let number = open.ticks;
    if open.ticks >= window.max_ticks {
        // Whoever makes the last tick has work in flight, unless the tick is skipped.
        open.close(Closed::Ticks, true);
    }
    Some(Tick { due_at, number })
}

pub fn next_due(
    view: View<'_>,
    window: &Window,
    occurrence: Option<&Occurrence>,
    cursor: Timestamp,
) -> Option<Timestamp> {
    match occurrence {
        Some(open) if open.phase == Phase::Open => Some(open.next_tick_at.min(open.closes_at)),
        other => opening(view, window, after_last(window, other, cursor)).map(|(opens, _)| opens),
    }
}

/// A window that closed early does not open again before its time.
fn after_last(window: &Window, occurrence: Option<&Occurrence>, cursor: Timestamp) -> Timestamp {
    let Some(last) = occurrence else { return cursor };
    cursor.max(match window.hours() {
        // Every moment before its end is one in which it is open.
        Some(Hours::Watch(_)) => last.closes_at,
        // It may open again at the moment it closes.
        _ => last.closes_at - Duration::from_millis(1),
    })
}

/// The first opening after a moment that has not closed yet: from when to when.
pub fn opening(
    view: View<'_>,
    window: &Window,
    after: Timestamp,
) -> Option<(Timestamp, Timestamp)> {
    let View { calendar, now, .. } = view;
    let zone = window.timezone.as_deref().unwrap_or(view.zone);
    let hours = window.hours()?;
    let open = match hours {
        Hours::Watch(pattern) => {
            let fits = |at| calendar.matches(pattern, zone, at);
            let start = now.max(after);
            let opens = if fits(start) {
                first_of_run(start, after, fits)
            } else {
                calendar.next(pattern, zone, start)?
            };
            return Some((opens, end_of_run(opens, fits)));
        }
        Hours::Between { open, .. } | Hours::Lasting { open, .. } => open,
    };
    let mut opens = calendar.next(open, zone, after.max(now - LONGEST))?;
    loop {
        let closes = match hours {
            Hours::Lasting { duration, .. } => opens + duration,
            Hours::Between { close, .. } => calendar.next(close, zone, opens)?.min(opens + LONGEST),
            Hours::Watch(_) => return None,
        };
        if closes > now {
            return Some((opens, closes));
        }
        opens = calendar.next(open, zone, opens)?;
    }
}

fn start_of_minute(at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0 % millis(MINUTE))
}

/// Where the minutes that fit began, but not before `after`.
fn first_of_run(
    within: Timestamp,
    after: Timestamp,
    fits: impl Fn(Timestamp) -> bool,
) -> Timestamp {
    let mut first = start_of_minute(within);
    while first > after && within.since(first) < LONGEST && fits(first - MINUTE) {
        first = first - MINUTE;
    }
    first.max(after)
}

/// Where the minutes that fit end.
fn end_of_run(opens: Timestamp, fits: impl Fn(Timestamp) -> bool) -> Timestamp {
    let mut end = start_of_minute(opens) + MINUTE;
    while end.since(opens) < LONGEST && fits(end) {
        end = end + MINUTE;
    }
    end
}

#[cfg(test)]
#[path = "tests/window.rs"]
mod tests;
