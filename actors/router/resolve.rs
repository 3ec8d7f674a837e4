//! Topic resolution: which topic a message belongs to.

use std::{cmp::Reverse, num::NonZeroUsize, time::Duration};

use super::{
    choice::{Candidate, Choice},
    names,
    refusal::{OpenTopic, Refusal},
    score::{self, Profile},
    topics::{Entry, Topic, Topics, is_topic_id},
    words::Words,
};
use crate::{clock::Timestamp, frame::TopicState, ids::TopicId};

#[cfg(test)]
mod tests;

/// The score of a topic that a message surely belongs to.
const MATCH: f64 = 0.35;
/// How far the best must be ahead of the second.
const LEAD: f64 = 0.15;
/// Below this, a message fits not even the only topic there is.
const NEW_BELOW: f64 = 0.10;

/// What the owner of the channels decided about topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// So many topics of a channel may be active.
    pub max_active: NonZeroUsize,
    /// Without message and work for so long, an active topic becomes idle.
    pub idle_after: Duration,
}

/// A message that needs a topic.
#[derive(Clone, Copy)]
pub(super) struct Resolve<'a> {
    pub(super) content: &'a str,
    /// The topic id that its sender gave.
    pub(super) explicit: Option<&'a str>,
    pub(super) now: Timestamp,
    pub(super) settings: Settings,
    /// A topic has queued or running work.
    pub(super) open_work: &'a dyn Fn(&TopicId) -> bool,
}

/// Where a message belongs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resolution {
    /// To a topic that there is: [`Topics::record`].
    Existing(TopicId),
    /// To one that begins with it: [`Topics::open`].
    New {
        /// The name, which no topic of the channel has.
        name: String,
        /// A model made it; otherwise it is the first words.
        titled: bool,
    },
    /// Code can't tell. A model may be asked, see [`Topics::choose`].
    Ambiguous {
        candidates: Vec<Candidate>,
        /// What holds if no model helps. Never ambiguous, never a refusal.
        fallback: Box<Resolution>,
    },
    Refused(Refusal),
}

/// A topic that is not over.
struct Open<'a> {
    entry: &'a Entry,
    state: TopicState,
    score: f64,
}

impl Topics {
    /// Which topic a message belongs to. Changes nothing.
    pub(super) fn resolve(&self, request: &Resolve<'_>) -> Resolution {
        let mut open = self.open_topics(request);
        if let Some(id) = request.explicit {
            return self.explicit(id, &open, request);
        }
        rank(&mut open, request.content);
        let Some(best) = open.first() else { return self.begin(None, &open, request) };
        let second = open.get(1).map_or(0.0, |second| second.score);
        if best.score >= MATCH && best.score - second >= LEAD {
            return reach(best, &open, request);
        }
        if open.len() == 1 && best.state == TopicState::Active && best.score >= NEW_BELOW {
            return reach(best, &open, request);
        }
        Resolution::Ambiguous {
            candidates: open.iter().map(Open::candidate).collect(),
            fallback: Box::new(self.fallback(&open, request)),
        }
    }

    /// Where a message belongs after a model was asked. The topics may have changed meanwhile: a
    /// choice that is over counts as none.
    pub(super) fn choose(&self, choice: Option<Choice>, request: &Resolve<'_>) -> Resolution {
        let mut open = self.open_topics(request);
        match choice {
            Some(Choice::New { name }) => return self.begin(name.as_deref(), &open, request),
            Some(Choice::Existing(id)) => {
                if let Some(chosen) = find(&open, id.as_str()) {
                    return reach(chosen, &open, request);
                }
            }
            None => {}
        }
        rank(&mut open, request.content);
        self.fallback(&open, request)
    }

