//! Retention pass: what is still needed is gathered first, then the rest is removed.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    journals::Journals,
    runs::Runs,
    slice::{Enough, Needed, Slice, Sweep},
    tasks,
    terms::{Cut, Keeping, Lot, Terms},
    walk::Walk,
};
use crate::{
    approvals::{
        question::Question,
        record::Approval,
        records::{self as approvals, PendingApproval, Waits as _},
    },
    audit::Audit,
    budget::{
        SpentRow, Tally,
        records::{PurposeCalls, Raised, TaskCalls, Warned},
    },
    clock::Timestamp,
    conversation_log::ConversationEntry,
    ids::{MAIN, TeamKey},
    inbox::InboxEvent,
    notice::Notice,
    org::record::{TeamRecord, TeamState},
    router::{audit::AuditRow, topics::Topic},
    storage::{Storage, StorageError},
    store::{
        StoreError,
        keys::{Beginning, after_prefix, prefix_of},
        reads::{Range, get, parse, report},
        records::{Record, decode},
    },
    task::Task,
    words,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a pass, or an erasure, was broken off. What was removed so far stays removed, and the rest waits for the next time.
#[derive(Debug, thiserror::Error)]
pub enum BrokenOff {
    #[error("how long things are kept is not known: {0}")]
    Settings(String),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a transcript cannot be removed: {0}")]
    Transcript(String),
}

/// How many of each kind were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub tasks: u64,
    pub journal: u64,
    pub runs: u64,
    /// Events that no turn came to see, notices, and what teams told on their own.
    pub inbox: u64,
    /// Approvals and questions.
    #[serde(default)]
    pub asked: u64,
    pub audit: u64,
    /// What calls came to on a day.
    #[serde(default)]
    pub usage: u64,
    pub edges: u64,
}

words! {
    /// What is looked at, in order: first what tells which records are needed.
    enum Stage {
        OpenTasks = "open_tasks",
        OpenApprovals = "open_approvals",
        Chains = "chains",
        Topics = "topics",
        Teams = "teams",
        Tasks = "tasks",
        Journals = "journals",
        Runs = "runs",
        Approvals = "approvals",
        Questions = "questions",
        Told = "told",
        Lots = "lots",
    }
}

/// What counts the records of a lot that go.
type Counter = fn(&mut Removed) -> &mut u64;

/// One pass. Between its slices it holds nothing of the store.
pub struct Pass {
    edges: Arc<dyn Keeping>,
    cut: Cut,
    /// The place of the present stage.
    stage: usize,
    /// Where it goes on.
    from: Option<Vec<u8>>,
    /// It looks at all tasks and journals, and not only at those whose time has come.
    is_whole: bool,
    needed: Needed,
    journals: Journals,
    runs: Runs,
    /// Those that are left, the next one last.
    lots: Option<Vec<(Counter, Lot)>>,
    removed: Removed,
}

impl Pass {
    /// A pass that removes what these terms don't keep. It finds tasks and journals by when tasks have ended, so that what
    /// those cost depends on what it removes.
    pub fn new(edges: Arc<dyn Keeping>, terms: Terms, now: Timestamp) -> Self {
        let cut = Cut { now, tasks: now - terms.tasks, audit: now - terms.audit };
        let mut needed = Needed::default();
        needed.teams.insert(TeamKey::first(MAIN));
        Self {
            edges,
            cut,
            stage: 0,
            from: None,
            is_whole: false,
            needed,
            journals: Journals::default(),
            runs: Runs::default(),
            lots: None,
            removed: Removed::default(),
        }
    }

