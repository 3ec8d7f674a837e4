//! Indexes of triggers that others read without asking: by name, and by the messages that fire them.

use std::sync::Arc;

use actix::Message;
use dashmap::DashMap;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{
    ports::{Expressions, Matcher},
    run::Run,
    trigger::{
        Trigger,
        config::{Config, Listen},
    },
};
use crate::{
    clock::Timestamp,
    ids::{ChannelId, MessageId, TeamKey, TriggerId},
    task::{Label, TopicRef},
};

/// What is known of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// As it was last changed by someone.
    pub trigger: Arc<Trigger>,
    /// What its newest run with a known price cost, in USD.
    pub cost_usd: Option<f64>,
}

/// Index of triggers by team and name, written by the scheduler, read by anyone. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<DashMap<(TeamKey, String), Posted>>);

impl Board {
    /// A trigger by team and name.
    pub fn find(&self, team: &TeamKey, name: &str) -> Option<Posted> {
        self.0.get(&(team.clone(), name.to_owned())).map(|posted| posted.clone())
    }

    pub(super) fn post(&self, trigger: &Trigger, last: Option<&Run>) {
        let key = trigger.name();
        let known = self.0.get(&key).and_then(|posted| posted.cost_usd);
        let cost_usd = last.and_then(|run| run.cost_usd).or(known);
        self.0.insert(key, Posted { trigger: Arc::new(trigger.clone()), cost_usd });
    }

    pub(super) fn note_cost(&self, trigger: &Trigger, run: &Run) {
        if let Some(mut posted) = self.0.get_mut(&trigger.name()) {
            posted.cost_usd = run.cost_usd.or(posted.cost_usd);
        }
    }

    pub(super) fn remove(&self, trigger: &Trigger) {
        self.0.remove(&trigger.name());
    }
}

/// A message that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Message)]
#[rtype(result = "()")]
pub struct Heard {
    pub channel: ChannelId,
    pub message: MessageId,
    pub sender: String,
    pub content: String,
    #[serde(default)]
    pub label: Label,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicRef>,
    pub at: Timestamp,
}

impl Heard {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.channel, self.message)
    }
}

#[derive(Clone)]
struct Listener {
    trigger: TriggerId,
    listen: Listen,
    matcher: Arc<dyn Matcher>,
}

impl Listener {
    fn is_for(&self, heard: &Heard) -> bool {
        let Listen { channels, senders, .. } = &self.listen;
        (channels.is_empty() || channels.contains(&heard.channel))
            && (senders.is_empty() || senders.contains(&heard.sender))
    }
}

/// Index of the triggers that messages fire, read by the router. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct MessageTriggers(Arc<RwLock<Arc<Vec<Listener>>>>);

/// What an expression found, by name.
pub(super) type Captures = Vec<(String, String)>;

impl MessageTriggers {
    fn now(&self) -> Arc<Vec<Listener>> {
        self.0.read().clone()
    }

    /// Some trigger listens at all.
    pub fn is_open(&self) -> bool {
        !self.now().is_empty()
    }

    /// A message concerns some trigger: it is to be stored as heard, with the message itself.
    pub fn concerns(&self, heard: &Heard) -> bool {
        self.now().iter().any(|listener| {
            listener.is_for(heard) && listener.matcher.find(&heard.content).is_some()
        })
    }

    /// The triggers that a message concerns, with what they found in it.
    pub(super) fn listen(&self, heard: &Heard) -> Vec<(TriggerId, Captures)> {
        let listeners = self.now();
        let found =
            listeners.iter().filter(|listener| listener.is_for(heard)).filter_map(|listener| {
                Some((listener.trigger.clone(), listener.matcher.find(&heard.content)?))
            });
        found.collect()
    }

    /// Listens for a trigger as it is from now on, or no longer.
    pub(super) fn attend(&self, trigger: &Trigger, expressions: &dyn Expressions) {
        let config = &trigger.definition.config;
        let (Config::Keyword(listen) | Config::Message(listen)) = config else { return };
        let matcher = config.matcher(expressions).filter(|_| trigger.is_active());
        let listener =
            |matcher| Listener { trigger: trigger.id.clone(), listen: listen.clone(), matcher };
        self.replace(&trigger.id, matcher.and_then(Result::ok).map(listener));
    }

    /// Listens for a trigger no longer.
    pub(super) fn ignore(&self, trigger: &TriggerId) {
        self.replace(trigger, None);
    }

    fn replace(&self, trigger: &TriggerId, listener: Option<Listener>) {
        let mut listeners = self.0.write();
        let listeners = Arc::make_mut(&mut listeners);
        listeners.retain(|other| other.trigger != *trigger);
        listeners.extend(listener);
    }
}
