//! Ears: which messages concern a trigger, known to whoever lets messages in.

use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::{
    config::{Config, Listen},
    matcher::{Expressions, Language, Matcher},
    trigger::Trigger,
};
use crate::{
    clock::Timestamp,
    ids::{ChannelId, MessageId, TriggerId},
    task::{Label, TopicRef},
};

/// A message that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, actix::Message)]
#[rtype(result = "()")]
pub struct Heard {
    /// Where.
    pub channel: ChannelId,
    /// Which.
    pub message: MessageId,
    /// Of whom.
    pub sender: String,
    /// What.
    pub content: String,
    /// How far it may be believed.
    #[serde(default)]
    pub label: Label,
    /// Its topic, if its sender chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicRef>,
    /// When.
    pub at: Timestamp,
}

impl Heard {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.channel, self.message)
    }
}

#[derive(Clone)]
struct Ear {
    trigger: TriggerId,
    listen: Listen,
    matcher: Arc<dyn Matcher>,
}

impl Ear {
    fn is_for(&self, heard: &Heard) -> bool {
        let Listen { channels, senders, .. } = &self.listen;
        (channels.is_empty() || channels.contains(&heard.channel))
            && (senders.is_empty() || senders.contains(&heard.sender))
    }
}

/// The triggers that listen. Cheap to clone; all clones hear the same.
#[derive(Clone, Default)]
pub struct Ears(Arc<RwLock<Arc<Vec<Ear>>>>);

/// What an expression found, by name.
pub(super) type Captures = Vec<(String, String)>;

impl Ears {
    fn now(&self) -> Arc<Vec<Ear>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Some trigger listens at all.
    pub fn is_open(&self) -> bool {
        !self.now().is_empty()
    }

    /// A message concerns some trigger: it is to be stored as heard, with the message itself.
    pub fn concerns(&self, heard: &Heard) -> bool {
        self.now().iter().any(|ear| ear.is_for(heard) && ear.matcher.find(&heard.content).is_some())
    }

    /// The triggers that a message concerns, with what they found in it.
    pub(super) fn listen(&self, heard: &Heard) -> Vec<(TriggerId, Captures)> {
        let ears = self.now();
        let found = ears.iter().filter(|ear| ear.is_for(heard)).filter_map(|ear| {
            let captures = ear.matcher.find(&heard.content)?;
            Some((ear.trigger.clone(), captures))
        });
        found.collect()
    }

    /// Listens for a trigger as it is from now on, or no longer.
    pub(super) fn attend(&self, trigger: &Trigger, expressions: &dyn Expressions) {
        let (language, listen) = match &trigger.definition.config {
            Config::Keyword(listen) => (Language::Keyword, listen),
            Config::Message(listen) => (Language::Message, listen),
            _ => return,
        };
        let flags = listen.flags.as_deref();
        let matcher = if trigger.is_active() {
            expressions.read(language, &listen.pattern, flags).ok()
        } else {
            None
        };
        self.replace(
            &trigger.id,
            matcher.map(|matcher| Ear {
                trigger: trigger.id.clone(),
                listen: listen.clone(),
                matcher,
            }),
        );
    }

    /// Listens for a trigger no longer.
    pub(super) fn ignore(&self, trigger: &TriggerId) {
        self.replace(trigger, None);
    }

    fn replace(&self, trigger: &TriggerId, ear: Option<Ear>) {
        let mut ears = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let ears = Arc::make_mut(&mut ears);
        ears.retain(|other| other.trigger != *trigger);
        ears.extend(ear);
    }
}

impl std::fmt::Debug for Ears {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ears = self.now();
        f.debug_list().entries(ears.iter().map(|ear| &ear.trigger)).finish()
    }
}
