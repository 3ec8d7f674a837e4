//! Retention of runs: the newest of each trigger stay, however old, while it is there.

use std::ops::ControlFlow;

use super::slice::{Enough, Sweep};
use crate::{
    ids::TriggerId,
    scheduler::{records as runs, run::Run, trigger::Trigger},
    storage::{Order, Storage, StorageError},
    store::reads::{Range, contains},
};

/// How far a walk through the runs has come, newest first.
#[derive(Default)]
pub(super) struct Runs {
    /// It goes on before this key.
    before: Option<Vec<u8>>,
    /// Whose runs are counted.
    trigger: Option<Counted>,
}

/// The runs of a trigger.
struct Counted {
    trigger: TriggerId,
    /// How many were seen, of the newest.
    seen: usize,
    /// So many stay, however old: none if the trigger was deleted.
    kept: usize,
}

impl Counted {
    fn new(storage: &dyn Storage, run: &Run) -> Result<Self, StorageError> {
        let lives = contains::<Trigger>(storage, &runs::name_of(&run.team, &run.trigger))?;
        let kept = if lives { runs::RUNS_KEPT } else { 0 };
        Ok(Self { trigger: run.trigger.clone(), seen: 0, kept })
    }
}

impl Runs {
    /// Walks on, and returns whether that is over.
    pub(super) fn walk(
        &mut self,
        mut sweep: Sweep<'_>,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        loop {
            let before = self.before.take();
            let range = before.map_or_else(Range::<Run>::all, |key| Range::all().before(&key));
            let mut paused = false;
            range.try_walk(sweep.storage, Order::Falling, &mut |key, run| {
                // One that cannot be read was reported, and is left alone.
                if let Ok(run) = run {
                    self.before = self.weigh(&mut sweep, key, &run)?;
                }
                paused = sweep.slice.is_full() || enough();
                if paused && self.before.is_none() {
                    self.before = Some(key.to_vec());
                }
                let is_enough = self.before.is_some();
                Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if paused || self.before.is_none() {
                return Ok(self.before.is_none());
            }
        }
    }

    /// Takes the next older run of a trigger in: it goes, or it stays. Returns the key before which there may be one that
    /// goes, if that is not the next.
    fn weigh(
        &mut self,
        sweep: &mut Sweep<'_>,
        key: &[u8],
        run: &Run,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let mut counted = match self.trigger.take() {
            Some(counted) if counted.trigger == run.trigger => counted,
            _ => Counted::new(sweep.storage, run)?,
        };
        counted.seen += 1;
        let (seen, kept) = (counted.seen, counted.kept);
        self.trigger = Some(counted);
        if run.fired_at >= sweep.cut.tasks {
            let old = || runs::runs_of(&run.team, &run.trigger, Some(sweep.cut.tasks));
            return Ok((seen >= kept).then(|| old().bounds().1));
        }
        let is_needed = run.task_id.as_ref().is_some_and(|task| sweep.needed.tasks.contains(task));
        if seen > kept && !is_needed {
            *sweep.removed += 1;
            sweep.slice.drop_keys(runs::keys_of_run(key, run));
        }
        Ok(None)
    }
}