    fn open_topics(&self, request: &Resolve<'_>) -> Vec<Open<'_>> {
        let idle_after = request.settings.idle_after;
        let open = self.0.values().filter_map(|entry| {
            let Entry { topic, .. } = entry;
            let open_work = !topic.closed && (request.open_work)(&topic.id);
            let state = topic.state(request.now, open_work, idle_after);
            (state != TopicState::Done).then_some(Open { entry, state, score: 0.0 })
        });
        open.collect()
    }

    fn explicit(&self, id: &str, open: &[Open<'_>], request: &Resolve<'_>) -> Resolution {
        if let Some(topic) = find(open, id) {
            return reach(topic, open, request);
        }
        let open = listed(open);
        Resolution::Refused(if !is_topic_id(id) {
            Refusal::BadTopicId { open }
        } else if self.0.contains_key(id) {
            Refusal::TopicDone { open }
        } else {
            Refusal::UnknownTopic { open }
        })
    }

    /// The most recent active topic; else the best idle one that has anything in common with the
    /// message; else a new one. With none active the cap is not reached, so none of these refuses.
    fn fallback(&self, ranked: &[Open<'_>], request: &Resolve<'_>) -> Resolution {
        let active = ranked.iter().filter(|open| open.is_active());
        let most_recent = active.max_by_key(|open| open.entry.topic.last_activity);
        match most_recent.or(ranked.first().filter(|best| best.score > 0.0)) {
            Some(open) => reach(open, ranked, request),
            None => self.begin(None, ranked, request),
        }
    }

    fn begin(
        &self,
        suggested: Option<&str>,
        open: &[Open<'_>],
        request: &Resolve<'_>,
    ) -> Resolution {
        if let Some(refusal) = full(open, request) {
            return Resolution::Refused(refusal);
        }
        let taken = self.0.values().map(|entry| entry.topic.name.as_str());
        let name = names::name(suggested, request.content, taken);
        Resolution::New { name, titled: suggested.is_some() }
    }
}

impl Open<'_> {
    fn is_active(&self) -> bool {
        self.state == TopicState::Active
    }

    fn candidate(&self) -> Candidate {
        let Topic { id, name, last_activity, .. } = &self.entry.topic;
        Candidate {
            id: id.clone(),
            name: name.clone(),
            last_activity: *last_activity,
            score: self.score,
        }
    }
}

/// Best score first; of equals the one used last.
fn rank(open: &mut [Open<'_>], content: &str) {
    let profiles: Vec<Profile<'_>> = open
        .iter()
        .map(|open| Profile { name: &open.entry.name, recent: &open.entry.topic.recent })
        .collect();
    let scores = score::scores(&Words::of(content), &profiles);
    for (open, score) in open.iter_mut().zip(scores) {
        open.score = score;
    }
    open.sort_by(|a, b| {
        let last = |open: &Open<'_>| open.entry.topic.last_activity;
        b.score.total_cmp(&a.score).then(last(b).cmp(&last(a)))
    });
}

fn find<'a, 'b>(open: &'a [Open<'b>], id: &str) -> Option<&'a Open<'b>> {
    open.iter().find(|open| open.entry.topic.id.as_str() == id)
}

/// An idle topic that a message reaches becomes active, so the cap counts for it as for a new one.
fn reach(topic: &Open<'_>, open: &[Open<'_>], request: &Resolve<'_>) -> Resolution {
    let cap = if topic.is_active() { None } else { full(open, request) };
    match cap {
        Some(refusal) => Resolution::Refused(refusal),
        None => Resolution::Existing(topic.entry.topic.id.clone()),
    }
}

/// Why no topic can become active, if none can.
fn full(open: &[Open<'_>], request: &Resolve<'_>) -> Option<Refusal> {
    let max_active = request.settings.max_active.get();
    (open.iter().filter(|open| open.is_active()).count() >= max_active).then(|| {
        let mut active = listed(open);
        active.retain(|topic| topic.state == TopicState::Active);
        Refusal::TooManyTopics { max_active, active }
    })
}

/// Newest activity first.
fn listed(open: &[Open<'_>]) -> Vec<OpenTopic> {
    let mut topics: Vec<OpenTopic> = open
        .iter()
        .map(|open| OpenTopic {
            id: open.entry.topic.id.clone(),
            name: open.entry.topic.name.clone(),
            state: open.state,
            last_activity: open.entry.topic.last_activity,
        })
        .collect();
    topics.sort_by_key(|topic| Reverse(topic.last_activity));
    topics
}
