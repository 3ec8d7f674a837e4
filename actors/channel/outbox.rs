//! Outbox: the order and the bounds of a channel's durable frames.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    clock::Timestamp,
    frame::{Body, Frame, Gap},
};

/// So many frames are kept …
pub const MOST_FRAMES: usize = 1_000;
/// … so many bytes of them …
pub const MOST_BYTES: usize = 16 * 1024 * 1024;
/// … for so long.
pub const MOST_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// A full outbox makes room for this many frames at once.
const EVICTED_AT_ONCE: usize = 64;

/// Passing frames are numbered between durable ones: a number is an ordinal and a count.
const COUNT_BITS: u32 = 20;

/// The number of a durable frame on the wire.
pub fn seq(ordinal: u64) -> u64 {
    ordinal << COUNT_BITS
}

/// The ordinal of the newest durable frame that a number is not before.
pub fn ordinal(seq: u64) -> u64 {
    seq >> COUNT_BITS
}

/// A durable frame that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    ordinal: u64,
    bytes: usize,
    at: Timestamp,
    progress: bool,
}

/// The durable frames of one channel: which are kept, and which may be sent next.
#[derive(Debug)]
pub struct Outbox {
    kept: VecDeque<Kept>,
    bytes: usize,
    /// The ordinal that is sent next.
    next: u64,
    /// Frames that came before their turn.
    early: BTreeMap<u64, Arc<Frame>>,
    /// Passing frames since the last durable one.
    passing: u64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { kept: VecDeque::new(), bytes: 0, next: 1, early: BTreeMap::new(), passing: 0 }
    }
}

impl Outbox {
    pub fn stored(&mut self, ordinal: u64, bytes: usize, frame: Arc<Frame>) {
        self.keep(ordinal, bytes, &frame);
        if ordinal >= self.next {
            self.early.insert(ordinal, frame);
        }
    }

    /// Takes what may be sent now, in order.
    pub fn take_ready(&mut self) -> Vec<(u64, Arc<Frame>)> {
        let mut ready = Vec::new();
        while let Some(frame) = self.early.remove(&self.next) {
            ready.push((self.next, frame));
            self.next += 1;
            self.passing = 0;
        }
        ready
    }

    /// How many frames wait for their turn.
    pub fn early(&self) -> usize {
        self.early.len()
    }

    /// How many of those that are kept were made later.
    pub fn since(&self, moment: Timestamp) -> usize {
        self.kept.iter().filter(|kept| kept.at > moment).count()
    }

    /// Frames wait for one that has not come yet.
    pub fn is_waiting(&self) -> bool {
        !self.early.is_empty()
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn newest_seq(&self) -> u64 {
        seq(self.next - 1) + self.passing
    }

    /// The number of a passing frame that is sent now; none if there were too many of them.
    pub fn passing(&mut self) -> Option<u64> {
        let count = self.passing + 1;
        (count < 1 << COUNT_BITS).then(|| {
            self.passing = count;
            seq(self.next - 1) + count
        })
    }

    /// Starts again from what the store holds, for a client that has all up to `last_seq`.
    ///
    /// Returns what it misses, in order, and holes where frames are gone.
    pub fn reload(&mut self, stored: Vec<(u64, usize, Arc<Frame>)>, last_seq: u64) -> Vec<Replay> {
        let early = std::mem::take(&mut self.early);
        self.kept.clear();
        self.bytes = 0;
        let had = ordinal(last_seq);
        for (place, bytes, frame) in &stored {
            self.keep(*place, *bytes, frame);
        }
        let stored = stored.into_iter();
        let mut replay = missed(stored.map(|(place, _, frame)| (place, frame)), last_seq);
        let newest = self.kept.back().map_or(had, |kept| kept.ordinal.max(had));
        self.next = newest + 1;
        self.passing = if had == newest { last_seq - seq(had) } else { 0 };
        for (place, frame) in early {
            if place >= self.next {
                self.early.insert(place, frame);
            }
        }
        replay.extend(
            self.take_ready().into_iter().map(|(place, frame)| Replay::Frame(place, frame)),
        );
        replay
    }

    /// A client has passing frames up to a number: the next one is above it for everyone.
    pub fn catch_up(&mut self, last_seq: u64) {
        if ordinal(last_seq) == self.next - 1 {
            self.passing = self.passing.max(last_seq - seq(self.next - 1));
        }
    }

    /// Frames that are beyond the bounds: progress first, then the oldest. Never the newest.
    pub fn excess(&mut self, now: Timestamp) -> Vec<u64> {
        let over =
            |outbox: &Self, frames: usize| outbox.kept.len() > frames || outbox.bytes > MOST_BYTES;
        let old = |kept: &Kept| kept.at + MOST_AGE < now;
        let full = over(self, MOST_FRAMES);
        let frames = if full { MOST_FRAMES - EVICTED_AT_ONCE } else { MOST_FRAMES };
        let mut dropped = Vec::new();
        while self.kept.len() > 1 && (over(self, frames) || self.kept.front().is_some_and(old)) {
            let newest = self.kept.len() - 1;
            let place = match self.kept.front() {
                Some(first) if old(first) => 0,
                _ => self.kept.range(..newest).position(|kept| kept.progress).unwrap_or(0),
            };
            let Some(kept) = self.kept.remove(place) else { break };
            self.bytes -= kept.bytes;
            dropped.push(kept.ordinal);
        }
        dropped
    }

    /// A frame is in the store, and counts.
    pub fn keep(&mut self, ordinal: u64, bytes: usize, frame: &Frame) {
        if self.kept.back().is_some_and(|newest| newest.ordinal >= ordinal)
            && self.kept.iter().any(|kept| kept.ordinal == ordinal)
        {
            return;
        }
        let place = self.kept.partition_point(|kept| kept.ordinal < ordinal);
        self.bytes += bytes;
        self.kept.insert(
            place,
            Kept {
                ordinal,
                bytes,
                at: frame.ts,
                progress: matches!(frame.body, Body::Progress(_)),
            },
        );
    }
}

/// What a client misses that has all up to `last_seq`, in order, and holes where frames are gone.
pub fn missed(stored: impl IntoIterator<Item = (u64, Arc<Frame>)>, last_seq: u64) -> Vec<Replay> {
    let had = ordinal(last_seq);
    // Whoever asks for all that is kept misses nothing before it.
    let mut expected = (last_seq > 0).then_some(had + 1);
    let mut replay = Vec::new();
    for (place, frame) in stored {
        if place <= had {
            continue;
        }
        let next = expected.unwrap_or(place);
        if place > next && !tells_of_gap(&frame) {
            replay.push(Replay::Hole(Gap {
                from_seq: seq(next),
                to_seq: seq(place - 1),
                dropped: place - next,
            }));
        }
        replay.push(Replay::Frame(place, frame));
        expected = Some(place + 1);
    }
    replay
}

/// A frame that itself says that those before it are gone.
fn tells_of_gap(frame: &Frame) -> bool {
    matches!(&frame.body, Body::Progress(progress) if progress.gap.is_some())
}

/// A part of what a client misses.
#[derive(Clone, Debug, PartialEq)]
pub enum Replay {
    Frame(u64, Arc<Frame>),
    /// Frames that are gone.
    Hole(Gap),
}

#[cfg(test)]
mod tests;
