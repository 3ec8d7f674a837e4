//! Expiry of topics: one in which nothing was said for as long as history is kept goes, though its channel lives on.

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
};

use actix::Context;

use super::{
    Router,
    records::{self as conversations, session_keys, topic_removed},
    topics::STORE_INTERVAL,
};
use crate::{
    approvals::{question::Question, record::Approval, records as approvals},
    clock::Timestamp,
    conversation_log::ConversationEntry,
    ids::{ChannelId, TopicId},
    scheduler::trigger::Trigger,
    storage::{Order, Storage, StorageError},
    store::reads::Range,
    task::records::open_work,
};

/// So many go with one sweep.
const MOST: usize = 200;

/// A topic of which nothing is kept any more.
pub(super) struct Expired {
    channel: ChannelId,
    topic: TopicId,
    /// The stored keys of its session.
    session: Vec<Vec<u8>>,
}

/// Topics that have expired: nothing was said in them since a moment, and what was is gone. Those that people pinned stay,
/// and those that others left, which begin with what was said in them. Blocks.
pub(super) fn expired(
    storage: &dyn Storage,
    before: Timestamp,
) -> Result<Vec<Expired>, StorageError> {
    let (mut idle, mut left) = (Vec::new(), HashSet::new());
    conversations::each_topic(storage, &mut |channel, topic| {
        left.extend(topic.branch.map(|branch| branch.topic_id));
        if !topic.pinned && topic.last_activity + STORE_INTERVAL < before {
            idle.push((channel, topic.id));
        }
    })?;
    let mut expired = Vec::new();
    if idle.is_empty() {
        return Ok(expired);
    }
    let awaited = awaited(storage)?;
    for (channel, topic) in idle {
        if expired.len() >= MOST {
            break;
        }
        if left.contains(&topic) || awaited.contains(&topic) || has_entries(storage, &topic)? {
            continue;
        }
        if let Some(session) = session_keys(storage, &topic)? {
            expired.push(Expired { channel, topic, session });
        }
    }
    Ok(expired)
}

/// Topics in which something is done, asked or going to be told.
fn awaited(storage: &dyn Storage) -> Result<HashSet<TopicId>, StorageError> {
    let mut awaited = HashSet::new();
    for task in open_work(storage)? {
        awaited.extend(task.lane.topic);
        awaited.extend(task.source.and_then(|source| source.topic).map(|topic| topic.id));
    }
    approvals::each_waiting(storage, &mut |approval: Approval| {
        awaited.extend(approval.lane.and_then(|lane| lane.topic));
    })?;
    approvals::each_waiting(storage, &mut |question: Question| {
        awaited.extend(question.lane.topic);
    })?;
    Range::<Trigger>::all().for_each(storage, &mut |trigger| {
        awaited.extend(trigger.definition.notify_topic.map(|topic| topic.id));
    })?;
    Ok(awaited)
}

/// Something of what was said in a topic is kept.
fn has_entries(storage: &dyn Storage, topic: &TopicId) -> Result<bool, StorageError> {
    let mut found = false;
    let entries = Range::<ConversationEntry>::under(&(&topic.to_string(),));
    entries.visit(storage, Order::Rising, &mut |_, _| {
        found = true;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

impl Router {
    /// Forgets topics that have expired, unless somebody has taken them up meanwhile.
    pub(super) fn expire(
        &mut self,
        expired: Vec<Expired>,
        before: Timestamp,
        ctx: &mut Context<Self>,
    ) {
        let mut gone: BTreeMap<ChannelId, Vec<TopicId>> = BTreeMap::new();
        for Expired { channel, topic, session } in expired {
            if let Some(conversation) = self.conversations.get_mut(&channel) {
                let known = conversation.topics.get(topic.as_str());
                let is_idle =
                    known.is_none_or(|topic| !topic.pinned && topic.last_activity < before);
                if !is_idle
                    || conversation.has_open_work(&topic)
                    || !conversation.deciding.is_empty()
                {
                    continue;
                }
                conversation.forget_topic(&topic);
            }
            let writes = topic_removed(&channel, &topic).drop_keys(session);
            self.commit_for(&channel, writes, ctx);
            gone.entry(channel).or_default().push(topic);
        }
        for (channel, topics) in gone {
            self.list_topics_without(&channel, topics);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        doubles::disk::Disk,
        frame::BranchPoint,
        journal::records::Began,
        router::topics::Topic,
        store::{
            keys::key_of,
            records::{Record, Writes},
        },
        task::{Lane, Task},
    };

    const DAY: u64 = 24 * 60 * 60 * 1_000;

    /// CH-92
    #[test]
    fn what_is_pinned_awaited_branched_from_or_still_told_stays() {
        let storage = Disk::default().mount(None);
        let topic = |id: &str, day: u64| Topic::new(id.into(), id.to_owned(), Timestamp(day * DAY));
        let (at, made_at) = (Timestamp(DAY), Timestamp(DAY));
        let (topic_id, message_id) = ("t-trunk".into(), "m-1".into());
        let branch = BranchPoint { topic_id, message_id, at, made_at };
        let topics = [
            topic("t-awaited", 1),
            Topic { branch: Some(branch), ..topic("t-branch", 1) },
            topic("t-idle", 1),
            Topic { pinned: true, ..topic("t-pinned", 1) },
            topic("t-told", 1),
            topic("t-trunk", 1),
            topic("t-young", 20),
        ];
        let channel = ChannelId::from("ws:1");
        let writes = topics
            .iter()
            .fold(Writes::new(), |writes, topic| writes.put_at(&topic.key(&channel), topic));
        let lane = Lane { team: "main".into(), topic: Some("t-awaited".into()) };
        let open = Task::new("task-1".into(), lane, String::new(), "ann".to_owned(), Timestamp(1));
        let entry = ("t-told".to_owned(), Timestamp(DAY), "task-2".to_owned());
        let writes = writes
            .put(&open)
            .put_at(&entry, &ConversationEntry::Message)
            .put_at(&"main:t-idle".to_owned(), &Began(Timestamp(1)));
        storage.commit(&writes.batch().unwrap()).unwrap();

        let found = expired(&*storage, Timestamp(10 * DAY)).unwrap();

        let names: Vec<&str> = found.iter().map(|expired| expired.topic.as_str()).collect();
        assert_eq!(names, ["t-branch", "t-idle"]);
        assert!(found[1].session.contains(&key_of(Began::KIND, &"main:t-idle".to_owned())));
    }
}
