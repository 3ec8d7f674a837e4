//! One pass over all records: what is still needed is gathered first, then the rest is removed.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    journals::{Journals, Sweep},
    slice::{Enough, Needed, Slice},
    terms::{Bounds, Cut, Keeping, Lot, Terms},
};
use crate::{
    approvals::{record::Approval, records::PendingApproval},
    audit::Audit,
    budget::{
        SpentRow, Tally,
        records::{PurposeCalls, Raised, TaskCalls, Warned},
    },
    clock::Timestamp,
    conversation_log::ConversationEntry,
    ids::{MAIN, TeamKey, TriggerId},
    inbox::InboxEvent,
    notice::Notice,
    org::record::{TeamRecord, TeamState},
    router::{audit::AuditRow, topics::Topic},
    scheduler::{records as runs, run::Run, trigger::Trigger},
    storage::{Order, Storage, StorageError},
    store::{
        keys::{Beginning, after_prefix},
        reads::{Range, contains, get, parse, report},
        records::{Record, decode},
    },
    task::{
        Task,
        records::{EndedTask, FinishedTask, LaneKey},
    },
    words,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How many of each kind were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub tasks: u64,
    pub journal: u64,
    pub runs: u64,
    /// Events that no turn came to see, and notices that were read.
    pub inbox: u64,
    pub audit: u64,
    /// What calls came to on a day.
    #[serde(default)]
    pub usage: u64,
    pub edges: u64,
}

/// Looks at a record, by its key and its value.
type Visit<'a> = dyn FnMut(&[u8], &[u8], &mut Slice) + 'a;

words! {
    /// What is looked at, in order: first what tells which records are needed.
    enum Stage {
        OpenTasks = "open_tasks",
        Approvals = "approvals",
        Chains = "chains",
        Topics = "topics",
        Teams = "teams",
        Tasks = "tasks",
        Journals = "journals",
        Runs = "runs",
        Lots = "lots",
    }
}

/// What counts the records of a lot that go.
type Counter = fn(&mut Removed) -> &mut u64;

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
        let kept = if lives { runs::KEPT } else { 0 };
        Ok(Self { trigger: run.trigger.clone(), seen: 0, kept })
    }
}

