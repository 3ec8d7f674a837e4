//! Erasure of deleted topics: what was said in one is removed.
//!
//! That it is deleted is durable before anything of it goes, so that a crash in between is no loss: what is found again is
//! removed again. What other promises rest on stays without its words: which message became which task, what that cost, who
//! decided on what. What other teams did for it is theirs, and stays.

use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

use super::{pass::BrokenOff, terms::Keeping};
use crate::{
    approvals::{question::Question, record::Approval, records as approvals},
    audit::{self, Audit},
    channel::records::{self as outboxes, OutboxRow},
    conversation_log::ConversationEntry,
    ids::{TaskId, TopicId},
    interactions::Interaction,
    journal::stored::StoredSession,
    quarantine,
    router::deleting::DeletedTopic,
    storage::{Order, Storage, StorageError},
    store::{
        StoreHandle,
        keys::key_of,
        reads::{Range, get_readable, scan_keyed},
        records::{Record, Writes},
        redact::{Owner, Texts},
    },
    task::{
        ended,
        query::{TaskQuery, TaskWindow},
        records::{self as tasks, FinishedTask, LaneKey},
    },
};

/// A commit changes so many records.
const MAX_COMMIT: usize = 200;
/// So many tasks are looked up at once.
const TASKS_AT_ONCE: usize = 1_000;

/// A task of another team keeps its words, but not what the topic was called.
const GIVEN: &[Texts] =
    &[Texts::of(FinishedTask::KIND, Owner::At("/lane/team"), &[]).named(&["source/topic/name"])];

/// What becomes of a record.
#[derive(Clone, Debug)]
enum Change {
    Drop(Vec<u8>),
    /// It stays without its words.
    Empty(Vec<u8>, &'static [Texts]),
}

/// Removes all that is left of topics that were deleted. One of which something stays keeps no other, and is found again
/// the next time.
pub(super) async fn erase_all(
    store: StoreHandle,
    edges: Arc<dyn Keeping>,
) -> Result<(), BrokenOff> {
    let deleted = store.read(|storage| scan_keyed::<DeletedTopic>(storage, Range::all())).await?;
    let mut left = Ok(());
    for (topic, deleted) in deleted {
        match erase(&store, edges.clone(), topic.clone(), deleted).await {
            Ok(records) => {
                tracing::info!(%topic, records, "what was said in a deleted topic is removed");
            }
            Err(error) => {
                tracing::warn!(%topic, %error, "what was said in a deleted topic is not all removed; it is tried again");
                left = Err(error);
            }
        }
    }
    left
}

/// Removes all that is left of a topic, and last that it was deleted. Returns how many records were changed.
async fn erase(
    store: &StoreHandle,
    edges: Arc<dyn Keeping>,
    topic: TopicId,
    deleted: DeletedTopic,
) -> Result<usize, BrokenOff> {
    let of = topic.clone();
    let changes = store.read(move |storage| Left { storage, topic: &of }.of(&deleted)).await?;
    // Before their records go, by which they are found.
    forget_copies(store, &changes).await?;
    let mut failed = Ok(());
    for part in changes.chunks(MAX_COMMIT) {
        let writes = part.iter().cloned().fold(Writes::new(), |writes, change| match change {
            Change::Drop(key) => writes.drop_keys([key]),
            Change::Empty(key, texts) => writes.empty(key, texts),
        });
        // A record that cannot be read keeps none of the other parts.
        failed = store.commit(writes).await.map(drop).and(failed);
    }
    // The archive and its index follow.
    store.archived().await?;
    let lane = LaneKey::of_topic(&topic);
    let transcript = store.read(move |_| Ok(edges.remove_transcript(&lane))).await?;
    transcript.map_err(BrokenOff::Transcript)?;
    failed?;
    store.commit(Writes::new().delete::<DeletedTopic>(&topic)).await?;
    Ok(changes.len())
}

/// Removes what was put aside of records that were found damaged, by the reads of this erasure too, and the words that
/// notices show of them.
async fn forget_copies(store: &StoreHandle, changes: &[Change]) -> Result<(), BrokenOff> {
    let key = |change: &Change| match change {
        Change::Drop(key) | Change::Empty(key, _) => key.clone(),
    };
    let records: Vec<Vec<u8>> = changes.iter().map(key).collect();
    // What the store was given meanwhile is found when this is answered.
    store.commit(Writes::new()).await?;
    let forget = store.read(move |storage| quarantine::forgetting(storage, &records)).await?;
    store.commit(forget).await?;
    Ok(())
}

/// Finds what is left of a topic. Blocks.
struct Left<'a> {
    storage: &'a dyn Storage,
    topic: &'a TopicId,
}

