//! Live events: whoever watches is told what happens, in one order.
//!
//! What becomes durable is told by the store, after its commit; what passes (text as it is written)
//! by whoever sees it. Publishing puts an event into a ring and rings a bell: it never waits, and
//! with nobody watching that is all. Each watcher reads the ring at its own pace.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::{Notify, watch as signal};

use crate::{
    clock::Clock,
    ids::TopicId,
    text,
    text::{Expected, Text},
};

pub mod boot_counter;
pub mod event;
pub mod ring;
#[cfg(test)]
mod tests;
pub mod turns;
pub mod watch;

use event::Event;
use ring::Ring;
use turns::{ActiveTurn, TurnPlace, Turns};

/// A place in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which process it is of.
    pub boot: u64,
    /// The newest event there.
    pub seq: u64,
}

text!(Mark);

impl Text for Mark {
    const FORMAT: &'static str = "event-id";
    const PATTERN: &'static str = "^[0-9]+-[0-9]+$";
    const EXAMPLES: &'static [&'static str] = &["3-1042"];
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.boot, self.seq)
    }
}

impl FromStr for Mark {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let parts = text.split_once('-');
        let mark = parts.and_then(|(boot, seq)| {
            Some(Self { boot: boot.parse().ok()?, seq: seq.parse().ok()? })
        });
        mark.ok_or(Expected("the id of an event, such as 3-1042"))
    }
}

/// The publisher of live events. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Publisher(Arc<Shared>);

struct Shared {
    boot: u64,
    clock: Arc<dyn Clock>,
    state: RwLock<State>,
    /// Someone has ever watched: only then is there anyone to wake.
    watched: AtomicBool,
    bell: Notify,
    /// The newest number, or the end, for all watchers.
    news: signal::Sender<News>,
}

#[derive(Default)]
struct State {
    ring: Ring,
    turns: Turns,
}

/// What watchers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct News {
    newest: u64,
    over: bool,
}

impl Publisher {
    pub fn new(boot: u64, clock: Arc<dyn Clock>) -> Self {
        let (news, _) = signal::channel(News { newest: 0, over: false });
        Self(Arc::new(Shared {
            boot,
            clock,
            state: RwLock::default(),
            watched: AtomicBool::new(false),
            bell: Notify::new(),
            news,
        }))
    }

    pub fn publish(&self, event: Event) {
        self.publish_all([event]);
    }

    pub fn publish_all(&self, events: impl IntoIterator<Item = Event>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_none() {
            return;
        }
        let at = self.0.clock.now();
        {
            let mut state = self.0.state.write();
            let State { ring, turns } = &mut *state;
            for event in events {
                if turns.knows(&event) {
                    continue;
                }
                turns.fold(ring.newest() + 1, at, &event);
                ring.push(event, at);
            }
        }
        if self.0.watched.load(Ordering::Acquire) {
            self.0.bell.notify_one();
        }
    }

    pub fn mark(&self) -> Mark {
        Mark { boot: self.0.boot, seq: self.read().ring.newest() }
    }

    /// The present place, and the turns under way there.
    pub fn running(&self) -> (Mark, Vec<ActiveTurn>) {
        let state = self.read();
        (Mark { boot: self.0.boot, seq: state.ring.newest() }, state.turns.all())
    }

    /// Nothing but passing words came after a number.
    pub fn is_quiet_since(&self, seq: u64) -> bool {
        let newer = self.read().ring.after(seq, None, ring::KEPT);
        newer.is_some_and(|events| events.iter().all(|told| told.event.is_passing()))
    }

    /// The turn under way in a topic.
    pub fn turn_of(&self, topic: &TopicId) -> Option<ActiveTurn> {
        self.read().turns.of_topic(topic)
    }

    /// The turn that runs in a session.
    pub fn turn_in(&self, session: &str) -> Option<TurnPlace> {
        self.read().turns.in_session(session)
    }

    /// Ends all watching: the process is about to stop.
    pub fn end(&self) {
        self.0.news.send_modify(|news| news.over = true);
    }

    fn news(&self) -> signal::Receiver<News> {
        self.0.news.subscribe()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read()
    }
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Publisher({})", self.mark())
    }
}
