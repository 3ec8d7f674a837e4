//! Records: what is stored under which key, and how a commit is put together.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    approvals::{
        question::{Question, QuestionStatus},
        record::{Approval, Status},
    },
    audit::Audit,
    briefing::{Line, Speaker},
    budget::{Caller, Cost, Day, Spent, SpentRow, Tally},
    channel_type::ChannelType,
    clock::Timestamp,
    event::Frame,
    history::HistoryEvent,
    identities::Owner,
    ids::{
        ApprovalId, ChannelId, GrantId, LeaseId, MessageId, NoticeId, PrincipalId, QuestionId,
        TaskId, TeamKey, TeamName, TopicId, TurnId,
    },
    inbox::InboxEvent,
    live::{event::Event, facts},
    notice::Notice,
    org::record::TeamRecord,
    router::{
        audit::{Admission, is_websocket},
        topics::Topic,
        trust::Decision,
    },
    storage::{Batch, StorageError},
    task::{Cause, Code, Ending, Kind, Label, Lane, Task},
};

/// The version of all records below. A change of their form raises it and adds a migration.
pub const SCHEMA_VERSION: u16 = 1;

/// One change of a commit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Delete {
        key: Vec<u8>,
    },
    Frame {
        channel: ChannelId,
        frame: Arc<Frame>,
        value: Vec<u8>,
    },
    Fence {
        task: TaskId,
        lease: Option<LeaseId>,
    },
    ForgetChannel {
        channel: ChannelId,
    },
    LookAgain {
        key: Vec<u8>,
    },
}

/// A commit in the making.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writes {
    pub(super) guard: Option<(TaskId, LeaseId)>,
    pub(super) list: Vec<Write>,
    /// What is true once it is durable.
    pub(super) told: Vec<Event>,
}

impl Writes {
    /// A commit with nothing in it yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The commit is made only while this lease is good.
    pub fn under_lease(mut self, task: &TaskId, lease: &LeaseId) -> Self {
        self.guard = Some((task.clone(), lease.clone()));
        self
    }

    /// Adds all changes of another commit.
    pub fn and(mut self, other: Self) -> Self {
        debug_assert!(other.guard.is_none());
        self.list.extend(other.list);
        self.told.extend(other.told);
        self
    }

    /// Whoever watches is told this once the commit is durable.
    pub fn tell(mut self, event: Event) -> Self {
        self.told.push(event);
        self
    }

    fn tell_all(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.told.extend(events);
        self
    }

    /// The conversation of a lane begins anew.
    pub fn began(self, lane: &Lane, generation: u32, at: Timestamp) -> Self {
        self.put(began_key(lane, generation), &at)
    }

    /// An open task, with its present lease.
    pub fn task(self, task: &Task) -> Self {
        let fence = Write::Fence {
            task: task.id.clone(),
            lease: task.lease.clone(),
        };
        self.put(task_key(&task.id), task)
            .with(fence)
            .tell(facts::task(task))
    }

    /// A task that has its outcome. Its lease ends with it.
    pub fn finished(self, task: &Task) -> Self {
        self.with(Write::Delete {
            key: task_key(&task.id),
        })
        .put(finished_key(&task.id), task)
        .with(Write::Put {
            key: ended_key(task),
            value: ended_mark(task.kind).to_vec(),
        })
        .blamed(task)
        .with(Write::Fence {
            task: task.id.clone(),
            lease: None,
        })
        .tell(facts::task(task))
    }

    /// What went wrong last in a team is to be seen at a glance.
    fn blamed(self, task: &Task) -> Self {
        match TeamError::of(task) {
            Some(error) => self.put(error_key(&task.team()), &error),
            None => self,
        }
    }

    /// A frame for a channel's outbox. The store numbers it.
    pub fn frame(self, channel: &ChannelId, frame: Frame) -> Self {
        let value = encode(&frame);
        let told = facts::frame(channel, &frame);
        self.tell_all(told).with(Write::Frame {
            channel: channel.clone(),
            frame: Arc::new(frame),
            value,
        })
    }

