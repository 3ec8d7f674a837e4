//! Records of tasks: the open ones, those that have ended, and the order in which they did.

use std::{borrow::Cow, collections::HashMap, ops::ControlFlow};

use serde::{Deserialize, Serialize};

use super::{
    Kind, Lane, Parked, Source, Task,
    outcome::{Code, Ending},
};
use crate::{
    clock::Timestamp,
    excerpt,
    ids::{LeaseId, MAIN, TaskId, TeamKey, TeamName, TopicId},
    live::event::{self, Data, Event, SAID, Said, TaskChange},
    search::{Entry, Part, Passage},
    storage::{Order, Storage, StorageError},
    store::{
        keys::{Key, KeyReader, KeyWriter, Life, Parts, key_of},
        reads::{Range, contains, get, parse, scan, scan_keyed},
        records::{Keyed, Record, Writes, decode},
        redact::{Owner, Texts},
    },
};

pub const TEXTS: &[Texts] = &[
    Texts::of(Task::KIND, Owner::At("/lane/team"), &["body", "files/*/name"])
        .named(&["source/topic/name"]),
    Texts::of(
        FinishedTask::KIND,
        Owner::At("/lane/team"),
        &["body", "outcome/text", "outcome/message", "outcome/report", "files/*/name"],
    )
    .named(&["source/topic/name"]),
    Texts::of(TeamError::KIND, Owner::Key, &["message"]),
];

crate::records! {
    /// Under the key stands whether it was a message, and after that what its calls came to: see `budget::records`.
    EndedTask: "end", (Timestamp, TeamName, TaskId);
    TeamError: "team_error", TeamKey;
    OpenWork: Task::KIND, TaskId;
}

/// So much of what was asked is shown with a task, in characters.
const MAX_ASKED_CHARACTERS: usize = 200;

/// A lane in one life of its team, as keys name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneKey {
    pub lane: Lane,
    pub generation: u32,
}

/// How keys name the lane of work that has no topic.
const NO_TOPIC: &str = "main";

impl LaneKey {
    pub fn new(lane: &Lane, generation: u32) -> Self {
        Self { lane: lane.clone(), generation }
    }

    /// The lane of a topic, which is one of the main team.
    pub fn of_topic(topic: &TopicId) -> Self {
        Self::of(TeamKey::first(MAIN), topic.as_str())
    }

    /// The lane of a team that keys name so.
    pub fn of(team: TeamKey, topic: &str) -> Self {
        let topic = (topic != NO_TOPIC).then(|| topic.into());
        Self { lane: Lane { team: team.name, topic }, generation: team.generation }
    }

    pub fn team(&self) -> TeamKey {
        TeamKey { name: self.lane.team.clone(), generation: self.generation }
    }

    pub fn session_id(&self) -> String {
        self.lane.session_id(self.generation)
    }

    /// Its topic's name in keys.
    pub fn topic(&self) -> &str {
        self.lane.topic.as_ref().map_or(NO_TOPIC, TopicId::as_str)
    }
}

impl Task {
    pub fn lane_key(&self) -> LaneKey {
        LaneKey::new(&self.lane, self.generation)
    }
}

impl Parts for LaneKey {
    fn write(&self, key: &mut KeyWriter) {
        Life(self.team()).write(key);
        key.text(self.topic());
    }
}

impl Key for LaneKey {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        let Life(team) = Key::read(key)?;
        Some(Self::of(team, key.text()?))
    }
}

/// As it is stored while it is open, with its present lease.
impl Record for Task {
    const KIND: &'static str = "task";
    type Key = TaskId;

    fn told(&self, _: &TaskId) -> Option<Event> {
        Some(changed(self))
    }

    fn along(&self, id: &TaskId, writes: Writes) -> Writes {
        writes.fence(id, self.lease.as_ref())
    }
}

impl Keyed for Task {
    fn key(&self) -> TaskId {
        self.id.clone()
    }
}

/// A task that has its outcome. Its lease ends with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FinishedTask<'a>(pub Cow<'a, Task>);

impl<'a> FinishedTask<'a> {
    pub fn of(task: &'a Task) -> Self {
        Self(Cow::Borrowed(task))
    }
}

