//! Records: what is stored, and how a commit is put together.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use super::damage::Quarantined;
use crate::{
    approvals::{
        question::{Question, QuestionStatus},
        record::{Approval, Status},
    },
    audit::Audit,
    briefing::Speaker,
    budget::{Caller, Cost, Day, Spent, SpentRow, Tally},
    clock::Timestamp,
    event::{Body, Frame, Notification},
    history::HistoryEvent,
    ids::{ChannelId, LeaseId, MessageId, TaskId, TeamKey, TeamName},
    inbox::InboxEvent,
    live::{event::Event, facts},
    notice::Notice,
    org::record::TeamRecord,
    router::topics::Topic,
    storage::{Batch, StorageError},
    task::{Label, Lane, Task, TopicRef},
};

mod keys;
mod rows;

pub use self::{keys::*, rows::*};

/// One change of a commit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Put { key: Vec<u8>, value: Vec<u8> },
    Delete { key: Vec<u8> },
    Frame { channel: ChannelId, frame: Arc<Frame>, value: Vec<u8> },
    Fence { task: TaskId, lease: Option<LeaseId> },
    ForgetChannel { channel: ChannelId },
    LookAgain { key: Vec<u8> },
}

/// A commit in the making.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writes {
    pub(super) guard: Option<(TaskId, LeaseId)>,
    pub(super) list: Vec<Write>,
    /// What is true once it is durable.
    pub(super) told: Vec<Event>,
    /// The first row that could not be put into a record: the commit is refused for it.
    pub(super) unwritable: Option<Unwritable>,
}

/// A row that does not serialise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {key} cannot be written: {reason}")]
pub struct Unwritable {
    /// Its key, made readable.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Writes {
    /// A commit with nothing in it yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.unwritable.is_none()
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
        self.unwritable = self.unwritable.or(other.unwritable);
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

    /// The conversation of a lane was summarised, in this event of its journal.
    pub fn summarised(self, lane: &Lane, generation: u32, seq: u64) -> Self {
        self.put(summary_key(lane, generation), &seq)
    }

    /// An open task, with its present lease.
    pub fn task(self, task: &Task) -> Self {
        let fence = Write::Fence { task: task.id.clone(), lease: task.lease.clone() };
        self.put(task_key(&task.id), task).with(fence).tell(facts::task(task))
    }

    /// A task that has its outcome. Its lease ends with it.
    pub fn finished(self, task: &Task) -> Self {
        self.with(Write::Delete { key: task_key(&task.id) })
            .put(finished_key(&task.id), task)
            .with(Write::Put { key: ended_key(task), value: ended_mark(task.kind).to_vec() })
            .blamed(task)
            .with(Write::Fence { task: task.id.clone(), lease: None })
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
        let told = facts::frame(channel, &frame);
        match encode(&frame) {
            Ok(value) => self.tell_all(told).with(Write::Frame {
                channel: channel.clone(),
                frame: Arc::new(frame),
                value,
            }),
            Err(error) => self.refused(&outbox_prefix(channel), &error),
        }
    }

    /// Events of a session, whose `seq` go on from one another.
    pub fn events(self, lane: &Lane, generation: u32, events: &[HistoryEvent]) -> Self {
        let Some(first) = events.first() else {
            return self;
        };
        let task = self.guard.as_ref().map(|(task, _)| task);
        let told = facts::journal(lane, generation, task, events);
        self.put(journal_key(lane, generation, first.seq), &events).tell_all(told)
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
        self.with(Write::Delete { key: undecided_key(channel, id) })
    }

    /// Removes a message that was refused after it was stored.
    pub fn forget_message(self, channel: &ChannelId, id: &MessageId) -> Self {
        self.with(Write::Delete { key: message_key(channel, id) })
    }

    /// A channel that has been used.
    pub fn channel(self, channel: &ChannelId, row: &ChannelRow) -> Self {
        self.put(channel_key(channel), row)
    }

    /// A topic.
    pub fn topic(self, channel: &ChannelId, topic: &Topic) -> Self {
        self.put(topic_key(channel, &topic.id), topic).tell(facts::topic(channel, topic))
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
        self.drop_keys(numbers.into_iter().map(|number| inbox_key(lane, generation, number)))
    }

    /// An event that was shown in part: the whole stays for whoever reads on.
    pub fn shown(self, lane: &Lane, generation: u32, event: &InboxEvent) -> Self {
        self.put(shown_key(lane, generation, &event.id), event)
    }

    /// How much one cause has led to.
    pub fn cause(self, root: &TaskId, row: &impl Serialize) -> Self {
        self.put(cause_key(root), row)
    }

    /// All that a cause led to has ended.
    pub fn forget_cause(self, root: &TaskId) -> Self {
        self.with(Write::Delete { key: cause_key(root) })
    }

    /// What a team itself has spent on a day.
    pub fn spent(self, day: Day, team: &TeamKey, spent: &SpentRow) -> Self {
        self.put(join(&["spend", &day.number.to_string(), &life(team)]), spent)
    }

    /// What the calls of one kind have come to on a day. `own` is what their team itself has spent.
    pub fn calls(self, day: Day, caller: &Caller, tally: &Tally, own: &Spent) -> Self {
        let Caller { team, profile, model } = caller;
        let day_number = day.number.to_string();
        let key = join(&["use", &day_number, team.as_str(), profile, model]);
        self.put(key, tally).tell(facts::spent(day, team, own))
    }

