//! One pass over all records: what is still needed is gathered first, then the rest is removed.

use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    journals::Journals,
    keeping::{Cut, Keeping, Lot, Terms},
};
use crate::{
    approvals::record::Approval,
    clock::Timestamp,
    ids::{ApprovalId, MAIN, TaskId, TriggerId},
    inbox::InboxEvent,
    notice::Notice,
    org::record::{TeamRecord, TeamState},
    router::audit::AuditRow,
    scheduler::{records as runs, run::Run},
    storage::{Order, Storage, StorageError},
    store::{
        damage::{one, report, row},
        records::{self, Writes, after_prefix},
        trust,
    },
    task::{Lineage, Task},
};

/// A commit removes so many records, or a few more that belong to the last.
const MOST: usize = 200;

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

/// What a slice found. Made durable at once, it leaves a store in which nothing is missing that
/// anything else in it needs.
#[derive(Debug, Default)]
pub struct Slice {
    /// What to remove.
    pub writes: Writes,
    /// The pass is over.
    pub last: bool,
    dropped: usize,
}

impl Slice {
    pub(super) fn drop_keys(&mut self, keys: Vec<Vec<u8>>) {
        self.dropped += keys.len();
        self.writes = std::mem::take(&mut self.writes).drop_keys(keys);
    }

    pub(super) fn is_full(&self) -> bool {
        self.dropped >= MOST
    }
}

/// Looks at a record, by its key and its value.
type Visit<'a> = dyn FnMut(&[u8], &[u8], &mut Slice) + 'a;

/// Says when a slice has taken long enough.
pub type Enough<'a> = dyn FnMut() -> bool + 'a;

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

/// What is still needed.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Tasks that open work, open approvals and memories tell of.
    pub(super) tasks: HashSet<TaskId>,
    /// Lanes with open work, by what their keys begin with behind the kind.
    pub(super) busy: HashSet<Vec<u8>>,
    /// Topics that somebody may go on with.
    pub(super) topics: HashSet<Vec<u8>>,
    /// Teams that are there, as lanes name them.
    pub(super) teams: HashSet<Vec<u8>>,
}

impl Needed {
    fn line(&mut self, lineage: Option<&Lineage>) {
        let Some(lineage) = lineage else { return };
        self.tasks.insert(lineage.root.clone());
        let above = lineage.path.iter().map(|above| above.task.clone());
        self.tasks.extend(above);
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
        needed.teams.insert(MAIN.as_bytes().to_vec());
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
            Stage::OpenTasks => walk.all(&whole(records::task_prefix()), &mut |key, value, _| {
                if let Some(task) = row::<Task>(storage, key, Ok(value)) {
                    needed.line(task.lineage.as_ref());
                    let lane = records::lane_name(&task.lane, task.generation);
                    needed.busy.insert(lane);
                    needed.tasks.insert(task.id);
                }
            }),
            Stage::Approvals => {
                let marks = whole(records::approval_marks());
                walk.all(&marks, &mut |key, value, _| {
                    let id = row::<ApprovalId>(storage, key, Ok(value));
                    let key = id.map(|id| records::approval_key(&id));
                    if let Some(Ok(Some(approval))) = key.map(|key| one::<Approval>(storage, &key))
                    {
                        needed.line(approval.lineage.as_ref());
                        needed.tasks.extend(approval.task);
                    }
                })
            }
            Stage::Chains => walk.all(&whole(edges.chains()), &mut |key, value, _| {
                needed.tasks.extend(edges.told_by(key, value));
            }),
            Stage::Topics => walk.all(&whole(records::topics_prefix()), &mut |key, _, _| {
                let id = key.rsplit(|byte| *byte == 0).next();
                needed.topics.extend(id.map(<[u8]>::to_vec));
            }),
            Stage::Teams => walk.all(&whole(records::teams_prefix()), &mut |key, value, _| {
                if let Some(team) = row::<TeamRecord>(storage, key, Ok(value))
                    && team.state != TeamState::Removed
                {
                    needed.teams.insert(records::lane_team(&team.key()));
                }
            }),
            Stage::Tasks => {
                let finished = whole(records::finished_prefix());
                walk.all(&finished, &mut |key, value, slice| {
                    if let Some(task) = row::<Task>(storage, key, Ok(value))
                        && has_ended_before(&task, cut.tasks)
                        && !needed.tasks.contains(&task.id)
                    {
                        removed.tasks += 1;
                        forget_task(key, &task, cut, slice);
                    }
                })
            }
            Stage::Journals => {
                let walked = self.journals.walk(storage, needed, cut, slice, enough)?;
                removed.journal += walked.removed;
                Ok(walked.over)
            }
            Stage::Runs => self.runs(storage, slice, enough),
            Stage::Inboxes => {
                let inboxes = whole(records::inboxes_prefix());
                let skipped = inboxes.0.len();
                walk.drop_old(&inboxes, &mut removed.inbox, &|key, value| {
                    let lane = key.get(skipped..key.len().saturating_sub(9));
                    let busy = lane.is_some_and(|lane| needed.busy.contains(lane));
                    !busy
                        && row::<InboxEvent>(storage, key, Ok(value))
                            .is_some_and(|row| row.at < cut.tasks)
                })
            }
            Stage::Notices => {
                let notices = whole(records::notices_prefix());
                walk.drop_old(&notices, &mut removed.inbox, &|key, value| {
                    row::<Notice>(storage, key, Ok(value))
                        .is_some_and(|row| row.read && row.at < cut.tasks)
                })
            }
            Stage::Audits | Stage::Decisions => {
                let start = match self.stage {
                    Stage::Audits => records::audits_prefix(),
                    _ => trust::audit_prefix(),
                };
                let mut end = start.clone();
                end.extend(cut.audit.0.to_be_bytes());
                walk.drop_old(&(start, end), &mut removed.audit, &|_, _| true)
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
                    let over = walk.again().drop_old(&range, &mut removed.edges, &*lot.is_old)?;
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
        let start = runs::runs_prefix();
        let end = self.from.take().unwrap_or_else(|| after_prefix(&start));
        let mut left = None;
        storage.scan(&start, &end, Order::Falling, &mut |key, value| {
            if let Some(run) = row::<Run>(storage, key, value) {
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
    slice.drop_keys(vec![key.to_vec(), records::ended_key(task)]);
    if let Some(row) = AuditRow::of_task(task)
        && row.at >= cut.audit
    {
        slice.writes = std::mem::take(&mut slice.writes).trust_decision(&row);
    }
}

/// From a key up to another.
type Range = (Vec<u8>, Vec<u8>);

/// All keys under a prefix.
fn whole(prefix: Vec<u8>) -> Range {
    let end = after_prefix(&prefix);
    (prefix, end)
}

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
    fn all(self, (start, end): &Range, visit: &mut Visit<'_>) -> Result<bool, StorageError> {
        let Self { storage, from, slice, enough } = self;
        let start = from.take().unwrap_or_else(|| start.clone());
        storage.scan(&start, end, Order::Rising, &mut |key, value| {
            match value {
                Ok(value) => visit(key, value, slice),
                Err(error) => report(storage, key, &error),
            }
            if slice.is_full() || enough() {
                *from = Some(behind(key));
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(from.is_none())
    }

    /// Drops the records of a range that are old, and counts them. Returns whether there are no more.
    fn drop_old(
        self,
        range: &Range,
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

/// The first key behind this one.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}
