//! Rows of triggers and runs: what is stored under which key, and how it is read back.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{firing::FIRES_WITHIN, heard::Heard, retention, run::Run, trigger::Trigger};
use crate::{
    clock::Timestamp,
    ids::{RunId, TaskId, TeamKey, TriggerId},
    live::facts,
    storage::{Order, Storage, StorageError},
    store::{
        damage::{one, row},
        reads,
        records::{EdgeKey, Writes, after_prefix},
    },
    task::Task,
};

const TRIGGER: &str = "trigger";
const RUN: &str = "run";
/// Runs whose task has not been accounted for.
const OPEN: &str = "run.open";
/// Reasons that a trigger has fired for.
const KEY: &str = "run.key";
/// What came with a run from outside.
const PAYLOAD: &str = "run.payload";
/// Messages that a trigger has yet to fire for.
const HEARD: &str = "heard";

/// So many runs of a trigger are kept, however old.
pub(super) const KEPT: usize = 50;

/// A trigger's name among all.
pub fn name(trigger: &Trigger) -> String {
    format!("{}/{}", trigger.team, trigger.id)
}

fn trigger_key(trigger: &Trigger) -> EdgeKey {
    EdgeKey::new(TRIGGER, name(trigger))
}

/// Rows of one trigger stand together, oldest first.
fn run_key(run: &Run) -> EdgeKey {
    let Run { team, trigger, fired_at, due_at, id, .. } = run;
    let order = format!("{:020}/{:020}", fired_at.0, due_at.0);
    EdgeKey::new(RUN, format!("{team}/{trigger}/{order}/{id}"))
}

fn prefix(kind: &'static str, name: &str) -> Vec<u8> {
    EdgeKey::new(kind, name).bytes()
}

/// A reason that a trigger has fired for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The trigger.
    pub trigger: TriggerId,
    /// The reason.
    pub key: String,
    /// The run.
    pub run: RunId,
    /// When.
    pub at: Timestamp,
}

fn known_key(known: &Known) -> EdgeKey {
    EdgeKey::new(KEY, format!("{}/{}", known.trigger, known.key))
}

/// Rows of triggers, added to a commit.
pub trait TriggerRows {
    /// A trigger as it is now.
    fn trigger(self, trigger: &Trigger) -> Self;
    /// A trigger is no more. Its runs stay.
    fn drop_trigger(self, trigger: &Trigger) -> Self;
    /// A run that has its end, or never gets one.
    fn run(self, run: &Run) -> Self;
    /// A run whose task has just been made.
    fn open_run(self, run: &Run, task: &TaskId) -> Self;
    /// A run whose task has been accounted for.
    fn ended_run(self, run: &Run, task: &TaskId) -> Self;
    /// A reason that is not to count again.
    fn known(self, known: &Known) -> Self;
    /// Reasons that are old enough to be forgotten.
    fn forget_known(self, known: &[Known]) -> Self;
    /// What came with a run from outside.
    fn payload(self, run: &RunId, payload: &str) -> Self;
    /// A message that triggers have yet to fire for.
    fn heard(self, heard: &Heard) -> Self;
    /// They have.
    fn answered(self, heard: &Heard) -> Self;
}

impl TriggerRows for Writes {
    fn trigger(self, trigger: &Trigger) -> Self {
        self.edge(&trigger_key(trigger), trigger)
            .tell(facts::trigger(trigger, json!(trigger.state)))
    }

    fn drop_trigger(self, trigger: &Trigger) -> Self {
        self.drop_edge(&trigger_key(trigger)).tell(facts::trigger(trigger, json!("removed")))
    }

    fn run(self, run: &Run) -> Self {
        self.edge(&run_key(run), run).tell(facts::run(run))
    }

    fn open_run(self, run: &Run, task: &TaskId) -> Self {
        self.run(run).edge(&EdgeKey::new(OPEN, task.as_str()), run)
    }

    fn ended_run(self, run: &Run, task: &TaskId) -> Self {
        self.run(run).drop_edge(&EdgeKey::new(OPEN, task.as_str()))
    }

    fn known(self, known: &Known) -> Self {
        self.edge(&known_key(known), known)
    }

    fn forget_known(self, known: &[Known]) -> Self {
        known.iter().fold(self, |writes, known| writes.drop_edge(&known_key(known)))
    }

    fn payload(self, run: &RunId, payload: &str) -> Self {
        self.edge(&EdgeKey::new(PAYLOAD, run.as_str()), &payload)
    }

    fn heard(self, heard: &Heard) -> Self {
        self.edge(&EdgeKey::new(HEARD, heard.name()), heard)
    }

    fn answered(self, heard: &Heard) -> Self {
        self.drop_edge(&EdgeKey::new(HEARD, heard.name()))
    }
}

/// What a former process left to the scheduler.
#[derive(Debug, Default)]
pub struct Recovered {
    /// All triggers.
    pub triggers: Vec<Trigger>,
    /// The newest run of each.
    pub last: Vec<Run>,
    /// Runs that have not been accounted for, with their task as it is now.
    pub open: Vec<(Run, Option<Task>)>,
    /// Reasons that still count.
    pub known: Vec<Known>,
    /// Messages that no trigger fired for yet.
    pub heard: Vec<Heard>,
    /// Runs of the last minute of each.
    pub recent: Vec<Run>,
    /// When old records were last removed.
    pub retained_at: Option<Timestamp>,
}

