//! Expiry of topics: one in which nothing was said for as long as history is kept goes, though its channel lives on.

use std::collections::{BTreeMap, HashSet};

use actix::Context;

use super::{
    Router,
    records::{self as conversations, session_keys, topic_removed, topics_in_use},
    topics::STORE_INTERVAL,
};
use crate::{
    clock::Timestamp,
    conversation_log::ConversationEntry,
    ids::{ChannelId, TopicId},
    journal,
    scheduler::trigger::Trigger,
    storage::{Order, Storage, StorageError},
    store::reads::Range,
    task::records::LaneKey,
};

/// So many go with one sweep.
const MAX_PER_SWEEP: usize = 200;

/// A topic of which nothing is kept any more.
pub(super) struct Expired {
    pub(super) channel: ChannelId,
    pub(super) topic: TopicId,
    /// The stored keys of its session.
    pub(super) session: Vec<Vec<u8>>,
}

/// Topics that have expired: nothing was said in them since a moment, and what was is gone. Those stay that people pinned and
/// have not ended, and those that others left, which begin with what was said in them. Blocks.
pub(super) fn expired(
    storage: &dyn Storage,
    before: Timestamp,
) -> Result<Vec<Expired>, StorageError> {
    let (mut idle, mut left) = (Vec::new(), HashSet::new());
    conversations::each_topic(storage, &mut |channel, topic| {
        if !topic.is_held() && topic.last_activity + STORE_INTERVAL < before {
            idle.push((channel, topic.id));
        }
        left.extend(topic.branch.map(|branch| branch.topic_id));
    })?;
    let mut expired = Vec::new();
    if idle.is_empty() {
        return Ok(expired);
    }
    let awaited = awaited(storage)?;
    for (channel, topic) in idle {
        if expired.len() >= MAX_PER_SWEEP {
            break;
        }
        if left.contains(&topic) || awaited.contains(&topic) || has_entries(storage, &topic)? {
            continue;
        }
        // A turn that was brought back from its transcript is younger than what is known of its topic.
        let last_sign = journal::last_sign(storage, &LaneKey::of_topic(&topic))?;
        if last_sign.is_some_and(|at| at >= before) {
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
    let mut awaited = topics_in_use(storage)?;
    Range::<Trigger>::all().for_each(storage, &mut |trigger| {
        awaited.extend(trigger.definition.notify_topic.map(|topic| topic.id));
    })?;
    Ok(awaited)
}

/// Something of what was said in a topic is kept.
fn has_entries(storage: &dyn Storage, topic: &TopicId) -> Result<bool, StorageError> {
    let entries = Range::<ConversationEntry>::under(&(&topic.to_string(),));
    Ok(entries.first_key(storage, Order::Rising)?.is_some())
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
        if !expired.is_empty() {
            // What was read before a former sweep found some has been told since.
            self.expired.clear();
        }
        for Expired { channel, topic, session } in expired {
            if let Some(conversation) = self.conversations.get_mut(&channel) {
                let known = conversation.topics.get(topic.as_str());
                let is_idle =
                    known.is_none_or(|topic| !topic.is_held() && topic.last_activity < before);
                if !is_idle
                    || conversation.has_open_work(&topic)
                    || !conversation.deciding.is_empty()
                {
                    continue;
                }
                conversation.forget_topic(&topic);
            }
            self.expired.insert(topic.clone());
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
        approvals::record::Approval,
        doubles::{
            asked::{approval, question, work_for, work_in},
            disk::Disk,
        },
        frame::BranchPoint,
        history::{Fact, HistoryEvent},
        ids::TeamKey,
        journal::records::Began,
        router::topics::Topic,
        scheduler::trigger::{
            config::{Config, Schedule},
            definition::Definition,
        },
        store::{
            keys::key_of,
            records::{Record, Writes},
        },
        task::TopicRef,
    };

    const DAY: u64 = 24 * 60 * 60 * 1_000;

    fn topic(id: &str) -> Topic {
        Topic::new(id.into(), id.to_owned(), Timestamp(DAY))
    }

    fn rows(topics: &[Topic]) -> Writes {
        let channel = ChannelId::from("ws:1");
        let put = |writes: Writes, topic: &Topic| writes.put_at(&topic.key(&channel), topic);
        topics.iter().fold(Writes::new(), put)
    }

    fn found(storage: &dyn Storage) -> Vec<Expired> {
        expired(storage, Timestamp(10 * DAY)).unwrap()
    }

    fn names(found: &[Expired]) -> Vec<&str> {
        found.iter().map(|expired| expired.topic.as_str()).collect()
    }

    /// CH-92
    #[test]
    fn what_is_pinned_awaited_branched_from_or_still_told_stays() {
        let storage = Disk::default().mount(None);
        let (at, made_at) = (Timestamp(DAY), Timestamp(DAY));
        let (topic_id, message_id) = ("t-trunk".into(), "m-1".into());
        let branch = BranchPoint { topic_id, message_id, at, made_at };
        let pinned = |id: &str| Topic { pinned: true, ..topic(id) };
        let writes = rows(&[
            topic("t-approval"),
            topic("t-approval-for"),
            Topic { closed: true, ..pinned("t-archived") },
            topic("t-awaited"),
            topic("t-awaited-for"),
            Topic { branch: Some(branch), ..topic("t-branch") },
            topic("t-idle"),
            pinned("t-pinned"),
            topic("t-question"),
            topic("t-question-for"),
            topic("t-told"),
            topic("t-trigger"),
            topic("t-trunk"),
            Topic { last_activity: Timestamp(20 * DAY), ..topic("t-young") },
        ]);
        let approvals = [work_in("t-approval"), work_for("t-approval-for")]
            .map(|task| Approval { id: task.id.as_str().into(), ..approval(&task, at) });
        let questions = [work_in("t-question"), work_for("t-question-for")]
            .map(|task| question(task.id.as_str(), &task, at));
        let config = Config::Schedule(Schedule::cron("0"));
        let definition = Definition {
            notify_topic: Some(TopicRef { id: "t-trigger".into(), name: String::new() }),
            ..Definition::new("scan", config, "scan")
        };
        let trigger = Trigger::new("trg-1".into(), TeamKey::first("ops"), definition, "ann", at);
        let entry = ("t-told".to_owned(), Timestamp(DAY), "task-2".to_owned());
        let writes = writes
            .put_all(&[work_in("t-awaited"), work_for("t-awaited-for")])
            .put_all(&approvals)
            .put_all(&questions)
            .put(&trigger)
            .put_at(&entry, &ConversationEntry::Message)
            .put_at(&"main:t-idle".to_owned(), &Began(Timestamp(1)));
        storage.commit(&writes.batch().unwrap()).unwrap();

        let found = found(&*storage);

        assert_eq!(names(&found), ["t-archived", "t-branch", "t-idle"]);
        assert!(found[2].session.contains(&key_of(Began::KIND, &"main:t-idle".to_owned())));
    }

    /// CH-92, SC-112: the row of the topic is that of the backup.
    #[test]
    fn a_topic_whose_turns_were_brought_back_stays() {
        let storage = Disk::default().mount(None);
        let turn = |topic: &str, day: u64| {
            let fact = Fact::AssistantText { text: "Done.".to_owned(), step: 1 };
            let (turn, timestamp) = ("turn-1".into(), Timestamp(day * DAY));
            let event = HistoryEvent { seq: 1, turn, timestamp, fact, redacted: false };
            Writes::new().events(&work_in(topic).lane, 1, &[event])
        };
        let writes = rows(&[topic("t-old"), topic("t-restored")]);
        let writes = writes.and(turn("t-old", 9)).and(turn("t-restored", 10));
        storage.commit(&writes.batch().unwrap()).unwrap();

        let found = found(&*storage);

        assert_eq!(names(&found), ["t-old"]);
    }
}
