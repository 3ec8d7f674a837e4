//! One pass over all records: what is still needed is gathered first, then the rest is removed.

use std::{ops::ControlFlow, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    journals::Journals,
    slice::{Enough, Needed, Slice},
    terms::{Cut, Keeping, Lot, Terms},
};
use crate::{
    approvals::{record::Approval, records::PendingApproval},
    audit::Audit,
    clock::Timestamp,
    ids::{MAIN, TeamKey, TriggerId},
    inbox::InboxEvent,
    notice::Notice,
    org::record::{TeamRecord, TeamState},
    router::{audit::AuditRow, topics::Topic},
    scheduler::{records as runs, run::Run},
    storage::{Order, Storage, StorageError},
    store::{
        keys::after_prefix,
        reads::{Range, get, parse, report},
        records::{Record, decode},
    },
    task::{
        Task,
        records::{EndedTask, FinishedTask, LaneKey},
    },
};

/// How many of each kind were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Finished tasks.
    pub tasks: u64,
    /// Rows of journals.
    pub journal: u64,
    /// Runs of triggers.
    pub runs: u64,
    /// Events that no turn came to see, and notices that were read.
    pub inbox: u64,
    /// Lines of audits.
    pub audit: u64,
    /// Records of the edges.
    pub edges: u64,
}

/// Looks at a record, by its key and its value.
type Visit<'a> = dyn FnMut(&[u8], &[u8], &mut Slice) + 'a;

/// What is looked at, in order: first what tells which records are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    OpenTasks,
    Approvals,
    Chains,
    Topics,
    Teams,
    Tasks,
    Journals,
    Runs,
    Inboxes,
    Notices,
    Audits,
    Decisions,
    Lots,
    Over,
}

impl Stage {
    fn next(self) -> Self {
        match self {
            Self::OpenTasks => Self::Approvals,
            Self::Approvals => Self::Chains,
            Self::Chains => Self::Topics,
            Self::Topics => Self::Teams,
            Self::Teams => Self::Tasks,
            Self::Tasks => Self::Journals,
            Self::Journals => Self::Runs,
            Self::Runs => Self::Inboxes,
            Self::Inboxes => Self::Notices,
            Self::Notices => Self::Audits,
            Self::Audits => Self::Decisions,
            Self::Decisions => Self::Lots,
            Self::Lots | Self::Over => Self::Over,
        }
    }
}

/// One pass. Between its slices it holds nothing of the store.
pub struct Pass {
    edges: Arc<dyn Keeping>,
    cut: Cut,
    stage: Stage,
    /// Where the stage goes on.
    from: Option<Vec<u8>>,
    needed: Needed,
    journals: Journals,
    /// Whose runs are counted, and how many were seen.
    trigger: Option<(TriggerId, usize)>,
    lots: Option<Vec<Lot>>,
    removed: Removed,
}

impl Pass {
    /// A pass that removes what these terms don't keep.
    pub fn new(edges: Arc<dyn Keeping>, terms: Terms, now: Timestamp) -> Self {
        let cut = Cut { now, tasks: now - terms.tasks, audit: now - terms.audit };
        let mut needed = Needed::default();
        needed.teams.insert(TeamKey::first(MAIN));
        Self {
            edges,
            cut,
            stage: Stage::OpenTasks,
            from: None,
            needed,
            journals: Journals::default(),
            trigger: None,
            lots: None,
            removed: Removed::default(),
        }
    }

    /// What it has found to remove so far.
    pub fn removed(&self) -> Removed {
        self.removed
    }

    /// Looks at as many records as there is time for.
    pub fn slice(
        &mut self,
        storage: &dyn Storage,
        enough: &mut Enough<'_>,
    ) -> Result<Slice, StorageError> {
        let mut slice = Slice::default();
        while self.stage != Stage::Over {
            if !self.step(storage, &mut slice, enough)? {
                return Ok(slice);
            }
            self.stage = self.stage.next();
            // Journals go by which tasks are there, so those that go must be gone.
            if self.stage == Stage::Journals {
                return Ok(slice);
            }
        }
        slice.last = true;
        Ok(slice)
    }

