//! Journals: the events of a turn go once none of its tasks is there any more.

use std::{collections::HashMap, ops::ControlFlow};

use super::{
    pass::{Enough, Needed, Slice},
    terms::Cut,
};
use crate::{
    history::{Fact, HistoryEvent},
    ids::TurnId,
    journal::records::Piece,
    storage::{Order, Storage, StorageError},
    store::{
        keys::Beginning,
        reads::{Range, parse},
    },
    task::records::{LaneKey, exists},
    tool::records::Answer,
};

/// What the topics of subagents' sessions begin with: nobody goes on with one.
const SESSION: &str = "agent:";

/// How far a walk through all journals has come.
#[derive(Debug, Default)]
pub(super) struct Journals {
    from: Option<Range<Piece<'static>>>,
    lane: Option<Walked>,
}

/// What a slice did.
pub(super) struct Progress {
    pub(super) over: bool,
    pub(super) removed: u64,
}

/// The lane that is being walked through.
#[derive(Debug)]
struct Walked {
    lane: LaneKey,
    /// Whether a turn's events stay.
    turns: HashMap<TurnId, bool>,
    /// The row before this one: it may go unless it is the newest. With the turns whose calls it holds.
    held: Option<(Vec<u8>, Vec<TurnId>)>,
}

impl Walked {
    fn new(lane: LaneKey) -> Self {
        Self { lane, turns: HashMap::new(), held: None }
    }

    /// Takes a row in: it may go later, or it stays.
    fn weigh(
        &mut self,
        storage: &dyn Storage,
        key: &[u8],
        events: &[HistoryEvent],
    ) -> Result<(), StorageError> {
        for event in events {
            if let Fact::TurnStart { task_ids, .. } = &event.fact {
                let mut stays = false;
                for task in task_ids {
                    stays |= exists(storage, task)?;
                }
                // A turn that went on after a crash says so again.
                *self.turns.entry(event.turn.clone()).or_default() |= stays;
            }
        }
        let stays = |event: &HistoryEvent| self.turns.get(&event.turn).is_some_and(|stays| *stays);
        self.held = if events.iter().any(stays) {
            None
        } else {
            let calls = events
                .iter()
                .filter(|event| matches!(event.fact, Fact::ToolCall { .. }))
                .map(|event| event.turn.clone());
            Some((key.to_vec(), calls.collect()))
        };
        Ok(())
    }

    /// Removes the row that was held, with what the calls in it were answered.
    fn release(
        &mut self,
        storage: &dyn Storage,
        slice: &mut Slice,
        removed: &mut u64,
    ) -> Result<(), StorageError> {
        let Some((key, mut turns)) = self.held.take() else {
            return Ok(());
        };
        let mut keys = vec![key];
        turns.dedup();
        for turn in turns {
            let calls = format!("{turn}:");
            keys.extend(Range::<Answer<()>>::under(&Beginning(&calls)).keys(storage)?);
        }
        *removed += 1;
        slice.drop_keys(keys);
        Ok(())
    }
}

/// Somebody may go on with a lane, so that its numbers must go on as well.
fn is_open(lane: &LaneKey, needed: &Needed) -> bool {
    let known = match &lane.lane.topic {
        Some(topic) => !topic.as_str().starts_with(SESSION) && needed.topics.contains(topic),
        None => true,
    };
    known && needed.teams.contains(&lane.team()) || needed.busy.contains(lane)
}

impl Journals {
    /// Walks on. The newest row of a lane stays while somebody may go on with the lane: the numbers of
    /// its events go on from there.
    pub(super) fn walk(
        &mut self,
        storage: &dyn Storage,
        needed: &Needed,
        cut: Cut,
        slice: &mut Slice,
        enough: &mut Enough<'_>,
    ) -> Result<Progress, StorageError> {
        let mut removed = 0;
        let mut range = self.from.take().unwrap_or_else(Range::all);
        loop {
            let mut next = None;
            let mut failed = None;
            let mut paused = false;
            range.walk(storage, Order::Rising, &mut |key, piece| {
                let walked = self.row(storage, needed, cut, slice, &mut removed, key, piece);
                match walked {
                    Ok(Row::Next) => {}
                    // The rest of the lane is younger.
                    Ok(Row::NextLane(lane)) => {
                        next = Some(Range::all().behind_all(&(&lane,)));
                    }
                    Err(error) => failed = Some(error),
                }
                paused = slice.is_full() || enough();
                if paused && next.is_none() {
                    next = Some(Range::all().behind(key));
                }
                if next.is_some() || failed.is_some() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            match next {
                Some(next) if paused => {
                    self.from = Some(next);
                    return Ok(Progress { over: false, removed });
                }
                Some(next) => range = next,
                None => break,
            }
        }
        self.leave_lane(storage, needed, slice, &mut removed)?;
        Ok(Progress { over: true, removed })
    }

    #[expect(clippy::too_many_arguments, reason = "one row of the walk above")]
    fn row(
        &mut self,
        storage: &dyn Storage,
        needed: &Needed,
        cut: Cut,
        slice: &mut Slice,
        removed: &mut u64,
        key: &[u8],
        piece: Result<Piece<'_>, StorageError>,
    ) -> Result<Row, StorageError> {
        let Some((lane, _)) = parse::<Piece<'_>>(key) else {
            return Ok(Row::Next);
        };
        if self.lane.as_ref().is_none_or(|walked| walked.lane != lane) {
            self.leave_lane(storage, needed, slice, removed)?;
        }
        let walked = self.lane.get_or_insert_with(|| Walked::new(lane.clone()));
        walked.release(storage, slice, removed)?;
        // A damaged row is left alone.
        let Ok(Piece(events)) = piece else {
            return Ok(Row::Next);
        };
        let old = events.last().is_none_or(|last| last.timestamp < cut.tasks);
        if !old {
            self.lane = None;
            return Ok(Row::NextLane(lane));
        }
        walked.weigh(storage, key, &events)?;
        Ok(Row::Next)
    }

    fn leave_lane(
        &mut self,
        storage: &dyn Storage,
        needed: &Needed,
        slice: &mut Slice,
        removed: &mut u64,
    ) -> Result<(), StorageError> {
        match self.lane.take() {
            Some(mut walked) if !is_open(&walked.lane, needed) => {
                walked.release(storage, slice, removed)
            }
            _ => Ok(()),
        }
    }
}

/// How a walk goes on.
enum Row {
    Next,
    NextLane(LaneKey),
}