    /// The same over all tasks and journals: it finds also what one that was broken off has left, what has no task to go
    /// with, and what a former version has not put in order.
    pub fn whole(edges: Arc<dyn Keeping>, terms: Terms, now: Timestamp) -> Self {
        Self { is_whole: true, journals: Journals::all(), ..Self::new(edges, terms, now) }
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
        let Self { edges, cut, from, is_whole, needed, journals, removed, .. } = self;
        let cut = *cut;
        let mut walk = Walk { storage, from, slice, enough };
        match stage {
            Stage::OpenTasks => walk.rows(Range::all(), &mut |_, task: Task, _| {
                needed.line(task.lineage.as_ref());
                needed.busy.insert(task.lane_key());
                needed.tasks.insert(task.id);
            }),
            Stage::OpenApprovals => walk.rows(Range::all(), &mut |_, PendingApproval(id), _| {
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
                } else if !*is_whole {
                    journals.add_team(team.key());
                }
            }),
            Stage::Tasks if *is_whole => {
                tasks::all(&mut walk, cut, needed, &mut removed.tasks, journals)
            }
            Stage::Tasks => tasks::due(&mut walk, cut, needed, &mut removed.tasks, journals),
            Stage::Journals => {
                let removed = &mut removed.journal;
                journals.walk(Sweep { storage, needed, cut, slice, removed }, enough)
            }
            Stage::Runs => {
                let removed = &mut removed.runs;
                self.runs.walk(Sweep { storage, needed, cut, slice, removed }, enough)
            }
            Stage::Approvals => decided(&mut walk, cut, needed, &mut removed.asked),
            Stage::Questions => walk.rows(Range::all(), &mut |key, question: Question, slice| {
                if question.has_ended_before(cut.tasks) && !needed.tasks.contains(&question.task) {
                    removed.asked += 1;
                    slice.drop_keys([key.to_vec()]);
                }
            }),
            Stage::Told => told(&mut walk, cut, &mut removed.inbox),
            Stage::Lots => {
                let lots = self.lots.get_or_insert_with(|| lots(&**edges, needed, cut));
                aged(&mut walk, lots, removed)
            }
        }
    }
}

/// Goes through lots, the last one first, and takes away those that are over.
fn aged(
    walk: &mut Walk<'_, '_>,
    lots: &mut Vec<(Counter, Lot)>,
    removed: &mut Removed,
) -> Result<bool, StorageError> {
    let storage = walk.storage;
    while let Some((counter, lot)) = lots.last() {
        let is_old = &lot.is_old;
        let is_over =
            walk.all(lot.range.clone(), &mut |key, value, slice| match is_old(key, value) {
                Ok(true) => {
                    *counter(removed) += 1;
                    slice.drop_keys([key.to_vec()]);
                }
                Ok(false) => {}
                Err(error) => report(storage, key, &error),
            })?;
        if !is_over {
            return Ok(false);
        }
        lots.pop();
    }
    Ok(true)
}

/// Approvals that are over go, unless they are of work that is kept, or allowed it something.
fn decided(
    walk: &mut Walk<'_, '_>,
    cut: Cut,
    needed: &Needed,
    removed: &mut u64,
) -> Result<bool, StorageError> {
    let storage = walk.storage;
    walk.rows(Range::all(), &mut |_, approval: Approval, slice| {
        if !approval.has_ended_before(cut.tasks) {
            return;
        }
        let allowed = approval.budget_request().and_then(|request| request.task);
        let is_needed = approval.task.iter().chain(&allowed).any(|id| needed.tasks.contains(id));
        if !is_needed && let Ok(keys) = approvals::keys_of(storage, &approval) {
            *removed += 1;
            slice.drop_keys(keys);
        }
    })
}

/// What teams told on their own goes by its age. Messages go with their tasks.
fn told(walk: &mut Walk<'_, '_>, cut: Cut, removed: &mut u64) -> Result<bool, StorageError> {
    let storage = walk.storage;
    walk.skipping(Range::<ConversationEntry>::all().bounds(), &mut |key, value, slice| {
        let (place, at, _) = parse::<ConversationEntry>(key)?;
        if at >= cut.tasks {
            // The rest of a place is younger.
            return Some(after_prefix(&prefix_of(ConversationEntry::KIND, &(&place,))));
        }
        match decode(key, value) {
            Ok(ConversationEntry::Notification(_)) => {
                *removed += 1;
                slice.drop_keys([key.to_vec()]);
            }
            Ok(ConversationEntry::Message) => {}
            Err(error) => report(storage, key, &error),
        }
        None
    })
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
    // What nobody read stays as long as it is told who did what, and as what was read.
    let notices = Lot::old(move |_, notice: &Notice| {
        notice.at < if notice.read { cut.tasks } else { cut.tasks.min(cut.audit) }
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
        (inbox, notices),
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