    /// Goes on with the present stage. Returns whether it is over.
    fn step(
        &mut self,
        storage: &dyn Storage,
        slice: &mut Slice,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        let Self { edges, cut, from, needed, removed, .. } = self;
        let cut = *cut;
        let walk = Walk { storage, from, slice, enough };
        match self.stage {
            Stage::OpenTasks => walk.rows(Range::all(), &mut |_, task: Task, _| {
                needed.line(task.lineage.as_ref());
                needed.busy.insert(LaneKey::new(&task.lane, task.generation));
                needed.tasks.insert(task.id);
            }),
            Stage::Approvals => walk.rows(Range::all(), &mut |_, PendingApproval(id), _| {
                if let Ok(Some(approval)) = get::<Approval>(storage, &id) {
                    needed.line(approval.lineage.as_ref());
                    needed.tasks.extend(approval.task);
                }
            }),
            Stage::Chains => {
                let start = edges.chains();
                walk.all((start.clone(), after_prefix(&start)), &mut |key, value, _| {
                    needed.tasks.extend(edges.told_by(key, value));
                })
            }
            Stage::Topics => walk.all(Range::<Topic>::all().bounds(), &mut |key, _, _| {
                needed.topics.extend(parse::<Topic>(key).map(|(_, topic)| topic));
            }),
            Stage::Teams => walk.rows(Range::all(), &mut |_, team: TeamRecord, _| {
                if team.state != TeamState::Removed {
                    needed.teams.insert(team.key());
                }
            }),
            Stage::Tasks => walk.rows(Range::all(), &mut |key, FinishedTask(task), slice| {
                if has_ended_before(&task, cut.tasks) && !needed.tasks.contains(&task.id) {
                    removed.tasks += 1;
                    forget_task(key, &task, cut, slice);
                }
            }),
            Stage::Journals => {
                let walked = self.journals.walk(storage, needed, cut, slice, enough)?;
                removed.journal += walked.removed;
                Ok(walked.over)
            }
            Stage::Runs => self.runs(storage, slice, enough),
            Stage::Inboxes => {
                walk.drop_rows(Range::all(), &mut removed.inbox, &|key, event: InboxEvent| {
                    let lane = parse::<InboxEvent>(key).map(|(lane, _)| lane);
                    event.at < cut.tasks && !lane.is_some_and(|lane| needed.busy.contains(&lane))
                })
            }
            Stage::Notices => {
                walk.drop_rows(Range::all(), &mut removed.inbox, &|_, notice: Notice| {
                    notice.read && notice.at < cut.tasks
                })
            }
            Stage::Audits => {
                let old = Range::<Audit>::all().until(&cut.audit).bounds();
                walk.drop_old(old, &mut removed.audit, &|_, _| true)
            }
            Stage::Decisions => {
                let old = Range::<AuditRow>::all().until(&cut.audit).bounds();
                walk.drop_old(old, &mut removed.audit, &|_, _| true)
            }
            Stage::Lots => {
                let lots = self.lots.get_or_insert_with(|| {
                    let mut lots = edges.lots(cut);
                    lots.reverse();
                    lots
                });
                let mut walk = walk;
                while let Some(lot) = lots.last() {
                    let range = (lot.start.clone(), lot.end.clone());
                    let over = walk.again().drop_old(range, &mut removed.edges, &*lot.is_old)?;
                    if !over {
                        return Ok(false);
                    }
                    lots.pop();
                }
                Ok(true)
            }
            Stage::Over => Ok(true),
        }
    }