    /// Events of a session, whose `seq` go on from one another.
    pub fn events(self, lane: &Lane, generation: u32, events: &[HistoryEvent]) -> Self {
        let Some(first) = events.first() else {
            return self;
        };
        let task = self.guard.as_ref().map(|(task, _)| task);
        let told = facts::journal(lane, generation, task, events);
        self.put(journal_key(lane, generation, first.seq), &events)
            .tell_all(told)
    }

    /// A known message and what became of it.
    pub fn message(self, channel: &ChannelId, id: &MessageId, row: &MessageRow) -> Self {
        self.put(message_key(channel, id), row)
    }

    /// A message whose topic is still being found out.
    pub fn undecided(self, row: &Undecided) -> Self {
        self.put(undecided_key(&row.channel, &row.id), row)
    }

    /// The topic has been found out.
    pub fn decided(self, channel: &ChannelId, id: &MessageId) -> Self {
        self.with(Write::Delete {
            key: undecided_key(channel, id),
        })
    }

    /// Removes a message that was refused after it was stored.
    pub fn forget_message(self, channel: &ChannelId, id: &MessageId) -> Self {
        self.with(Write::Delete {
            key: message_key(channel, id),
        })
    }

    /// A channel that has been used.
    pub fn channel(self, channel: &ChannelId, row: &ChannelRow) -> Self {
        self.put(channel_key(channel), row)
    }

    /// A topic.
    pub fn topic(self, channel: &ChannelId, topic: &Topic) -> Self {
        self.put(topic_key(channel, &topic.id), topic)
            .tell(facts::topic(channel, topic))
    }

    /// Something for a lane's next turn.
    pub fn inbox(self, lane: &Lane, generation: u32, number: u64, event: &InboxEvent) -> Self {
        self.put(inbox_key(lane, generation, number), event)
    }

    /// What has been shown to a turn.
    pub fn seen(
        self,
        lane: &Lane,
        generation: u32,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Self {
        self.drop_keys(
            numbers
                .into_iter()
                .map(|number| inbox_key(lane, generation, number)),
        )
    }

    /// How much one cause has led to.
    pub fn cause(self, root: &TaskId, row: &impl Serialize) -> Self {
        self.put(cause_key(root), row)
    }

    /// All that a cause led to has ended.
    pub fn forget_cause(self, root: &TaskId) -> Self {
        self.with(Write::Delete {
            key: cause_key(root),
        })
    }

    /// What a team itself has spent on a day.
    pub fn spent(self, day: Day, team: &TeamKey, spent: &SpentRow) -> Self {
        self.put(
            join(&["spend", &day.number.to_string(), &life(team)]),
            spent,
        )
    }

    /// What the calls of one kind have come to on a day. `own` is what their team itself has spent.
    pub fn calls(self, day: Day, caller: &Caller, tally: &Tally, own: &Spent) -> Self {
        let Caller {
            team,
            profile,
            model,
        } = caller;
        let day_number = day.number.to_string();
        let key = join(&["use", &day_number, team.as_str(), profile, model]);
        self.put(key, tally).tell(facts::spent(day, team, own))
    }

    /// What the calls for a task have come to, once it has ended: with the order of ends.
    pub fn ended_calls(self, task: &Task, tally: &Tally) -> Self {
        let mut value = ended_mark(task.kind).to_vec();
        value.extend(encode(tally));
        self.with(Write::Put {
            key: ended_key(task),
            value,
        })
    }

    /// What the calls for a task that has not ended have come to, as of this day.
    pub fn task_calls(self, day: Day, task: &TaskId, tally: &Tally) -> Self {
        let key = join(&["use-task", &day.number.to_string(), task.as_str()]);
        self.put(key, tally)
    }

    /// How often the operator has allowed a team's caps again on a day.
    pub fn raised(self, day: Day, team: &TeamKey, times: u32) -> Self {
        self.put(
            join(&["raise", &day.number.to_string(), &life(team)]),
            &times,
        )
    }

    /// The operator was told on a day that a team's budget is nearly spent.
    pub fn warned(self, day: Day, team: &TeamName) -> Self {
        self.put(
            join(&["warned", &day.number.to_string(), team.as_str()]),
            &true,
        )
    }

    /// What a task itself has cost, kept until all that its first task led to has ended.
    pub fn cost(self, cost: &Cost) -> Self {
        match (cost.tasks.first(), cost.tasks.last()) {
            (Some(root), Some(task)) => self.put(cost_key(root, task), cost),
            _ => self,
        }
    }

    /// What tasks of one first task have cost counts no more.
    pub fn forget_costs<'a>(
        self,
        root: &TaskId,
        tasks: impl IntoIterator<Item = &'a TaskId>,
    ) -> Self {
        let keys = tasks.into_iter().map(|task| cost_key(root, task));
        self.drop_keys(keys)
    }

