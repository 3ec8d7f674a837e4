//! Watcher: reads the ring at its own pace, and learns what it has missed.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::watch as signal;

use super::{
    Mark, News, Publisher,
    event::{Event, Gap, Kind, Reason},
    ring::Told,
};
use crate::ids::{TaskId, TeamName, TopicId};

/// So many events may wait for a watcher.
pub const MAX_WAITING: usize = 256;
/// The ring is read in pieces of this size, so that nobody waits for one who reads much.
const PIECE_LENGTH: usize = 512;

/// Watchers are woken at most this often: what happens in between they get together.
const WAKE_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only these kinds; empty is all.
    pub kinds: Vec<Kind>,
    pub team: Option<TeamName>,
    pub topic: Option<TopicId>,
    pub task: Option<TaskId>,
}

impl Filter {
    pub fn passes(&self, event: &Event) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && is(&self.team, &event.team)
            && is(&self.topic, &event.topic)
            && is(&self.task, &event.task)
    }
}

/// What a watcher gets at a time.
#[derive(Debug, Default)]
pub struct Batch {
    /// What it missed before these.
    pub before: Option<Gap>,
    /// Events, oldest first.
    pub events: Vec<Arc<Told>>,
    /// What it missed among or after these.
    pub after: Option<Gap>,
}

pub struct Watch {
    live: Publisher,
    news: signal::Receiver<News>,
    filter: Filter,
    /// All up to this number was seen, or was not wanted.
    seen: u64,
    /// Up to this number what was kept is sent again; nothing of it is left out.
    again: u64,
    /// What to begin with.
    gap: Option<Gap>,
}

impl Publisher {
    /// Watches from a place on; from now on if there is none.
    pub fn watch(&self, from: Option<Mark>, filter: Filter) -> Watch {
        if !self.0.watched.swap(true, Ordering::AcqRel) {
            crate::spawn::local(self.clone().wake_watchers());
        }
        Watch::new(self.clone(), from, filter)
    }

    /// Wakes watchers, away from whoever publishes: a thousand of them are no work for a turn.
    async fn wake_watchers(self) {
        loop {
            self.0.bell.notified().await;
            let newest = self.read().ring.newest();
            self.0.news.send_modify(|news| news.newest = newest);
            tokio::time::sleep(WAKE_INTERVAL).await;
        }
    }
}

impl Watch {
    fn new(live: Publisher, from: Option<Mark>, filter: Filter) -> Self {
        let news = live.news();
        let now = live.mark();
        let (seen, gap) = match from {
            None => (now.seq, None),
            // A place that is not reached yet is none of this process either.
            Some(mark) if mark.boot != now.boot || mark.seq > now.seq => {
                (now.seq, Some(Gap { from: 1, to: now.seq, reason: Reason::Restart }))
            }
            Some(mark) => (mark.seq, None),
        };
        Self { live, news, filter, seen, again: now.seq, gap }
    }

    /// The process whose events these are.
    pub fn boot(&self) -> u64 {
        self.live.mark().boot
    }

    /// Waits for what comes next; nothing when it is over.
    pub async fn next(&mut self) -> Option<Batch> {
        loop {
            // Looked at first: what is published from here on rings the bell.
            let over = self.news.borrow_and_update().over;
            if let Some(batch) = self.take() {
                return Some(batch);
            }
            if over {
                return None;
            }
            self.news.changed().await.ok()?;
        }
    }

    /// What is there now.
    pub fn take(&mut self) -> Option<Batch> {
        let batch = match self.gap.take() {
            Some(gap) => Batch { before: Some(gap), ..Batch::default() },
            None if self.seen < self.again => self.repeat(),
            None => self.catch_up(),
        };
        let empty = batch.before.is_none() && batch.events.is_empty() && batch.after.is_none();
        (!empty).then_some(batch)
    }

    /// What was kept for one who comes back.
    fn repeat(&mut self) -> Batch {
        let mut events = Vec::new();
        while self.seen < self.again && events.is_empty() {
            match self.piece(MAX_WAITING) {
                Some(piece) if piece.is_empty() => self.seen = self.again,
                Some(piece) => self.keep(piece, &mut events),
                None => {
                    let before = Some(self.skip(self.seen + 1, Reason::Overflow));
                    return Batch { before, ..Batch::default() };
                }
            }
        }
        Batch { events, ..Batch::default() }
    }

    /// What has come meanwhile. If that is too much for the queue, what is passing goes first, then
    /// all of it.
    fn catch_up(&mut self) -> Batch {
        let first = self.seen + 1;
        let mut events = Vec::new();
        let mut missed = None;
        loop {
            let Some(piece) = self.piece(PIECE_LENGTH) else {
                return Batch { after: Some(self.skip(first, Reason::Slow)), ..Batch::default() };
            };
            let is_last = piece.len() < PIECE_LENGTH;
            self.keep(piece, &mut events);
            if events.len() > MAX_WAITING {
                let passing = events.iter().find(|told| told.event.is_passing());
                missed = missed.or(passing.map(|told| told.seq));
                events.retain(|told| !told.event.is_passing());
            }
            if events.len() > MAX_WAITING {
                return Batch { after: Some(self.skip(first, Reason::Slow)), ..Batch::default() };
            }
            if is_last {
                break;
            }
        }
        Batch {
            before: None,
            events,
            after: missed.map(|from| Gap { from, to: self.seen, reason: Reason::Slow }),
        }
    }

    /// The next events, wanted or not; none if some of them are gone.
    fn piece(&self, most: usize) -> Option<Vec<Arc<Told>>> {
        self.live.read().ring.after(self.seen, self.filter.team.as_ref(), most)
    }

    fn keep(&mut self, piece: Vec<Arc<Told>>, events: &mut Vec<Arc<Told>>) {
        if let Some(last) = piece.last() {
            self.seen = last.seq;
        }
        events.extend(piece.into_iter().filter(|told| self.filter.passes(&told.event)));
    }

    /// Goes on from now.
    fn skip(&mut self, from: u64, reason: Reason) -> Gap {
        self.seen = self.live.mark().seq;
        Gap { from, to: self.seen, reason }
    }
}
