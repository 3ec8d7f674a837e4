//! Limits of triggers: what schema and validation go by, and whoever writes a trigger for somebody else.

use std::{ops::RangeInclusive, time::Duration};

use crate::text::{Size, Span};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The longest name, in characters.
pub const LONGEST_NAME: usize = 64;
/// The longest task, in characters.
pub const LONGEST_TASK: usize = 20_000;
/// The longest expression, in characters.
pub const LONGEST_PATTERN: usize = 500;
/// So many failures in a row may switch a trigger off.
pub const FAILURES: RangeInclusive<u32> = 1..=100;
/// How long a task may take.
pub const DEADLINE: RangeInclusive<Span> = span(MINUTE)..=span(7 * DAY);
/// The least time between two firings.
pub const COOLDOWN: RangeInclusive<Span> = span(0)..=span(30 * DAY);
/// From one time of a schedule to the next.
pub const EVERY: RangeInclusive<Span> = span(10)..=span(30 * DAY);
/// How long a window is open.
pub const OPEN: RangeInclusive<Span> = span(1)..=span(7 * DAY);
/// From one tick of a window to the next.
pub const TICK_INTERVAL: RangeInclusive<Span> = span(5)..=span(DAY);
/// The ticks of a window.
pub const TICKS: RangeInclusive<u32> = 1..=100_000;
/// How far the clock of whoever calls a webhook may be off.
pub const TOLERANCE: RangeInclusive<Span> = span(10)..=span(HOUR);
/// What a webhook may be sent.
pub const BODY: RangeInclusive<Size> = Size(1)..=Size(8 << 20);
/// A trigger keeps at most this many cursors …
pub const MOST_CURSORS: usize = 16;
/// … of at most this many bytes.
pub const LONGEST_CURSOR: usize = 4096;

const fn span(seconds: u64) -> Span {
    Span(Duration::from_secs(seconds))
}