    /// Something for the operator's inbox.
    pub fn notice(self, notice: &Notice) -> Self {
        self.put(notice_key(&notice.id), notice)
            .tell(facts::notice(notice))
    }

    /// An approval. Those that wait are found without reading the others.
    pub fn approval(self, approval: &Approval) -> Self {
        let open = approval_mark(&approval.id);
        let writes = self
            .put(approval_key(&approval.id), approval)
            .tell(facts::approval(approval));
        match approval.status {
            // A short id is given again once it is free: it names the newest.
            Status::Pending => writes
                .put(open, &approval.id)
                .put(short_id_key(&approval.short_id), &approval.id),
            _ => writes.with(Write::Delete { key: open }),
        }
    }

    /// A question. Those that wait are found without reading the others.
    pub fn question(self, question: &Question) -> Self {
        let open = question_mark(&question.id);
        let writes = self
            .put(question_key(&question.id), question)
            .tell(facts::question(question));
        match question.status {
            QuestionStatus::Open => writes.put(open, &question.id),
            _ => writes.with(Write::Delete { key: open }),
        }
    }

    /// A line of the audit.
    pub fn audit(self, audit: &Audit) -> Self {
        self.put(audit_key(audit), audit)
    }

    /// A team, in this life of it.
    pub fn team(self, record: &TeamRecord) -> Self {
        self.put(team_key(&record.name, record.generation), record)
            .tell(facts::team(record))
    }

    /// The answer to a tool call, for when the same call is made again.
    pub fn answer(self, call: &str, answer: &impl Serialize) -> Self {
        self.put(answer_key(call), answer)
    }

    /// A row of the interaction log.
    pub fn interaction(self, row: &Interaction) -> Self {
        let name = row.task.as_ref().map_or("", |task| task.as_str());
        self.put(interaction_key(row, name), row)
    }

    /// A row of the interaction log about words that became no work, under a name of its own.
    pub fn unheard(self, name: &str, row: &Interaction) -> Self {
        self.put(interaction_key(row, name), row)
    }

    /// Removes frames of an outbox.
    pub fn drop_frames(
        mut self,
        channel: &ChannelId,
        ordinals: impl IntoIterator<Item = u64>,
    ) -> Self {
        self.list
            .extend(ordinals.into_iter().map(|ordinal| Write::Delete {
                key: outbox_key(channel, ordinal),
            }));
        self
    }

    /// Removes records by key, as a sweep found them.
    pub fn drop_keys(mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.list
            .extend(keys.into_iter().map(|key| Write::Delete { key }));
        self
    }

    /// Records that may hold what has become a secret since.
    pub(super) fn look_again(mut self, keys: &[Vec<u8>]) -> Self {
        let again = keys.iter().cloned();
        self.list.extend(again.map(|key| Write::LookAgain { key }));
        self
    }

    /// The channel is gone for good, with all keys that a sweep found.
    pub fn forget_channel(self, channel: &ChannelId) -> Self {
        self.with(Write::ForgetChannel {
            channel: channel.clone(),
        })
    }

    /// Any other record of the edges, under a key of theirs.
    pub fn edge<T: Serialize>(self, key: &EdgeKey, row: &T) -> Self {
        self.put(key.bytes(), row)
    }

    /// Removes a record of the edges.
    pub fn drop_edge(self, key: &EdgeKey) -> Self {
        self.with(Write::Delete { key: key.bytes() })
    }

    pub(super) fn put<T: Serialize>(self, key: Vec<u8>, row: &T) -> Self {
        let value = encode(row);
        self.with(Write::Put { key, value })
    }

