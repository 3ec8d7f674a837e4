//! Topics of one channel.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{score::MAX_REMEMBERED, words::Words};
use crate::{
    clock::Timestamp,
    frame::{BranchPoint, TopicRow, TopicState},
    ids::TopicId,
    thinking::Thinking,
};

#[cfg(test)]
mod tests;

/// The last activity of a topic is stored at least this exactly.
pub const STORE_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// An idle topic is over after this time.
const DONE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many topics that are over a list still shows.
const DONE_LISTED: usize = 20;

/// A topic as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    pub id: TopicId,
    /// Its name, unique in the channel.
    pub name: String,
    /// When its first message came.
    pub created_at: Timestamp,
    /// When its last message came or its last work ended.
    pub last_activity: Timestamp,
    /// Someone ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// It stands first in lists, and is not over however long nothing is said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Its name is only its first words: a model may find a better one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untitled: bool,
    /// How much the model thinks about its messages, if somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The profile whose model answers in it, if not the team's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchPoint>,
    /// The words of its last ten messages, newest first. The interaction log has them too, so that a
    /// message need not write its topic.
    #[serde(skip)]
    pub recent: VecDeque<Words>,
}

impl Topic {
    pub fn new(id: TopicId, name: String, now: Timestamp) -> Self {
        Self {
            id,
            name,
            created_at: now,
            last_activity: now,
            closed: false,
            pinned: false,
            untitled: false,
            thinking: None,
            profile: None,
            branch: None,
            recent: VecDeque::new(),
        }
    }

    /// Its state follows from the time, so nothing has to run for it to change.
    pub fn state(&self, now: Timestamp, open_work: bool, idle_after: Duration) -> TopicState {
        let quiet = now.since(self.last_activity);
        if self.closed {
            TopicState::Done
        } else if open_work || quiet < idle_after {
            TopicState::Active
        } else if self.pinned || quiet < idle_after.saturating_add(DONE_AFTER) {
            TopicState::Idle
        } else {
            TopicState::Done
        }
    }

    /// A topic whose stored row names an earlier moment is over, unless it is pinned or has open work.
    pub fn over_before(now: Timestamp, idle_after: Duration) -> Timestamp {
        now - idle_after.saturating_add(DONE_AFTER).saturating_add(STORE_INTERVAL)
    }

    /// People want it to stay, however long nothing is said.
    pub(super) fn is_held(&self) -> bool {
        self.pinned && !self.closed
    }

    fn remember(&mut self, content: &str, now: Timestamp) {
        self.last_activity = self.last_activity.max(now);
        self.recent.truncate(MAX_REMEMBERED - 1);
        self.recent.push_front(Words::of(content));
    }
}

/// The topics of one channel.
#[derive(Clone, Debug, Default)]
pub struct Topics(pub(super) BTreeMap<TopicId, Entry>);

/// A topic with what is derived from it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) topic: Topic,
    /// The words of its name.
    pub(super) name: Words,
}

impl FromIterator<Topic> for Topics {
    fn from_iter<T: IntoIterator<Item = Topic>>(topics: T) -> Self {
        let entry = |topic: Topic| (topic.id.clone(), Entry::from(topic));
        Self(topics.into_iter().map(entry).collect())
    }
}

impl From<Topic> for Entry {
    fn from(topic: Topic) -> Self {
        let name = Words::of(&topic.name);
        Self { topic, name }
    }
}

impl Topics {
    pub fn get(&self, id: &str) -> Option<&Topic> {
        self.0.get(id).map(|entry| &entry.topic)
    }

