//! Journals: the events of a turn go once none of its tasks is there any more.

use std::{collections::HashMap, ops::ControlFlow};

use super::{
    keeping::Cut,
    pass::{Enough, Needed, Slice, behind},
};
use crate::{
    history::{Fact, HistoryEvent},
    ids::TurnId,
    storage::{Order, Storage, StorageError},
    store::{
        reads,
        records::{self, after_prefix, decode},
    },
};

/// The number at the end of a key, in bytes.
const NUMBER: usize = 8;
/// What the topics of subagents' sessions begin with: nobody goes on with one.
const SESSION: &[u8] = b"agent:";

/// How far a walk through all journals has come.
#[derive(Debug, Default)]
pub(super) struct Journals {
    from: Option<Vec<u8>>,
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
    /// What its keys begin with.
    prefix: Vec<u8>,
    /// Whether a turn's events stay.
    turns: HashMap<TurnId, bool>,
    /// The row before this one: it may go unless it is the newest. With the turns whose calls it holds.
    held: Option<(Vec<u8>, Vec<TurnId>)>,
}

impl Walked {
    fn new(prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec(), turns: HashMap::new(), held: None }
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
                    stays |= reads::has_task(storage, task)?;
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
            let answers = records::answers_prefix(&turn);
            let end = after_prefix(&answers);
            storage.scan(&answers, &end, Order::Rising, &mut |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
        }
        *removed += 1;
        slice.drop_keys(keys);
        Ok(())
    }
}

/// Somebody may go on with a lane, so that its numbers must go on as well.
fn is_open(prefix: &[u8], needed: &Needed) -> bool {
    let name = prefix.get(records::journals_prefix().len()..);
    let name = name.and_then(|name| name.strip_suffix(b"\0"));
    let Some(name) = name else { return true };
    let mut parts = name.splitn(2, |byte| *byte == 0);
    let (Some(team), Some(topic)) = (parts.next(), parts.next()) else {
        return true;
    };
    let known = topic == records::NO_TOPIC.as_bytes() || needed.topics.contains(topic);
    let goes_on = known && !topic.starts_with(SESSION) && needed.teams.contains(team);
    goes_on || needed.busy.contains(name)
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
        let all = records::journals_prefix();
        let end = after_prefix(&all);
        let mut removed = 0;
        let mut from = self.from.take().unwrap_or(all);
        loop {
            let mut next = None;
            let mut failed = None;
            let mut paused = false;
            storage.scan(&from, &end, Order::Rising, &mut |key, value| {
                let walked = self.row(storage, needed, cut, slice, &mut removed, key, value);
                match walked {
                    Ok(Row::Next) => {}
                    // The rest of the lane is younger.
                    Ok(Row::NextLane(prefix)) => next = Some(after_prefix(&prefix)),
                    Err(error) => failed = Some(error),
                }
                paused = slice.is_full() || enough();
                if paused && next.is_none() {
                    next = Some(behind(key));
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
                Some(next) => from = next,
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
        value: Result<&[u8], StorageError>,
    ) -> Result<Row, StorageError> {
        let prefix = &key[..key.len().saturating_sub(NUMBER)];
        let same = self.lane.as_ref().is_some_and(|lane| lane.prefix == prefix);
        if !same {
            self.leave_lane(storage, needed, slice, removed)?;
        }
        let lane = self.lane.get_or_insert_with(|| Walked::new(prefix));
        lane.release(storage, slice, removed)?;
        let events = value.and_then(|value| decode::<Vec<HistoryEvent>>(key, value));
        // A damaged row is left alone.
        let Ok(events) = events else {
            return Ok(Row::Next);
        };
        let old = events.last().is_none_or(|last| last.timestamp < cut.tasks);
        if !old {
            self.lane = None;
            return Ok(Row::NextLane(prefix.to_vec()));
        }
        lane.weigh(storage, key, &events)?;
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
            Some(mut lane) if !is_open(&lane.prefix, needed) => {
                lane.release(storage, slice, removed)
            }
            _ => Ok(()),
        }
    }
}

/// How a walk goes on.
enum Row {
    Next,
    NextLane(Vec<u8>),
}