    fn with(mut self, write: Write) -> Self {
        self.list.push(write);
        self
    }

    /// The changes, for a storage that no store runs on. Frames are not among them: only a store
    /// numbers them.
    pub fn batch(self) -> Batch {
        let change = |write| match write {
            Write::Put { key, value } => Some((key, Some(value))),
            Write::Delete { key } => Some((key, None)),
            Write::Frame { .. }
            | Write::Fence { .. }
            | Write::ForgetChannel { .. }
            | Write::LookAgain { .. } => None,
        };
        Batch {
            changes: self.list.into_iter().filter_map(change).collect(),
        }
    }

    /// Roughly the bytes that this will write.
    pub(super) fn size(&self) -> usize {
        self.list
            .iter()
            .map(|write| match write {
                Write::Put { key, value } => key.len() + value.len(),
                Write::Frame { value, .. } => value.len() + 64,
                Write::Delete { key } | Write::LookAgain { key } => key.len(),
                Write::Fence { .. } | Write::ForgetChannel { .. } => 0,
            })
            .sum()
    }
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRow {
    /// Tells a repeat from another message under the same id.
    pub digest: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// The work it became, once its topic was known.
    pub task: Option<TaskId>,
}

/// An accepted message whose topic is not yet known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// Where it came in.
    pub channel: ChannelId,
    /// Its id there.
    pub id: MessageId,
    /// Who wrote it.
    pub sender: String,
    /// What.
    pub content: String,
    /// The topic that its sender chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The ack frame has been stored.
    pub acked: bool,
    /// Its sender named it, and may send it again.
    pub named: bool,
    /// How it got past the trust gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// How far it may be believed.
    #[serde(default)]
    pub label: Label,
    /// Who is behind it, if that is not simply its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Another channel that hears of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<ChannelId>,
}

/// What went wrong last in a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamError {
    /// The task that ended so.
    pub task_id: TaskId,
    /// For programs.
    pub code: Option<Code>,
    /// For people.
    pub message: String,
    /// When.
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

/// A channel that has been used, and who may use it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRow {
    /// Who opened it.
    pub principal: PrincipalId,
    /// What they were let in by. Rows of former versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// When it was last connected, as far as that is known.
    pub last_seen: Timestamp,
    /// By which door they came in.
    #[serde(default, skip_serializing_if = "is_websocket")]
    pub channel_type: ChannelType,
}

impl ChannelRow {
    /// A channel that somebody opens now.
    pub fn new(owner: Owner, now: Timestamp, channel_type: ChannelType) -> Self {
        Self {
            principal: owner.principal,
            grant: Some(owner.grant),
            last_seen: now,
            channel_type,
        }
    }

    /// They may use it again. A row that knows a name only is theirs if the name was when the channel
    /// was last seen.
    pub fn belongs_to(&self, owner: &Owner) -> bool {
        match &self.grant {
            Some(grant) => *grant == owner.grant,
            None => self.principal == owner.principal && owner.since <= self.last_seen,
        }
    }
}

/// A row of the interaction log: a message and its answer, or what a team said on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    /// The channel.
    pub channel: ChannelId,
    /// In which topic.
    pub topic: Option<TopicId>,
    /// The work it belongs to, if it became any.
    pub task: Option<TaskId>,
    /// When it was over.
    pub at: Timestamp,
    /// What was said, in order.
    pub said: Vec<Said>,
    /// What the trust gate decided, if it kept the words out: no model sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_decision: Option<Decision>,
}

/// One thing said in a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who said what when; cut to [`SNIPPET`].
    pub line: Line,
    /// How long the whole text was, in bytes.
    pub length: u64,
}

impl Said {
    /// A text as the log keeps it.
    pub fn new(at: Timestamp, speaker: Speaker, text: &str, label: Label) -> Self {
        Self {
            line: Line {
                at,
                speaker,
                text: snippet(text),
                label,
            },
            length: text.len() as u64,
        }
    }
}

/// The interaction log keeps this many characters of a text.
pub const SNIPPET: usize = 2_000;