impl Record for FinishedTask<'_> {
    const KIND: &'static str = "done";
    type Key = TaskId;

    fn told(&self, _: &TaskId) -> Option<Event> {
        Some(changed(&self.0))
    }

    fn along(&self, id: &TaskId, writes: Writes) -> Writes {
        let task = &*self.0;
        let writes = writes
            .delete::<Task>(id)
            .put_bytes::<EndedTask>(&EndedTask::key_of(task), EndedTask::mark(task.kind).to_vec())
            .fence(id, None);
        // What went wrong last in a team is to be seen at a glance.
        match TeamError::of(task) {
            Some(error) => writes.put_at(&task.team(), &error),
            None => writes,
        }
    }
}

impl Keyed for FinishedTask<'_> {
    fn key(&self) -> TaskId {
        self.0.id.clone()
    }
}

/// What a search finds a task by that has ended: what was asked, and what came of it.
pub fn index(key: &[u8], value: &[u8]) -> Option<Entry> {
    let task = decode::<FinishedTask<'_>>(key, value).ok()?.0.into_owned();
    let session = task.lane.session_id(task.generation);
    let mut passages = vec![Passage::new(Part::Asked, task.body)];
    passages.extend(task.files.into_iter().map(|file| Passage::new(Part::Asked, file.name)));
    if let Some(outcome) = task.outcome {
        let message = outcome.message.filter(|message| !outcome.text.contains(message.as_str()));
        passages.push(Passage::new(Part::Answered, outcome.text));
        passages.extend(message.map(|message| Passage::new(Part::Answered, message)));
    }
    let entry = Entry {
        team: task.lane.team,
        at: task.created_at,
        task: Some(task.id),
        session: Some(session),
        passages,
    };
    entry.bounded()
}

/// A task that ended, as the order of ends has it: what lists of finished work are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTask {
    pub at: Timestamp,
    pub team: TeamName,
    pub id: TaskId,
    pub is_chat: bool,
}

impl EndedTask {
    /// The key of a task that has ended.
    pub fn key_of(task: &Task) -> (Timestamp, TeamName, TaskId) {
        let at = task.outcome.as_ref().map(|outcome| outcome.finished_at);
        (at.unwrap_or_default(), task.lane.team.clone(), task.id.clone())
    }

    pub fn stored_key(task: &Task) -> Vec<u8> {
        key_of(Self::KIND, &Self::key_of(task))
    }

    /// What its value begins with: messages are many, and passed over without looking them up where other work is
    /// wanted.
    pub(crate) fn mark(kind: Kind) -> &'static [u8] {
        match kind {
            Kind::Chat => b"chat",
            _ => b"",
        }
    }

    /// What such a record says.
    pub(crate) fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let (at, team, id) = parse::<Self>(key)?;
        Some(Self { at, team, id, is_chat: value.starts_with(Self::mark(Kind::Chat)) })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamError {
    pub task_id: TaskId,
    pub code: Option<Code>,
    pub message: String,
    pub at: Timestamp,
}

impl TeamError {
    /// What is wrong with a task that nobody meant to end so.
    fn of(task: &Task) -> Option<Self> {
        let outcome = task.outcome.as_ref()?;
        match outcome.ending {
            Ending::Failed | Ending::Dead | Ending::Expired => Some(Self {
                task_id: task.id.clone(),
                code: outcome.code,
                message: outcome
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("the task is {}", outcome.ending.as_str())),
                at: outcome.finished_at,
            }),
            Ending::Done | Ending::Cancelled => None,
        }
    }
}

/// What went wrong last in each team that something went wrong in.
pub fn team_errors(storage: &dyn Storage) -> Result<HashMap<TeamKey, TeamError>, StorageError> {
    Ok(scan_keyed::<TeamError>(storage, Range::all())?.into_iter().collect())
}

/// A task without an outcome, as far as it is needed to count.
#[derive(Clone, Debug, Deserialize)]
pub struct OpenWork {
    pub id: TaskId,
    pub lane: Lane,
    #[serde(default)]
    pub kind: Kind,
    pub created_at: Timestamp,
    #[serde(default)]
    pub source: Option<Source>,
    #[serde(default)]
    pub lease: Option<LeaseId>,
    #[serde(default)]
    pub parked: Option<Parked>,
}