/// Reads what the scheduler goes on with. A row that cannot be read is left out and stays as it is.
pub fn recover(storage: &dyn Storage) -> Result<Recovered, StorageError> {
    let triggers: Vec<Trigger> = all(storage, &EdgeKey::prefix(TRIGGER))?;
    let mut last = Vec::new();
    let mut recent = Vec::new();
    for trigger in &triggers {
        let newest = runs(storage, &trigger.team, &trigger.id, None, 1)?.pop();
        let Some(newest) = newest else { continue };
        let minute_before = newest.fired_at - FIRES_WITHIN;
        recent.extend(since(storage, trigger, minute_before)?);
        last.push(newest);
    }
    let mut open = Vec::new();
    for run in all::<Run>(storage, &EdgeKey::prefix(OPEN))? {
        let task = match &run.task_id {
            Some(id) => reads::task(storage, id)?,
            None => None,
        };
        open.push((run, task));
    }
    Ok(Recovered {
        triggers,
        last,
        open,
        known: all(storage, &EdgeKey::prefix(KEY))?,
        heard: all(storage, &EdgeKey::prefix(HEARD))?,
        recent,
        retained_at: retention::last(storage)?.map(|done| done.at),
    })
}

fn all<T: DeserializeOwned>(storage: &dyn Storage, prefix: &[u8]) -> Result<Vec<T>, StorageError> {
    let mut rows = Vec::new();
    let end = after_prefix(prefix);
    storage.scan(prefix, &end, Order::Rising, &mut |key, value| {
        rows.extend(row::<T>(storage, key, value));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Shows all triggers that can be read, in no order.
pub fn each_trigger(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Trigger),
) -> Result<(), StorageError> {
    let start = EdgeKey::prefix(TRIGGER);
    let end = after_prefix(&start);
    storage.scan(&start, &end, Order::Rising, &mut |key, value| {
        if let Some(trigger) = row(storage, key, value) {
            visit(trigger);
        }
        ControlFlow::Continue(())
    })
}

/// A trigger by its name among all.
pub fn trigger(storage: &dyn Storage, name: &str) -> Result<Option<Trigger>, StorageError> {
    one(storage, &EdgeKey::new(TRIGGER, name).bytes())
}

/// The first key of a trigger's runs, and the one after the last. Their keys rise with time.
pub fn runs_range(
    team: &TeamKey,
    trigger: &TriggerId,
    before: Option<Timestamp>,
) -> (Vec<u8>, Vec<u8>) {
    let start = prefix(RUN, &format!("{team}/{trigger}/"));
    let end = match before {
        Some(at) => prefix(RUN, &format!("{team}/{trigger}/{:020}/", at.0)),
        None => after_prefix(&start),
    };
    (start, end)
}

/// Runs of a trigger, newest first, of those before a moment.
pub fn runs(
    storage: &dyn Storage,
    team: &TeamKey,
    trigger: &TriggerId,
    before: Option<Timestamp>,
    most: usize,
) -> Result<Vec<Run>, StorageError> {
    let (start, end) = runs_range(team, trigger, before);
    let mut rows = Vec::new();
    if most == 0 {
        return Ok(rows);
    }
    storage.scan(&start, &end, Order::Falling, &mut |key, value| {
        rows.extend(row::<Run>(storage, key, value));
        if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(rows)
}

/// Runs of a trigger since a moment.
fn since(
    storage: &dyn Storage,
    trigger: &Trigger,
    from: Timestamp,
) -> Result<Vec<Run>, StorageError> {
    let Trigger { team, id, .. } = trigger;
    let start = prefix(RUN, &format!("{team}/{id}/{:020}/", from.0));
    let end = after_prefix(&prefix(RUN, &format!("{team}/{id}/")));
    let mut rows = Vec::new();
    storage.scan(&start, &end, Order::Rising, &mut |key, value| {
        rows.extend(row::<Run>(storage, key, value));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// What came with a run from outside.
pub fn payload(storage: &dyn Storage, run: &RunId) -> Result<Option<String>, StorageError> {
    one(storage, &EdgeKey::new(PAYLOAD, run.as_str()).bytes())
}

/// What the keys of all runs begin with.
pub(super) fn runs_prefix() -> Vec<u8> {
    EdgeKey::prefix(RUN)
}

/// The keys of all that is kept of a run.
pub(super) fn keys_of_run(key: &[u8], run: &Run) -> Vec<Vec<u8>> {
    let mut keys = vec![key.to_vec()];
    if run.payload_bytes.is_some() {
        keys.push(EdgeKey::new(PAYLOAD, run.id.as_str()).bytes());
    }
    keys
}

/// Keys of all that is kept of the triggers of a team, runs excepted.
pub fn of_team(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    let start = prefix(TRIGGER, &format!("{team}/"));
    let mut keys = Vec::new();
    storage.scan(&start, &after_prefix(&start), Order::Rising, &mut |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}