/// The first [`SNIPPET`] characters of a text.
pub fn snippet(text: &str) -> String {
    match text.char_indices().nth(SNIPPET) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

/// Tells texts apart (FNV-1a): the same on every machine and in every version.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A key of the edges: a kind and a name, apart from all keys of the spine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeKey {
    kind: &'static str,
    name: String,
}

impl EdgeKey {
    /// The record `name` among those of a kind.
    pub fn new(kind: &'static str, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// As it is stored.
    pub fn bytes(&self) -> Vec<u8> {
        join(&["edge", self.kind, &self.name])
    }

    /// What the keys of all records of a kind begin with.
    pub fn prefix(kind: &str) -> Vec<u8> {
        prefix(&["edge", kind])
    }
}

/// Parts separated by a byte that is in none of them: whatever an id holds, it never reaches into
/// the keys of another.
pub(super) fn join(parts: &[&str]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len() + 1).sum();
    let mut key = Vec::with_capacity(length);
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            key.push(0);
        }
        extend(&mut key, part);
    }
    key
}

/// Adds a part to a key.
fn extend(key: &mut Vec<u8>, part: &str) {
    match part.contains('\0') {
        false => key.extend_from_slice(part.as_bytes()),
        true => key.extend(part.replace('\0', "\u{fffd}").bytes()),
    }
}

pub(super) fn prefix(parts: &[&str]) -> Vec<u8> {
    let mut key = join(parts);
    key.push(0);
    key
}

/// The first key after all that begin with a prefix.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// What the keys of all errors of teams begin with.
pub(super) const ERRORS: [&str; 1] = ["team_error"];

fn error_key(team: &TeamKey) -> Vec<u8> {
    join(&[ERRORS[0], &team.to_string()])
}

/// When the conversation of a lane was begun anew.
pub(super) fn began_key(lane: &Lane, generation: u32) -> Vec<u8> {
    join(&["began", &lane.session_id(generation)])
}

pub(super) fn task_key(id: &TaskId) -> Vec<u8> {
    join(&["task", id.as_str()])
}

pub(crate) fn task_prefix() -> Vec<u8> {
    prefix(&["task"])
}

pub(super) fn finished_key(id: &TaskId) -> Vec<u8> {
    join(&["done", id.as_str()])
}

pub(crate) fn finished_prefix() -> Vec<u8> {
    prefix(&["done"])
}

/// The order in which tasks ended, with their teams: what lists of finished work are made from.
pub(crate) fn ended_key(task: &Task) -> Vec<u8> {
    let at = task.outcome.as_ref().map(|outcome| outcome.finished_at);
    let mut key = ended_since(at.unwrap_or_default());
    key.extend(join(&[task.lane.team.as_str(), task.id.as_str()]));
    key
}

pub(super) fn ended_prefix() -> Vec<u8> {
    prefix(&["end"])
}

/// The first key of tasks that ended then or later.
pub(super) fn ended_since(at: Timestamp) -> Vec<u8> {
    let mut key = ended_prefix();
    key.extend(at.0.to_be_bytes());
    key
}

/// What stands under such a key: messages are many, and passed over without looking them up where
/// other work is wanted.
fn ended_mark(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Chat => b"chat",
        _ => b"",
    }
}

/// A task that ended, as the order of ends has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTask {
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub team: TeamName,
    /// Which.
    pub id: TaskId,
    /// It was a message of a person.
    pub is_chat: bool,
}

/// What such a record says.
pub(super) fn ended_task(key: &[u8], value: &[u8]) -> Option<EndedTask> {
    let (at, rest) = key.get(ended_prefix().len()..)?.split_first_chunk()?;
    let (team, task) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    Some(EndedTask {
        at: Timestamp(u64::from_be_bytes(*at)),
        team: team.into(),
        id: task.into(),
        is_chat: value.starts_with(ended_mark(Kind::Chat)),
    })
}

/// What the calls for such a task came to. Records of former versions don't say.
pub(super) fn ended_tally(value: &[u8]) -> Option<Tally> {
    let mark = ended_mark(Kind::Chat);
    let tally = value.strip_prefix(mark).unwrap_or(value);
    serde_json::from_slice(tally).ok()
}