impl Left<'_> {
    fn of(&self, deleted: &DeletedTopic) -> Result<Vec<Change>, StorageError> {
        let mut changes = Vec::new();
        let own = self.tasks(&mut changes)?;
        self.audit(deleted, &own, &mut changes)?;
        self.asked(&mut changes)?;
        self.told(deleted, &mut changes)?;
        let entries = Range::<ConversationEntry>::under(&(&self.topic.to_string(),));
        let session = StoredSession::read(self.storage, &LaneKey::of_topic(self.topic))?;
        let keys = [entries.keys(self.storage)?, session.keys].concat();
        changes.extend(keys.into_iter().map(Change::Drop));
        Ok(changes)
    }

    /// Tasks that came from it. Returns its own, without those that it gave to other teams.
    fn tasks(&self, changes: &mut Vec<Change>) -> Result<HashSet<TaskId>, StorageError> {
        let (mut own, mut after) = (HashSet::new(), None);
        let wanted = TaskQuery { topic: Some(self.topic.clone()), ..TaskQuery::default() };
        loop {
            let window = TaskWindow {
                order: Order::Rising,
                after,
                skip: 0,
                most: TASKS_AT_ONCE,
                counted: 0,
            };
            let found = ended::ended(self.storage, &wanted, &window, HashSet::new())?.places;
            after = found.last().cloned();
            for (_, id) in found {
                let task = get_readable::<FinishedTask<'_>>(self.storage, &id)?;
                let is_own = |FinishedTask(task): FinishedTask<'_>| {
                    task.lane.topic.as_ref() == Some(self.topic)
                };
                let is_own = task.is_some_and(is_own);
                let texts = if is_own { tasks::TEXTS } else { GIVEN };
                changes.push(Change::Empty(key_of(FinishedTask::KIND, &id), texts));
                if is_own {
                    own.insert(id);
                }
            }
            if after.is_none() {
                return Ok(own);
            }
        }
    }

    /// Lines of the audit that tell of its calls.
    fn audit(
        &self,
        deleted: &DeletedTopic,
        own: &HashSet<TaskId>,
        changes: &mut Vec<Change>,
    ) -> Result<(), StorageError> {
        let lines = Range::<Audit>::all().since(&deleted.created_at);
        lines.walk(self.storage, Order::Rising, &mut |key, line| {
            let call = line.ok().and_then(|line| line.call);
            if call.is_some_and(|call| own.contains(&call.task)) {
                changes.push(Change::Empty(key.to_vec(), audit::TEXTS));
            }
            ControlFlow::Continue(())
        })
    }

    /// What it asked people for.
    fn asked(&self, changes: &mut Vec<Change>) -> Result<(), StorageError> {
        let mut keys = Vec::new();
        approvals::each::<Approval>(self.storage, &mut |approval| {
            if approval.lane.is_some_and(|lane| lane.topic.as_ref() == Some(self.topic)) {
                keys.push(key_of(Approval::KIND, &approval.id));
            }
        })?;
        approvals::each::<Question>(self.storage, &mut |question| {
            if question.lane.topic.as_ref() == Some(self.topic) {
                keys.push(key_of(Question::KIND, &question.id));
            }
        })?;
        changes.extend(keys.into_iter().map(|key| Change::Empty(key, approvals::TEXTS)));
        Ok(())
    }

    /// What its channel was told. Frames keep their numbers.
    fn told(&self, deleted: &DeletedTopic, changes: &mut Vec<Change>) -> Result<(), StorageError> {
        let frames = Range::<OutboxRow>::under(&(&deleted.channel,));
        frames.walk(self.storage, Order::Rising, &mut |key, row| {
            if row.is_ok_and(|row| row.is_of(self.topic)) {
                changes.push(Change::Empty(key.to_vec(), outboxes::TEXTS));
            }
            ControlFlow::Continue(())
        })?;
        let rows = Range::<Interaction>::under(&(&deleted.channel,));
        rows.walk(self.storage, Order::Rising, &mut |key, row| {
            if row.is_ok_and(|row| row.topic.as_ref() == Some(self.topic)) {
                changes.push(Change::Drop(key.to_vec()));
            }
            ControlFlow::Continue(())
        })
    }
}