    /// What the calls for a task have come to, once it has ended: with the order of ends.
    pub fn ended_calls(self, task: &Task, tally: &Tally) -> Self {
        let (key, mut value) = (ended_key(task), ended_mark(task.kind).to_vec());
        match encode(tally) {
            Ok(tally) => {
                value.extend(tally);
                self.with(Write::Put { key, value })
            }
            Err(error) => self.refused(&key, &error),
        }
    }

    /// What the calls for a task that has not ended have come to, as of this day.
    pub fn task_calls(self, day: Day, task: &TaskId, tally: &Tally) -> Self {
        let key = join(&["use-task", &day.number.to_string(), task.as_str()]);
        self.put(key, tally)
    }

    /// How often the operator has allowed a team's caps again on a day.
    pub fn raised(self, day: Day, team: &TeamKey, times: u32) -> Self {
        self.put(join(&["raise", &day.number.to_string(), &life(team)]), &times)
    }

    /// The operator was told on a day that a team's budget is nearly spent.
    pub fn warned(self, day: Day, team: &TeamName) -> Self {
        self.put(join(&["warned", &day.number.to_string(), team.as_str()]), &true)
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
        self.put(notice_key(&notice.id), notice).tell(facts::notice(notice))
    }

    /// A copy of a damaged record.
    pub(crate) fn quarantined(self, record: &[u8], copy: &Quarantined) -> Self {
        self.put(quarantine_key(record), copy)
    }

    /// What an inbox shows in place of an event that is damaged.
    pub(crate) fn lost_event(self, key: &[u8], event: &InboxEvent) -> Self {
        self.put(key.to_vec(), event)
    }

    /// An approval. Those that wait are found without reading the others.
    pub fn approval(self, approval: &Approval) -> Self {
        let open = approval_mark(&approval.id);
        let writes = self.put(approval_key(&approval.id), approval).tell(facts::approval(approval));
        match approval.status {
            // A short id is given again once it is free: it names the newest.
            Status::Pending => {
                writes.put(open, &approval.id).put(short_id_key(&approval.short_id), &approval.id)
            }
            _ => writes.with(Write::Delete { key: open }),
        }
    }

    /// A question. Those that wait are found without reading the others.
    pub fn question(self, question: &Question) -> Self {
        let open = question_mark(&question.id);
        let writes = self.put(question_key(&question.id), question).tell(facts::question(question));
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
        self.put(team_key(&record.name, record.generation), record).tell(facts::team(record))
    }

    /// What went wrong last in a team that is gone is of no use to anyone.
    pub(crate) fn forget_error(self, team: &TeamKey) -> Self {
        self.with(Write::Delete { key: error_key(team) })
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

    /// A notification: its frame, and its row of the interaction log.
    pub fn told(
        self,
        channel: &ChannelId,
        topic: Option<TopicRef>,
        label: Label,
        now: Timestamp,
        told: Notification,
    ) -> Self {
        let speaker = Speaker::Team(told.team.to_string());
        let row = Interaction {
            channel: channel.clone(),
            channel_type: None,
            topic: topic.as_ref().map(|topic| topic.id.clone()),
            task: told.task_id.clone(),
            at: now,
            duration_ms: None,
            said: vec![Said::new(now, speaker, &told.content, label)],
            trust_decision: None,
        };
        // Not in the place of another row of this moment.
        let of = told.task_id.as_ref().map_or(told.team.as_str(), TaskId::as_str);
        let name = format!("{of}:{:?}", told.kind);
        let frame = Frame { topic, ts: now, body: Body::Notification(told) };
        self.unheard(&name, &row).frame(channel, frame)
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
        self.list.extend(
            ordinals.into_iter().map(|ordinal| Write::Delete { key: outbox_key(channel, ordinal) }),
        );
        self
    }

    /// Removes records by key, as a sweep found them.
    pub fn drop_keys(mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.list.extend(keys.into_iter().map(|key| Write::Delete { key }));
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
        self.with(Write::ForgetChannel { channel: channel.clone() })
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
        match encode(row) {
            Ok(value) => self.with(Write::Put { key, value }),
            Err(error) => self.refused(&key, &error),
        }
    }

    /// A commit that cannot be put together is not made.
    fn refused(mut self, key: &[u8], error: &serde_json::Error) -> Self {
        self.unwritable
            .get_or_insert_with(|| Unwritable { key: printable(key), reason: error.to_string() });
        self
    }

    fn with(mut self, write: Write) -> Self {
        self.list.push(write);
        self
    }

    /// The changes, for a storage that no store runs on. Frames are not among them: only a store
    /// numbers them.
    pub fn batch(self) -> Result<Batch, StorageError> {
        if let Some(unwritable) = self.unwritable {
            return Err(StorageError::Write(unwritable.to_string()));
        }
        let change = |write| match write {
            Write::Put { key, value } => Some((key, Some(value))),
            Write::Delete { key } => Some((key, None)),
            Write::Frame { .. }
            | Write::Fence { .. }
            | Write::ForgetChannel { .. }
            | Write::LookAgain { .. } => None,
        };
        Ok(Batch { changes: self.list.into_iter().filter_map(change).collect() })
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

/// Room for a row of usual length.
const ROW: usize = 1024;

/// A record as stored.
fn encode<T: Serialize>(row: &T) -> serde_json::Result<Vec<u8>> {
    // Most rows fit, so that they are written without being moved.
    let mut value = Vec::with_capacity(ROW);
    serde_json::to_writer(&mut value, row)?;
    Ok(value)
}

/// A record as read. Readers of a store use `damage::row` and `damage::one`, which report what cannot be read.
pub fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StorageError> {
    serde_json::from_slice(value)
        .map_err(|error| StorageError::Damaged { key: printable(key), reason: error.to_string() })
}