pub(super) fn message_key(channel: &ChannelId, id: &MessageId) -> Vec<u8> {
    join(&["msg", channel.as_str(), id.as_str()])
}

pub(super) fn message_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["msg", channel.as_str()])
}

pub(super) fn undecided_key(channel: &ChannelId, id: &MessageId) -> Vec<u8> {
    join(&["und", channel.as_str(), id.as_str()])
}

pub(super) fn undecided_prefix() -> Vec<u8> {
    prefix(&["und"])
}

pub(super) fn channel_key(channel: &ChannelId) -> Vec<u8> {
    join(&["chan", channel.as_str()])
}

pub(super) fn channels_prefix() -> Vec<u8> {
    prefix(&["chan"])
}

pub(super) fn topic_key(channel: &ChannelId, id: &TopicId) -> Vec<u8> {
    join(&["topic", channel.as_str(), id.as_str()])
}

pub(crate) fn topics_prefix() -> Vec<u8> {
    prefix(&["topic"])
}

pub(super) fn topic_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["topic", channel.as_str()])
}

pub(super) fn outbox_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["out", channel.as_str()])
}

pub(super) fn outbox_key(channel: &ChannelId, ordinal: u64) -> Vec<u8> {
    let mut key = outbox_prefix(channel);
    key.extend(ordinal.to_be_bytes());
    key
}

pub(super) fn notice_key(id: &NoticeId) -> Vec<u8> {
    join(&["notice", id.as_str()])
}

pub(crate) fn notices_prefix() -> Vec<u8> {
    prefix(&["notice"])
}

pub(crate) fn approval_key(id: &ApprovalId) -> Vec<u8> {
    join(&["apr", id.as_str()])
}

pub(super) fn approvals_prefix() -> Vec<u8> {
    prefix(&["apr"])
}

fn approval_mark(id: &ApprovalId) -> Vec<u8> {
    join(&["apr-open", id.as_str()])
}

pub(super) fn short_id_key(short_id: &str) -> Vec<u8> {
    join(&["apr-short", short_id])
}

pub(crate) fn approval_marks() -> Vec<u8> {
    prefix(&["apr-open"])
}

pub(super) fn question_key(id: &QuestionId) -> Vec<u8> {
    join(&["qst", id.as_str()])
}

pub(super) fn questions_prefix() -> Vec<u8> {
    prefix(&["qst"])
}

fn question_mark(id: &QuestionId) -> Vec<u8> {
    join(&["qst-open", id.as_str()])
}

pub(super) fn question_marks() -> Vec<u8> {
    prefix(&["qst-open"])
}

/// In the order of time.
fn audit_key(audit: &Audit) -> Vec<u8> {
    let mut key = audits_prefix();
    key.extend(audit.at.0.to_be_bytes());
    key.extend(audit.id.bytes());
    key
}

pub(crate) fn audits_prefix() -> Vec<u8> {
    prefix(&["audit"])
}

fn team_key(name: &TeamName, generation: u32) -> Vec<u8> {
    join(&["team", name.as_str(), &format!("{generation:08x}")])
}

pub(crate) fn teams_prefix() -> Vec<u8> {
    prefix(&["team"])
}

pub(super) fn answer_key(call: &str) -> Vec<u8> {
    join(&["call", call])
}

/// What the keys of the answers to a turn's calls begin with.
pub(crate) fn answers_prefix(turn: &TurnId) -> Vec<u8> {
    answer_key(&format!("{turn}:"))
}

pub(super) fn interactions_prefix() -> Vec<u8> {
    prefix(&["log"])
}

pub(super) fn interaction_prefix(channel: &ChannelId) -> Vec<u8> {
    prefix(&["log", channel.as_str()])
}

fn interaction_key(row: &Interaction, name: &str) -> Vec<u8> {
    let mut key = interaction_prefix(&row.channel);
    key.extend(row.at.0.to_be_bytes());
    key.extend(name.bytes());
    key
}

pub(crate) fn journals_prefix() -> Vec<u8> {
    prefix(&["hist"])
}

pub(super) fn journal_prefix(lane: &Lane, generation: u32) -> Vec<u8> {
    lane_prefix("hist", lane, generation)
}