    /// Runs of each trigger, newest first: so many stay, however old.
    fn runs(
        &mut self,
        storage: &dyn Storage,
        slice: &mut Slice,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        let range = match self.from.take() {
            Some(from) => Range::<Run>::all().before(&from),
            None => Range::all(),
        };
        let mut left = None;
        range.walk(storage, Order::Falling, &mut |key, run| {
            if let Ok(run) = run {
                let seen = match &mut self.trigger {
                    Some((trigger, seen)) if *trigger == run.trigger => seen,
                    counted => &mut counted.insert((run.trigger.clone(), 0)).1,
                };
                *seen += 1;
                let task = run.task_id.as_ref();
                let needed = task.is_some_and(|task| self.needed.tasks.contains(task));
                if *seen > runs::KEPT && run.fired_at < self.cut.tasks && !needed {
                    self.removed.runs += 1;
                    slice.drop_keys(runs::keys_of_run(key, &run));
                }
            }
            if slice.is_full() || enough() {
                left = Some(key.to_vec());
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        self.from = left;
        Ok(self.from.is_none())
    }
}

fn has_ended_before(task: &Task, cut: Timestamp) -> bool {
    let outcome = task.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.finished_at < cut)
}

/// A task goes with its place in the index. That it was let in is known for longer.
fn forget_task(key: &[u8], task: &Task, cut: Cut, slice: &mut Slice) {
    slice.drop_keys(vec![key.to_vec(), EndedTask::stored_key(task)]);
    if let Some(row) = AuditRow::of_task(task)
        && row.at >= cut.audit
    {
        slice.writes = std::mem::take(&mut slice.writes).put(&row);
    }
}

/// From a stored key up to another.
type Bounds = (Vec<u8>, Vec<u8>);

/// Goes on where the last slice ended, as far as this one gets.
struct Walk<'a, 'b> {
    storage: &'a dyn Storage,
    from: &'a mut Option<Vec<u8>>,
    slice: &'a mut Slice,
    enough: &'a mut Enough<'b>,
}

impl<'b> Walk<'_, 'b> {
    fn again(&mut self) -> Walk<'_, 'b> {
        Walk { storage: self.storage, from: self.from, slice: self.slice, enough: self.enough }
    }

    /// Shows the records of a range; a damaged one is left alone. Returns whether there are no more.
    fn all(self, (start, end): Bounds, visit: &mut Visit<'_>) -> Result<bool, StorageError> {
        let Self { storage, from, slice, enough } = self;
        let start = from.take().unwrap_or(start);
        storage.scan(&start, &end, Order::Rising, &mut |key, value| {
            match value {
                Ok(value) => visit(key, value, slice),
                Err(error) => report(storage, key, &error),
            }
            if slice.is_full() || enough() {
                // The first key behind this one.
                *from = Some([key, &[0]].concat());
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(from.is_none())
    }

    /// The same of rows.
    fn rows<R: Record + DeserializeOwned>(
        self,
        range: Range<R>,
        visit: &mut dyn FnMut(&[u8], R, &mut Slice),
    ) -> Result<bool, StorageError> {
        let storage = self.storage;
        self.all(range.bounds(), &mut |key, value, slice| match decode(key, value) {
            Ok(row) => visit(key, row, slice),
            Err(error) => report(storage, key, &error),
        })
    }

    /// Drops the rows of a range that are old, and counts them. Returns whether there are no more.
    fn drop_rows<R: Record + DeserializeOwned>(
        self,
        range: Range<R>,
        dropped: &mut u64,
        is_old: &dyn Fn(&[u8], R) -> bool,
    ) -> Result<bool, StorageError> {
        self.rows(range, &mut |key, row, slice| {
            if is_old(key, row) {
                *dropped += 1;
                slice.drop_keys(vec![key.to_vec()]);
            }
        })
    }

    /// The same of records as they are stored.
    fn drop_old(
        self,
        range: Bounds,
        dropped: &mut u64,
        is_old: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<bool, StorageError> {
        self.all(range, &mut |key, value, slice| {
            if is_old(key, value) {
                *dropped += 1;
                slice.drop_keys(vec![key.to_vec()]);
            }
        })
    }
}
