//! Follower: has transcript files go on with what moves to the archive.
//!
//! Records are shown to it before the store lets them go, so that a crash shows them again: nothing has to be remembered.
//! A file that cannot be written keeps nobody waiting; it is tried again with what moves next, and after the next start.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hivewright_actors::{
    journal::{records::Piece, sessions},
    storage::Storage,
    store::{reads::parse, records::Record as _},
    task::records::LaneKey,
};

use super::files::{Folder, Position, TranscriptError};
use crate::storage::tiers::{Change, MoveObserver, TieredStorage};

/// What the stored form of an event that ends a turn holds.
const ENDS: &str = "\"type\":\"turn_end\"";
/// The same of one that a secret was taken out of.
const REDACTED: &str = "\"redacted\":true";

/// Of so many files it is known where they end.
const REMEMBERED: usize = 4_096;

#[derive(Debug)]
pub struct Follower {
    folder: Folder,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What could not be written.
    behind: HashMap<LaneKey, News>,
    /// That was said.
    warned: bool,
    /// No other file lacks anything.
    caught_up: bool,
    /// Where files end that were written lately.
    ends: HashMap<LaneKey, Position>,
}

/// What has changed in a session.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    ends: bool,
    removed: bool,
    /// The first event of a piece that a secret was taken out of.
    redacted: Option<u64>,
}

impl Follower {
    pub fn new(folder: Folder) -> Self {
        let caught_up = folder.is_complete();
        Self { folder, state: Mutex::new(State { caught_up, ..State::default() }) }
    }

    /// Writes what the files lack, and removes those of sessions that are no more, if that may be: after a crash on a full
    /// disk, a restore, an upgrade.
    pub fn catch_up(&self, storage: &dyn Storage) {
        if self.state().caught_up {
            return;
        }
        let mut lanes = Vec::new();
        let listed = sessions::sessions(storage, None, &mut |session| {
            lanes.push(LaneKey::new(&session.lane, session.generation));
            ControlFlow::Continue(())
        });
        let listed = listed.map_err(TranscriptError::from);
        let orphans = match listed.and_then(|()| self.folder.orphans(storage, &lanes)) {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::warn!(%error, "transcripts are not compared with the store");
                return;
            }
        };
        let gone = News { removed: true, ..News::default() };
        let ends = News { ends: true, ..News::default() };
        let gone = orphans.into_iter().map(|lane| (lane, gone));
        for (lane, news) in lanes.into_iter().map(|lane| (lane, ends)).chain(gone) {
            // Taken anew for each: turns that end meanwhile are not kept waiting.
            let mut state = self.state();
            self.write(storage, &mut state, &lane, news);
        }
        let mut state = self.state();
        state.caught_up = true;
        self.settle(&mut state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a file up to date. Returns whether it is.
    fn write(&self, storage: &dyn Storage, state: &mut State, lane: &LaneKey, news: News) -> bool {
        if state.ends.len() >= REMEMBERED {
            state.ends.clear();
        }
        let end = state.ends.remove(lane);
        let written = if news.removed {
            self.folder.rewrite(storage, lane)
        } else {
            self.folder.append(storage, lane, end, news.redacted)
        };
        match written {
            Ok(end) => {
                state.ends.insert(lane.clone(), end);
                true
            }
            Err(error) => {
                self.fall_behind(state, lane, &error);
                let behind = state.behind.entry(lane.clone()).or_default();
                *behind = behind.and(news);
                false
            }
        }
    }

    /// Said once, however many files it is.
    fn fall_behind(&self, state: &mut State, lane: &LaneKey, error: &TranscriptError) {
        if !std::mem::replace(&mut state.warned, true) {
            tracing::warn!(
                session = lane.session_id(), %error,
                "transcripts in `history` of the run dir fall behind; they are written later"
            );
            if let Err(error) = self.folder.set_incomplete() {
                tracing::warn!(%error, "transcripts may lack turns after the next start");
            }
        }
    }

    /// Notes that no file lacks anything, if that is so.
    fn settle(&self, state: &mut State) {
        if !state.behind.is_empty() {
            return;
        }
        state.warned = false;
        if !state.caught_up || self.folder.is_complete() {
            return;
        }
        match self.folder.set_complete() {
            Ok(()) => tracing::info!("all transcripts are up to date"),
            Err(error) => tracing::warn!(%error, "the next start compares transcripts again"),
        }
    }
}

impl MoveObserver for Follower {
    fn see(&self, storage: &TieredStorage, changes: &[Change]) {
        let mut sessions: BTreeMap<String, (LaneKey, News)> = BTreeMap::new();
        for (lane, news) in changes.iter().filter_map(news) {
            let (_, known) = sessions.entry(lane.session_id()).or_insert((lane, News::default()));
            *known = known.and(news);
        }
        let mut state = self.state();
        let was_behind = !state.behind.is_empty();
        let waiting: Vec<_> = state.behind.drain().collect();
        let mut waiting = waiting.into_iter();
        // The first that fails says how the others would do.
        for (lane, news) in waiting.by_ref() {
            if !self.write(storage, &mut state, &lane, news) {
                break;
            }
        }
        state.behind.extend(waiting);
        for (lane, news) in sessions.into_values() {
            if news.is_some() {
                self.write(storage, &mut state, &lane, news);
            }
        }
        if was_behind {
            self.settle(&mut state);
        }
    }
}

impl News {
    fn and(self, other: Self) -> Self {
        Self {
            ends: self.ends || other.ends,
            removed: self.removed || other.removed,
            redacted: match (self.redacted, other.redacted) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }

    fn is_some(self) -> bool {
        self.ends || self.removed || self.redacted.is_some()
    }
}

/// What a change says of a session.
fn news((key, value): &Change) -> Option<(LaneKey, News)> {
    if !key.starts_with(Piece::KIND.as_bytes()) {
        return None;
    }
    let (lane, first) = parse::<Piece<'_>>(key)?;
    let news = match value {
        None => News { removed: true, ..News::default() },
        Some(value) => {
            let text = std::str::from_utf8(value).ok()?;
            let redacted = text.contains(REDACTED).then_some(first);
            News { ends: text.contains(ENDS), removed: false, redacted }
        }
    };
    Some((lane, news))
}

#[cfg(test)]
mod tests;
