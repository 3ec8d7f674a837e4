//! Retention of journals: the events of a turn go once none of its tasks is there any more.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    time::Duration,
};

use super::{
    slice::{Enough, Needed, Sweep},
    terms::Cut,
};
use crate::{
    history::{Fact, HistoryEvent},
    ids::{TaskId, TeamKey, TurnId},
    journal::records::{Began, Branch, Piece},
    storage::{Order, StorageError},
    store::{
        keys::{Life, key_of},
        reads::{Range, parse},
        records::Record as _,
    },
    task::{
        Task,
        records::{LaneKey, exists},
    },
    tool::records::answers,
};

/// What the topics of subagents' sessions begin with: nobody goes on with one.
const SESSION: &str = "agent:";
/// A journal may tell of a turn a little after its task has ended: a row that is younger by more than this stays.
const JOURNAL_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The journals that may hold something to remove, and how far the walk through them has come.
#[derive(Debug, Default)]
pub(super) struct Journals {
    teams: HashSet<TeamKey>,
    lanes: HashSet<LaneKey>,
    /// Tasks that this pass has removed and whose journals may be a little younger.
    removed: HashSet<TaskId>,
    /// What is left to walk through, the next one last.
    ranges: Vec<Range<Piece<'static>>>,
    lane: Option<Walked>,
}

/// The lane that is being walked through.
#[derive(Debug)]
struct Walked {
    lane: LaneKey,
    turns: HashMap<TurnId, Turn>,
    /// The row before this one: it may go unless it is the newest. With the turns whose calls it holds.
    held: Option<(Vec<u8>, Vec<TurnId>)>,
}

#[derive(Debug, Default)]
struct Turn {
    /// Its events stay.
    stays: bool,
    /// They go with a task that this pass has removed.
    goes_with_task: bool,
}

impl Walked {
    /// Takes a row in: it may go later, or it stays.
    fn weigh(
        &mut self,
        sweep: &Sweep<'_>,
        removed: &HashSet<TaskId>,
        key: &[u8],
        events: &[HistoryEvent],
    ) -> Result<(), StorageError> {
        let mut stays = false;
        for event in events {
            let turn = self.turns.entry(event.turn.clone()).or_default();
            if let Fact::TurnStart { task_ids, .. } = &event.fact {
                // A turn that went on after a crash says so again.
                for task in task_ids {
                    turn.stays |= exists(sweep.storage, task)?;
                    turn.goes_with_task |= removed.contains(task);
                }
            }
            // One that was brought back or taken over has no task to go with.
            turn.stays |= !turn.goes_with_task && event.timestamp >= sweep.cut.tasks;
            stays |= turn.stays;
        }
        self.held = if stays {
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

/// Somebody may go on with a lane, so that its numbers must go on as well.
fn is_open(lane: &LaneKey, needed: &Needed) -> bool {
    let known =
        lane.lane.topic.as_ref().is_none_or(|topic| {
            !topic.as_str().starts_with(SESSION) && needed.topics.contains(topic)
        });
    known && needed.teams.contains(&lane.team()) || needed.busy.contains(lane)
}

impl Journals {
    /// All that there are.
    pub(super) fn all() -> Self {
        Self { ranges: vec![Range::all()], ..Self::default() }
    }

    /// Those of a team that is gone.
    pub(super) fn add_team(&mut self, team: TeamKey) {
        self.ranges.push(Range::under(&Life(team.clone())));
        self.teams.insert(team);
    }

    /// That of a lane of which a task goes.
    pub(super) fn add_lane(&mut self, lane: LaneKey) {
        if !self.teams.contains(&lane.team()) && self.lanes.insert(lane.clone()) {
            self.ranges.push(Range::under(&(&lane,)));
        }
    }

    /// A task goes in this pass.
    pub(super) fn note_removed(&mut self, task: &Task, cut: Cut) {
        let ended_at = task.outcome.as_ref().map(|outcome| outcome.finished_at);
        if ended_at.is_some_and(|at| at + JOURNAL_GRACE >= cut.tasks) {
            self.removed.insert(task.id.clone());
        }
    }

    /// Walks on, and returns whether that is over. The newest row of a lane stays while somebody may go
    /// on with the lane: the numbers of its events go on from there.
    pub(super) fn walk(
        &mut self,
        mut sweep: Sweep<'_>,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        while let Some(range) = self.ranges.pop() {
            let (mut next, mut paused) = (None, false);
            range.try_walk(sweep.storage, Order::Rising, &mut |key, piece| {
                // The rest of a lane that was left is younger.
                let left = self.row(&mut sweep, key, piece)?;
                next = left.map(|lane| range.clone().behind_all(&(&lane,)));
                paused = sweep.slice.is_full() || enough();
                if paused && next.is_none() {
                    next = Some(range.clone().behind(key));
                }
                Ok(if next.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if next.is_none() {
                self.leave_lane(&mut sweep)?;
                paused = !self.ranges.is_empty() && (sweep.slice.is_full() || enough());
            }
            self.ranges.extend(next);
            if paused {
                return Ok(false);
            }
        }
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
        if events.last().is_some_and(|last| last.timestamp >= sweep.cut.tasks + JOURNAL_GRACE) {
            self.lane = None;
            return Ok(Some(lane));
        }
        walked.weigh(sweep, &self.removed, key, &events)?;
        Ok(None)
    }

    fn leave_lane(&mut self, sweep: &mut Sweep<'_>) -> Result<(), StorageError> {
        let closed = self.lane.take().filter(|walked| !is_open(&walked.lane, sweep.needed));
        let Some(mut walked) = closed else { return Ok(()) };
        walked.release(sweep)?;
        if !walked.turns.values().any(|turn| turn.stays) {
            let session = walked.lane.session_id();
            sweep.slice.drop_keys([Began::KIND, Branch::KIND].map(|kind| key_of(kind, &session)));
        }
        Ok(())
    }
}
