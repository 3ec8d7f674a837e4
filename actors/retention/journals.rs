//! Journals: the events of a turn go once none of its tasks is there any more.

use std::{collections::HashMap, ops::ControlFlow};

use super::{
    slice::{Enough, Needed, Slice},
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

/// What a slice of the walk is made with.
pub(super) struct Sweep<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) needed: &'a Needed,
    pub(super) cut: Cut,
    pub(super) slice: &'a mut Slice,
    /// How many rows go.
    pub(super) removed: &'a mut u64,
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
    fn release(&mut self, sweep: &mut Sweep<'_>) -> Result<(), StorageError> {
        let Some((key, mut turns)) = self.held.take() else { return Ok(()) };
        let mut keys = vec![key];
        turns.dedup();
        for turn in turns {
            keys.extend(answers(sweep.storage, &turn)?);
        }
        *sweep.removed += 1;
        sweep.slice.drop_keys(keys);
        Ok(())
    }
}

/// The stored keys of what the calls of a turn were answered.
pub(super) fn answers(storage: &dyn Storage, turn: &TurnId) -> Result<Vec<Vec<u8>>, StorageError> {
    Range::<Answer<()>>::under(&Beginning(&format!("{turn}:"))).keys(storage)
}

/// Somebody may go on with a lane, so that its numbers must go on as well.
fn is_open(lane: &LaneKey, needed: &Needed) -> bool {
    let known =
        lane.lane.topic.as_ref().is_none_or(|topic| {
            !topic.as_str().starts_with(SESSION) && needed.topics.contains(topic)
        });
    known && needed.teams.contains(&lane.team()) || needed.busy.contains(lane)
}

impl Journals {
    /// Walks on, and returns whether that is over. The newest row of a lane stays while somebody may go
    /// on with the lane: the numbers of its events go on from there.
    pub(super) fn walk(
        &mut self,
        mut sweep: Sweep<'_>,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        let mut range = self.from.take().unwrap_or_else(Range::all);
        loop {
            let mut next = None;
            let mut failed = None;
            let mut paused = false;
            range.walk(sweep.storage, Order::Rising, &mut |key, piece| {
                match self.row(&mut sweep, key, piece) {
                    // The rest of a lane that was left is younger.
                    Ok(left) => next = left.map(|lane| Range::all().behind_all(&(&lane,))),
                    Err(error) => failed = Some(error),
                }
                paused = sweep.slice.is_full() || enough();
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
                    return Ok(false);
                }
                Some(next) => range = next,
                None => break,
            }
        }
        self.leave_lane(&mut sweep)?;
        Ok(true)
    }

    /// Returns the lane if all that follows in it is too young.
    fn row(
        &mut self,
        sweep: &mut Sweep<'_>,
        key: &[u8],
        piece: Result<Piece<'_>, StorageError>,
    ) -> Result<Option<LaneKey>, StorageError> {
        let Some((lane, _)) = parse::<Piece<'_>>(key) else { return Ok(None) };
        if self.lane.as_ref().is_none_or(|walked| walked.lane != lane) {
            self.leave_lane(sweep)?;
        }
        let walked = self.lane.get_or_insert_with(|| Walked {
            lane: lane.clone(),
            turns: HashMap::new(),
            held: None,
        });
        walked.release(sweep)?;
        // A damaged row is left alone.
        let Ok(Piece(events)) = piece else { return Ok(None) };
        if events.last().is_some_and(|last| last.timestamp >= sweep.cut.tasks) {
            self.lane = None;
            return Ok(Some(lane));
        }
        walked.weigh(sweep.storage, key, &events)?;
        Ok(None)
    }

    fn leave_lane(&mut self, sweep: &mut Sweep<'_>) -> Result<(), StorageError> {
        match self.lane.take() {
            Some(mut walked) if !is_open(&walked.lane, sweep.needed) => walked.release(sweep),
            _ => Ok(()),
        }
    }
}