/// All tasks without an outcome, without their words.
pub fn open_work(storage: &dyn Storage) -> Result<Vec<OpenWork>, StorageError> {
    scan(storage, Range::all())
}

/// A task, open or finished.
pub fn find(storage: &dyn Storage, id: &TaskId) -> Result<Option<Task>, StorageError> {
    match get::<Task>(storage, id)? {
        Some(task) => Ok(Some(task)),
        None => Ok(get::<FinishedTask<'_>>(storage, id)?.map(|finished| finished.0.into_owned())),
    }
}

/// A task is there, open or finished.
pub fn exists(storage: &dyn Storage, id: &TaskId) -> Result<bool, StorageError> {
    Ok(contains::<Task>(storage, id)? || contains::<FinishedTask<'_>>(storage, id)?)
}

/// Tasks that ended since a moment, the newest first, as far as they are wanted: by what the order of
/// ends says before they are looked up, and as a whole after.
pub fn ended(
    storage: &dyn Storage,
    since: Timestamp,
    most: usize,
    of: impl FnMut(&EndedTask) -> bool,
    mut wanted: impl FnMut(&Task) -> bool,
) -> Result<Vec<Task>, StorageError> {
    let mut tasks = Vec::new();
    if most == 0 {
        return Ok(tasks);
    }
    each_ended(storage, since, of, &mut |_, task| {
        if wanted(&task) {
            tasks.push(task);
        }
        if tasks.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(tasks)
}

/// Shows tasks that ended since a moment, the newest first, each with when it ended, until the
/// visitor has enough. Those that are not wanted are not looked up.
pub fn each_ended(
    storage: &dyn Storage,
    since: Timestamp,
    mut of: impl FnMut(&EndedTask) -> bool,
    visit: &mut dyn FnMut(Timestamp, Task) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    let mut failed = None;
    let range = Range::<EndedTask>::all().since(&since);
    range.visit(storage, Order::Falling, &mut |key, value| {
        let found = EndedTask::read(key, value.unwrap_or_default());
        let Some(ended) = found.filter(&mut of) else { return ControlFlow::Continue(()) };
        match find(storage, &ended.id) {
            Ok(Some(task)) => visit(ended.at, task),
            // A damaged one is reported, and takes no other with it.
            Ok(None) | Err(StorageError::Damaged { .. }) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// A task as it is now.
fn changed(task: &Task) -> Event {
    let source = task.source.as_ref();
    Event {
        kind: event::Kind::TaskChanged,
        team: Some(task.lane.team.clone()),
        topic: source.and_then(|source| source.topic.as_ref()).map(|topic| topic.id.clone()),
        task: Some(task.id.clone()),
        data: Data::Task(Box::new(TaskChange {
            id: task.id.clone(),
            kind: task.kind,
            priority: task.priority,
            state: task.state(),
            wait_reason: task.parked.as_ref().map(|parked| parked.reason),
            body: excerpt::line(&task.body, MAX_ASKED_CHARACTERS),
            created_by: task.from.clone(),
            created_at: task.created_at,
            attempts: task.attempts,
            root: task.root().clone(),
            parent: task.lineage.as_ref().and_then(|line| line.parent()).cloned(),
            source_channel_id: source.map(|source| source.channel.clone()),
            code: task.outcome.as_ref().and_then(|outcome| outcome.code),
        })),
    }
}

/// A message of a person, which became this task.
pub fn heard(task: &Task) -> Option<Event> {
    let source = task.source.as_ref()?;
    let said = Said {
        direction: "inbound",
        channel_id: source.channel.clone(),
        message_id: source.message.clone(),
        from: task.from.clone(),
        kind: "message",
        text: excerpt::line(&task.body, SAID),
        length: task.body.len(),
    };
    Some(Event {
        kind: event::Kind::Message,
        team: Some(task.lane.team.clone()),
        topic: source.topic.as_ref().map(|topic| topic.id.clone()),
        task: Some(task.id.clone()),
        data: Data::Message(Box::new(said)),
    })
}