pub(super) fn journal_key(lane: &Lane, generation: u32, seq: u64) -> Vec<u8> {
    let mut key = journal_prefix(lane, generation);
    key.extend(seq.to_be_bytes());
    key
}

pub(crate) fn inbox_prefix(lane: &Lane, generation: u32) -> Vec<u8> {
    lane_prefix("inbox", lane, generation)
}

pub(super) fn inboxes_of(team: &TeamKey) -> Vec<u8> {
    let mut key = inboxes_prefix();
    key.extend(lane_team(team));
    key.push(0);
    key
}

pub(crate) fn inboxes_prefix() -> Vec<u8> {
    prefix(&["inbox"])
}

fn inbox_key(lane: &Lane, generation: u32, number: u64) -> Vec<u8> {
    let mut key = inbox_prefix(lane, generation);
    key.extend(number.to_be_bytes());
    key
}

pub(super) fn day_prefix(kind: &str, day: Day) -> Vec<u8> {
    prefix(&[kind, &day.number.to_string()])
}

pub(super) fn cause_key(root: &TaskId) -> Vec<u8> {
    join(&["cause", root.as_str()])
}

fn cost_key(root: &TaskId, task: &TaskId) -> Vec<u8> {
    join(&["cost", root.as_str(), task.as_str()])
}

pub(super) fn costs_prefix() -> Vec<u8> {
    prefix(&["cost"])
}

pub(super) fn causes_prefix() -> Vec<u8> {
    prefix(&["cause"])
}

/// How keys name the lane of work that has no topic.
pub(crate) const NO_TOPIC: &str = "main";

/// A team with its life, as keys name it. The first life has none.
fn life(team: &TeamKey) -> String {
    match team.generation {
        1 => team.name.to_string(),
        later => format!("{}~{later}", team.name),
    }
}

/// The team that [`life`] names.
pub(super) fn team_of(life: &str) -> TeamKey {
    let parts = life.rsplit_once('~');
    match parts.and_then(|(name, later)| Some((name, later.parse().ok()?))) {
        Some((name, generation)) => TeamKey {
            name: name.into(),
            generation,
        },
        None => TeamKey::first(life),
    }
}

/// What the keys of a lane's rows begin with.
fn lane_prefix(kind: &str, lane: &Lane, generation: u32) -> Vec<u8> {
    let mut key = prefix(&[kind]);
    key.extend(lane_name(lane, generation));
    key.push(0);
    key
}

/// How keys name a lane.
pub(crate) fn lane_name(lane: &Lane, generation: u32) -> Vec<u8> {
    let mut name = lane_team(&TeamKey {
        name: lane.team.clone(),
        generation,
    });
    name.push(0);
    let topic = lane.topic.as_ref().map_or(NO_TOPIC, TopicId::as_str);
    extend(&mut name, topic);
    name
}

/// How the keys of lanes name their team. The first team of a name has no generation in it.
pub(crate) fn lane_team(team: &TeamKey) -> Vec<u8> {
    match team.generation {
        1 => team.name.as_str().as_bytes().to_vec(),
        later => format!("{}~{later}", team.name).into_bytes(),
    }
}

/// The number at the end of an outbox or journal key.
pub(super) fn number_at_end(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Room for a row of usual length.
const ROW: usize = 1024;

/// A record as stored. The types above have no map keys or values that JSON cannot hold.
fn encode<T: Serialize>(row: &T) -> Vec<u8> {
    // Most rows fit, so that they are written without being moved.
    let mut value = Vec::with_capacity(ROW);
    match serde_json::to_writer(&mut value, row) {
        Ok(()) => value,
        Err(_) => Vec::new(),
    }
}

/// A record as read.
pub fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StorageError> {
    serde_json::from_slice(value).map_err(|error| StorageError::Damaged {
        key: printable(key),
        reason: error.to_string(),
    })
}

/// A key for people.
pub fn printable(key: &[u8]) -> String {
    key.iter()
        .map(|byte| match byte {
            0 => '/',
            b'!'..=b'~' => char::from(*byte),
            _ => '.',
        })
        .collect()
}