    /// A topic to be changed, but for its name: see [`Topics::rename`].
    pub(super) fn get_mut(&mut self, id: &TopicId) -> Option<&mut Topic> {
        self.0.get_mut(id).map(|entry| &mut entry.topic)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Begins a topic with its first message.
    pub fn open(&mut self, id: TopicId, name: String, content: &str, now: Timestamp) -> &mut Topic {
        let mut topic = Topic::new(id.clone(), name, now);
        topic.remember(content, now);
        let entry = self.0.entry(id).insert_entry(Entry::from(topic));
        &mut entry.into_mut().topic
    }

    /// Adds a message to a topic; an idle one is active again. Nothing for one that was closed.
    pub fn record(&mut self, id: &TopicId, content: &str, now: Timestamp) -> Option<&Topic> {
        let topic = self.get_mut(id)?;
        if topic.closed {
            return None;
        }
        topic.remember(content, now);
        Some(topic)
    }

    /// Work in a topic ended: it is idle only some time after that.
    pub fn touch(&mut self, id: &TopicId, now: Timestamp) -> Option<&Topic> {
        let topic = self.get_mut(id)?;
        topic.last_activity = topic.last_activity.max(now);
        Some(topic)
    }

    /// Ends a topic until somebody opens it again, pinned as it was. Ending it twice is no error.
    pub fn close(&mut self, id: &TopicId) -> Option<&Topic> {
        let topic = self.get_mut(id)?;
        topic.closed = true;
        // No message is compared with it any more.
        topic.recent = VecDeque::new();
        Some(topic)
    }

    /// A topic with all that left it, and those that left these: they begin with what was said in it. Empty if there is none.
    pub(super) fn with_branches(&self, id: &TopicId) -> Vec<Topic> {
        let mut found: Vec<Topic> = self.get(id.as_str()).cloned().into_iter().collect();
        let mut next = 0;
        while let Some(left) = found.get(next).map(|topic| topic.id.clone()) {
            let others = self.0.values().map(|entry| &entry.topic);
            let branches = others.filter(|topic| {
                topic.branch.as_ref().is_some_and(|branch| branch.topic_id == left)
                    && found.iter().all(|known| known.id != topic.id)
            });
            let branches: Vec<Topic> = branches.cloned().collect();
            found.extend(branches);
            next += 1;
        }
        found
    }

    pub(super) fn remove(&mut self, id: &TopicId) {
        self.0.remove(id);
    }

    /// A topic that was ended goes on.
    pub fn reopen(&mut self, id: &TopicId, now: Timestamp) {
        if let Some(topic) = self.get_mut(id) {
            topic.closed = false;
            topic.last_activity = topic.last_activity.max(now);
        }
    }

    pub fn rename(&mut self, id: &TopicId, name: &str) {
        if let Some(entry) = self.0.get_mut(id) {
            entry.topic.untitled = false;
            entry.topic.name = name.to_owned();
            entry.name = Words::of(name);
        }
    }

    /// Another topic has this name, whatever the case.
    pub fn has_name(&self, name: &str, except: &TopicId) -> bool {
        let name = name.trim().to_lowercase();
        self.other_names(except).any(|other| other.to_lowercase() == name)
    }

    pub(super) fn other_names(&self, except: &TopicId) -> impl Iterator<Item = &str> {
        let others = self.0.values().filter(move |entry| entry.topic.id != *except);
        others.map(|entry| entry.topic.name.as_str())
    }

    /// All topics, newest activity first.
    pub(super) fn newest_first(&self) -> Vec<&Topic> {
        let mut topics: Vec<&Topic> = self.0.values().map(|entry| &entry.topic).collect();
        topics.sort_unstable_by_key(|topic| (Reverse(topic.last_activity), &topic.id));
        topics
    }

    /// The rows of a topic list: newest activity first, of those that are over the last twenty.
    ///
    /// `work` tells how many messages wait in a topic, and whether a turn runs.
    pub fn rows(
        &self,
        now: Timestamp,
        idle_after: Duration,
        work: impl Fn(&TopicId) -> (u64, bool),
    ) -> Vec<TopicRow> {
        let mut done = 0;
        self.newest_first()
            .into_iter()
            .filter_map(|topic| {
                let (queued, running) = work(&topic.id);
                let state = topic.state(now, queued > 0 || running, idle_after);
                done += usize::from(state == TopicState::Done);
                (state != TopicState::Done || done <= DONE_LISTED).then(|| TopicRow {
                    id: topic.id.clone(),
                    name: topic.name.clone(),
                    state,
                    pinned: topic.pinned,
                    last_activity: topic.last_activity,
                    queued,
                    running,
                    profile: topic.profile.clone(),
                    branch: topic.branch.clone(),
                    read_until: None,
                })
            })
            .collect()
    }
}

/// Text of the form of a topic's id.
pub fn is_topic_id(text: &str) -> bool {
    text.strip_prefix("t-")
        .is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