/// One pass. Between its slices it holds nothing of the store.
pub struct Pass {
    edges: Arc<dyn Keeping>,
    cut: Cut,
    /// The place of the present stage.
    stage: usize,
    /// Where it goes on.
    from: Option<Vec<u8>>,
    needed: Needed,
    journals: Journals,
    /// Whose runs are counted.
    trigger: Option<Counted>,
    /// Those that are left, the next one last.
    lots: Option<Vec<(Counter, Lot)>>,
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
            stage: 0,
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
        while let Some(stage) = Stage::ALL.get(self.stage) {
            if !self.step(*stage, storage, &mut slice, enough)? {
                return Ok(slice);
            }
            self.stage += 1;
            // Journals go by which tasks are there, so those that go must be gone.
            if *stage == Stage::Tasks {
                return Ok(slice);
            }
        }
        slice.last = true;
        Ok(slice)
    }

    /// Goes on with a stage. Returns whether it is over.
    fn step(
        &mut self,
        stage: Stage,
        storage: &dyn Storage,
        slice: &mut Slice,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        let Self { edges, cut, from, needed, removed, .. } = self;
        let cut = *cut;
        let mut walk = Walk { storage, from, slice, enough };
        match stage {
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
                } else {
                    log_message(storage, needed, &task, slice);
                }
            }),
            Stage::Journals => {
                let removed = &mut removed.journal;
                self.journals.walk(Sweep { storage, needed, cut, slice, removed }, enough)
            }
            Stage::Runs => self.runs(storage, slice, enough),
            Stage::Lots => {
                let lots = self.lots.get_or_insert_with(|| lots(&**edges, needed, cut));
                while let Some((counter, lot)) = lots.last() {
                    let over = walk.all(lot.range.clone(), &mut |key, value, slice| match (lot
                        .is_old)(
                        key, value,
                    ) {
                        Ok(true) => {
                            *counter(removed) += 1;
                            slice.drop_keys(vec![key.to_vec()]);
                        }
                        Ok(false) => {}
                        Err(error) => report(storage, key, &error),
                    })?;
                    if !over {
                        return Ok(false);
                    }
                    lots.pop();
                }
                Ok(true)
            }
        }
    }

    /// Runs of each trigger, newest first: so many stay, however old, while it is there.
    fn runs(
        &mut self,
        storage: &dyn Storage,
        slice: &mut Slice,
        enough: &mut Enough<'_>,
    ) -> Result<bool, StorageError> {
        let from = self.from.take();
        let range = from.map_or_else(Range::<Run>::all, |from| Range::all().before(&from));
        let (mut left, mut failed) = (None, None);
        range.walk(storage, Order::Falling, &mut |key, run| {
            if let Ok(run) = run {
                let counted = match self.trigger.take() {
                    Some(counted) if counted.trigger == run.trigger => Ok(counted),
                    _ => Counted::new(storage, &run),
                };
                match counted {
                    Ok(counted) => self.weigh_run(counted, key, &run, slice),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
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
        failed.map_or(Ok(self.from.is_none()), Err)
    }

    /// Takes the next older run of a trigger in: it goes, or it stays.
    fn weigh_run(&mut self, mut counted: Counted, key: &[u8], run: &Run, slice: &mut Slice) {
        counted.seen += 1;
        let needed = run.task_id.as_ref().is_some_and(|task| self.needed.tasks.contains(task));
        if counted.seen > counted.kept && run.fired_at < self.cut.tasks && !needed {
            self.removed.runs += 1;
            slice.drop_keys(runs::keys_of_run(key, run));
        }
        self.trigger = Some(counted);
    }
}

/// Records that go by their age, the first one last.
fn lots(edges: &dyn Keeping, needed: &Needed, cut: Cut) -> Vec<(Counter, Lot)> {
    let (inbox, audit): (Counter, Counter) = (|all| &mut all.inbox, |all| &mut all.audit);
    let (usage, of_edges): (Counter, Counter) = (|all| &mut all.usage, |all| &mut all.edges);
    let busy = needed.busy.clone();
    let unseen = Lot::old(move |key, event: &InboxEvent| {
        let lane = parse::<InboxEvent>(key).map(|(lane, _)| lane);
        event.at < cut.tasks && !lane.is_some_and(|lane| busy.contains(&lane))
    });
    let read = Lot::old(move |_, notice: &Notice| notice.read && notice.at < cut.tasks);
    // Messages go with their tasks.
    let told = Lot::old(move |key, entry: &ConversationEntry| {
        let at = parse::<ConversationEntry>(key).map(|(_, at, _)| at);
        matches!(entry, ConversationEntry::Notification(_)) && at.is_some_and(|at| at < cut.tasks)
    });
    let (of_tasks, of_audits) = (day_of(cut.tasks), day_of(cut.audit));
    let tallies = Lot::all(Range::<TaskCalls>::all().until(&Beginning(&of_tasks)));
    // These count on their day alone …
    let spent = Lot::all(Range::<SpentRow>::all().until(&Beginning(&of_tasks)));
    let raised = Lot::all(Range::<Raised>::all().until(&Beginning(&of_tasks)));
    let warned = Lot::all(Range::<Warned>::all().until(&Beginning(&of_tasks)));
    // … and these tell what was used, for as long as it is told who did what.
    let calls = Lot::all(Range::<Tally>::all().until(&Beginning(&of_audits)));
    let purposes = Lot::all(Range::<PurposeCalls>::all().until(&Beginning(&of_audits)));
    let audits = Lot::all(Range::<Audit>::all().until(&cut.audit));
    let decisions = Lot::all(Range::<AuditRow>::all().until(&cut.audit));
    let mut lots = vec![
        (inbox, unseen),
        (inbox, read),
        (inbox, told),
        (usage, tallies),
        (usage, spent),
        (usage, raised),
        (usage, warned),
        (usage, calls),
        (usage, purposes),
        (audit, audits),
        (audit, decisions),
    ];
    lots.extend(edges.lots(cut).into_iter().map(|lot| (of_edges, lot)));
    lots.reverse();
    lots
}

/// The first day that is not over at a moment in any zone, as keys have it: that of a zone may begin a day before that
/// of UTC.
fn day_of(cut: Timestamp) -> String {
    let mut day = (cut - DAY).date().replace('-', "");
    day.truncate("20260131".len());
    day
}

fn has_ended_before(task: &Task, cut: Timestamp) -> bool {
    let outcome = task.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.finished_at < cut)
}

/// A task goes with its place in the index. That it was let in is known for longer.
fn forget_task(key: &[u8], task: &Task, cut: Cut, slice: &mut Slice) {
    let keys = [key.to_vec(), EndedTask::stored_key(task)].into_iter();
    slice.drop_keys(keys.chain(ConversationEntry::stored_key(task)).collect());
    if let Some(row) = AuditRow::of_task(task)
        && row.at >= cut.audit
    {
        slice.writes = std::mem::take(&mut slice.writes).put(&row);
    }
}

/// A message of a former version, which kept no log of conversations, gets its entry while its topic is there.
fn log_message(storage: &dyn Storage, needed: &Needed, task: &Task, slice: &mut Slice) {
    if let Some(key) = ConversationEntry::key_of(task)
        && needed.topics.contains(key.0.as_str())
        && let Ok(false) = contains::<ConversationEntry>(storage, &key)
    {
        slice.put_at(&key, &ConversationEntry::Message);
    }
}

/// Goes on where the last slice ended, as far as this one gets.
struct Walk<'a, 'b> {
    storage: &'a dyn Storage,
    from: &'a mut Option<Vec<u8>>,
    slice: &'a mut Slice,
    enough: &'a mut Enough<'b>,
}

impl Walk<'_, '_> {
    /// Shows the records of a range; a damaged one is left alone. Returns whether there are no more.
    fn all(&mut self, (start, end): Bounds, visit: &mut Visit<'_>) -> Result<bool, StorageError> {
        let Self { storage, from, slice, enough } = self;
        let start = from.take().unwrap_or(start);
        storage.scan(&start, &end, Order::Rising, &mut |key, value| {
            match value {
                Ok(value) => visit(key, value, slice),
                Err(error) => report(*storage, key, &error),
            }
            if slice.is_full() || enough() {
                // The first key behind this one.
                **from = Some([key, &[0]].concat());
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(from.is_none())
    }

    /// The same of rows.
    fn rows<R: Record + DeserializeOwned>(
        &mut self,
        range: Range<R>,
        visit: &mut dyn FnMut(&[u8], R, &mut Slice),
    ) -> Result<bool, StorageError> {
        let storage = self.storage;
        self.all(range.bounds(), &mut |key, value, slice| match decode(key, value) {
            Ok(row) => visit(key, row, slice),
            Err(error) => report(storage, key, &error),
        })
    }
}
