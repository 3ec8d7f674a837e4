//! Follower: has transcript files go on with what moves to the archive.
//!
//! Records are shown to it before the store lets them go, so that a crash shows them again: nothing has to be remembered. It
//! reads what has moved alone: what is still on its way may be gone after a power cut, and another try of the turn come instead.
//! A file that cannot be written keeps nobody waiting; it is tried again with what moves next, and after the next start.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use hivewright_actors::{
    journal::{records::Piece, sessions},
    storage::Storage,
    store::{reads::parse, records::Record as _},
    task::records::LaneKey,
};
use parking_lot::{Mutex, MutexGuard};

use super::files::{Folder, Position, Seen, TranscriptError};
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
    /// The last piece that was removed, by its first event.
    removed: Option<u64>,
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
    pub fn catch_up(&self, storage: &TieredStorage) {
        if self.state().caught_up {
            return;
        }
        let storage = &storage.archived();
        let mut lanes = Vec::new();
        let listed = sessions::sessions(storage, &mut |session| {
            lanes.push(LaneKey::new(&session.lane, session.generation));
            ControlFlow::Continue(())
        });
        let listed = listed.map_err(TranscriptError::from);
        let orphans = match listed.and_then(|()| self.folder.orphans(storage, &lanes)) {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::warn!(%error, "transcripts cannot be compared with the store; the next start tries again");
                return;
            }
        };
        let gone = News { removed: Some(u64::MAX), ..News::default() };
        let ends = News { ends: true, ..News::default() };
        let gone = orphans.into_iter().map(|lane| (lane, gone));
        for (lane, news) in lanes.into_iter().map(|lane| (lane, ends)).chain(gone) {
            // Taken anew for each: turns that end meanwhile are not kept waiting.
            let mut state = self.state();
            self.write(storage, &mut state, &lane, news, &[]);
        }
        let mut state = self.state();
        state.caught_up = true;
        self.settle(&mut state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Brings a file up to date. Returns whether it is.
    fn write(
        &self,
        storage: &dyn Storage,
        state: &mut State,
        lane: &LaneKey,
        news: News,
        seen: &[Seen<'_>],
    ) -> bool {
        if state.ends.len() >= REMEMBERED {
            state.ends.clear();
        }
        let end = state.ends.remove(lane);
        let written = match (news.removed, news.redacted) {
            (None, redacted) => self.folder.append(storage, lane, end, seen, redacted),
            (Some(last), None) => self.folder.shorten(storage, lane, end, last),
            (Some(_), Some(_)) => self.folder.rewrite(storage, lane),
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
        let was_behind = std::mem::take(&mut state.warned);
        if !state.caught_up || self.folder.is_complete() {
            return;
        }
        match self.folder.set_complete() {
            // Who was not told that they fall behind need not be told that they do not.
            Ok(()) if was_behind => tracing::info!("all transcripts are up to date"),
            Ok(()) => tracing::debug!("all transcripts are up to date"),
            Err(error) => tracing::warn!(%error, "the next start compares transcripts again"),
        }
    }
}

impl MoveObserver for Follower {
    fn see(&self, storage: &dyn Storage, changes: &[Change]) {
        let mut sessions: BTreeMap<String, (LaneKey, News, Vec<Seen<'_>>)> = BTreeMap::new();
        for change in changes {
            let Some((lane, news)) = news(change) else { continue };
            let session = sessions.entry(lane.session_id());
            let (_, known, seen) = session.or_insert((lane, News::default(), Vec::new()));
            *known = known.and(news);
            seen.extend(change.1.as_deref().map(|value| (&*change.0, value)));
        }
        let mut state = self.state();
        let was_behind = !state.behind.is_empty();
        let waiting: Vec<_> = state.behind.drain().collect();
        let mut waiting = waiting.into_iter();
        // The first that fails says how the others would do.
        for (lane, news) in waiting.by_ref() {
            if !self.write(storage, &mut state, &lane, news, &[]) {
                break;
            }
        }
        state.behind.extend(waiting);
        for (lane, news, seen) in sessions.into_values() {
            if news.is_some() {
                self.write(storage, &mut state, &lane, news, &seen);
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
            removed: self.removed.max(other.removed),
            redacted: match (self.redacted, other.redacted) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }

    fn is_some(self) -> bool {
        self.ends || self.removed.is_some() || self.redacted.is_some()
    }
}

/// What a change says of a session.
fn news((key, value): &Change) -> Option<(LaneKey, News)> {
    if !key.starts_with(Piece::KIND.as_bytes()) {
        return None;
    }
    let (lane, first) = parse::<Piece<'_>>(key)?;
    let news = match value {
        None => News { removed: Some(first), ..News::default() },
        Some(value) => {
            let text = std::str::from_utf8(value).ok()?;
            let redacted = text.contains(REDACTED).then_some(first);
            News { ends: text.contains(ENDS), removed: None, redacted }
        }
    };
    Some((lane, news))
}

#[cfg(test)]
mod tests;
