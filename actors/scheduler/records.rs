//! Records of triggers and runs: what is stored under which key, and how it is read back.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    firing::RATE_WINDOW,
    index::Heard,
    run::{Known, Run},
    trigger::Trigger,
};
use crate::{
    clock::Timestamp,
    ids::{RunId, TaskId, TeamKey, TriggerId},
    live::event::{Event, Kind},
    storage::{Storage, StorageError},
    store::{
        keys::{Beginning, key_of},
        reads::{Range, newest, scan},
        records::{Keyed, Record, Writes},
        redact::{Owner, Texts},
    },
    task::{Task, ended::find_readable},
};

pub const TEXTS: &[Texts] = &[
    Texts::of(
        Trigger::KIND,
        Owner::At("/team/name"),
        &[
            "task",
            "config/pattern",
            "config/filter",
            "cursors",
            "disabled_reason",
            "held",
            "quieted/*/text",
        ],
    ),
    Texts::of(Run::KIND, Owner::At("/team/name"), &["reason", "cursors"]),
    Texts::of(OpenRun::KIND, Owner::At("/team/name"), &["reason", "cursors"]),
    Texts::of(Payload::KIND, Owner::Main, &[""]),
    Texts::of(Heard::KIND, Owner::Main, &["content"]),
];

crate::records! {
    OpenRun<'_>: "edge\0run.open", TaskId;
    Payload: "edge\0run.payload", RunId;
    /// A message that triggers have yet to fire for.
    Heard: "edge\0heard", String, |row| row.name();
    Known: "edge\0run.key", String, |row| format!("{}/{}", row.trigger, row.key);
}

/// So many runs of a trigger are kept, however old.
pub(crate) const RUNS_KEPT: usize = 50;

/// A trigger's name among all.
pub fn name(trigger: &Trigger) -> String {
    name_of(&trigger.team, &trigger.id)
}

/// The same of the trigger of a team with this id.
pub(crate) fn name_of(team: &TeamKey, id: &TriggerId) -> String {
    format!("{team}/{id}")
}

impl Record for Trigger {
    const KIND: &'static str = "edge\0trigger";
    type Key = String;

    fn told(&self, _: &String) -> Option<Event> {
        Some(changed(self, json!(self.state)))
    }
}

impl Keyed for Trigger {
    fn key(&self) -> String {
        name(self)
    }
}

/// A trigger as it is now; `state` is `removed` if it is no more.
fn changed(trigger: &Trigger, state: Value) -> Event {
    let data = json!({ "id": trigger.id, "name": trigger.definition.name, "state": state });
    Event::new(Kind::TriggerChanged, data).of_team(&trigger.team.name)
}

/// A trigger is no more. Its runs stay.
pub fn removed(trigger: &Trigger) -> Writes {
    Writes::new().delete::<Trigger>(&name(trigger)).tell(changed(trigger, json!("removed")))
}

/// Rows of one trigger stand together, oldest first.
impl Record for Run {
    const KIND: &'static str = "edge\0run";
    type Key = String;

    fn told(&self, _: &String) -> Option<Event> {
        let data = json!({
            "id": self.id,
            "trigger_id": self.trigger,
            "decision": self.decision,
            "outcome": self.outcome,
        });
        let event = Event::new(Kind::TriggerRun, data).of_team(&self.team.name);
        Some(event.of_task(self.task_id.as_ref()))
    }
}

impl Keyed for Run {
    fn key(&self) -> String {
        let Self { team, trigger, fired_at, due_at, id, .. } = self;
        format!("{team}/{trigger}/{:020}/{:020}/{id}", fired_at.0, due_at.0)
    }
}

/// A run whose task has not been accounted for, by its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpenRun<'a>(pub Cow<'a, Run>);

/// What came with a run from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(pub String);

/// What a former process left to the scheduler.
#[derive(Debug, Default)]
pub struct Recovered {
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
}

/// Reads what the scheduler goes on with. A row that cannot be read is left out and stays as it is.
///
/// `tasks` are those without an outcome. A damaged one is among them: its run is open until the queue has ended it.
pub fn recover(storage: &dyn Storage, tasks: &[Box<Task>]) -> Result<Recovered, StorageError> {
    let triggers = scan::<Trigger>(storage, Range::all())?;
    let mut last = Vec::new();
    let mut recent = Vec::new();
    for trigger in &triggers {
        let newest = runs(storage, &trigger.team, &trigger.id, None, 1)?.pop();
        let Some(newest) = newest else { continue };
        recent.extend(since(storage, trigger, newest.fired_at - RATE_WINDOW)?);
        last.push(newest);
    }
    let mut open = Vec::new();
    for OpenRun(run) in scan(storage, Range::all())? {
        let task = match &run.task_id {
            Some(id) => match tasks.iter().find(|task| task.id == *id) {
                Some(task) => Some(Task::clone(task)),
                None => find_readable(storage, id)?,
            },
            None => None,
        };
        open.push((run.into_owned(), task));
    }
    Ok(Recovered {
        triggers,
        last,
        open,
        known: scan(storage, Range::all())?,
        heard: scan(storage, Range::all())?,
        recent,
    })
}

/// Runs of a trigger, of those before a moment if one is given. Their keys rise with time.
pub fn runs_of(team: &TeamKey, trigger: &TriggerId, before: Option<Timestamp>) -> Range<Run> {
    let of_trigger = format!("{team}/{trigger}/");
    let range = Range::under(&Beginning(&of_trigger));
    match before {
        Some(at) => range.until(&Beginning(&format!("{of_trigger}{:020}/", at.0))),
        None => range,
    }
}

/// Runs of a trigger, newest first, of those before a moment.
pub fn runs(
    storage: &dyn Storage,
    team: &TeamKey,
    trigger: &TriggerId,
    before: Option<Timestamp>,
    most: usize,
) -> Result<Vec<Run>, StorageError> {
    newest(storage, runs_of(team, trigger, before), most)
}

/// Runs of a trigger since a moment.
fn since(
    storage: &dyn Storage,
    trigger: &Trigger,
    from: Timestamp,
) -> Result<Vec<Run>, StorageError> {
    let Trigger { team, id, .. } = trigger;
    let from = format!("{team}/{id}/{:020}/", from.0);
    scan(storage, runs_of(team, id, None).since(&Beginning(&from)))
}

/// The stored keys of all that is kept of a run.
pub(crate) fn keys_of_run(key: &[u8], run: &Run) -> Vec<Vec<u8>> {
    let mut keys = vec![key.to_vec()];
    if run.payload_bytes.is_some() {
        keys.push(key_of(Payload::KIND, &run.id));
    }
    keys
}

/// Stored keys of all that is kept of the triggers of a team, runs excepted.
pub fn of_team(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    Range::<Trigger>::under(&Beginning(&format!("{team}/"))).keys(storage)
}
