//! Views of triggers: lists for whoever asks, and what others read without asking.

use std::sync::Arc;

use actix::{Handler, Message, MessageResult};
use dashmap::DashMap;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{
    Scheduler,
    ports::{Expressions, Matcher},
    run::Run,
    trigger::{
        State, Trigger, Which,
        config::{Config, Listen},
    },
};
use crate::{
    clock::Timestamp,
    ids::{ChannelId, MessageId, TeamKey, TriggerId},
    task::{Label, TopicRef},
};

/// Shows triggers, by team and name.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Vec<Listed>")]
pub struct List {
    /// Of this team; none is all.
    pub team: Option<TeamKey>,
}

/// How many triggers there are.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Counts")]
pub struct Count;

/// See [`Count`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[schemars(rename = "TriggerCounts")]
pub struct Counts {
    /// All.
    pub total: usize,
    /// Those that fire.
    pub active: usize,
    /// Those that were switched off.
    pub disabled: usize,
}

#[derive(Clone, Debug, Message)]
#[rtype(result = "Option<Listed>")]
pub struct Get {
    pub which: Which,
}

/// A trigger with its newest run.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub trigger: Trigger,
    pub last_run: Option<Run>,
}

/// What is known of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// As it was last changed by someone.
    pub trigger: Arc<Trigger>,
    /// What its newest run with a known price cost, in USD.
    pub cost_usd: Option<f64>,
}

/// Written by the scheduler, read by anyone. Cheap to clone.
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
        self.0.read().clone()
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
        let found = ears
            .iter()
            .filter(|ear| ear.is_for(heard))
            .filter_map(|ear| Some((ear.trigger.clone(), ear.matcher.find(&heard.content)?)));
        found.collect()
    }

    /// Listens for a trigger as it is from now on, or no longer.
    pub(super) fn attend(&self, trigger: &Trigger, expressions: &dyn Expressions) {
        let config = &trigger.definition.config;
        let (Config::Keyword(listen) | Config::Message(listen)) = config else { return };
        let matcher = config.matcher(expressions).filter(|_| trigger.is_active());
        let ear = |matcher| Ear { trigger: trigger.id.clone(), listen: listen.clone(), matcher };
        self.replace(&trigger.id, matcher.and_then(Result::ok).map(ear));
    }

    /// Listens for a trigger no longer.
    pub(super) fn ignore(&self, trigger: &TriggerId) {
        self.replace(trigger, None);
    }

    fn replace(&self, trigger: &TriggerId, ear: Option<Ear>) {
        let mut ears = self.0.write();
        let ears = Arc::make_mut(&mut ears);
        ears.retain(|other| other.trigger != *trigger);
        ears.extend(ear);
    }
}

impl Scheduler {
    fn listed(&self, trigger: &Trigger) -> Listed {
        Listed { trigger: trigger.clone(), last_run: self.last.get(&trigger.id).cloned() }
    }
}

impl Handler<List> for Scheduler {
    type Result = MessageResult<List>;

    fn handle(&mut self, List { team }: List, _: &mut Self::Context) -> Self::Result {
        let mut found: Vec<&Trigger> = self
            .triggers
            .values()
            .filter(|trigger| team.as_ref().is_none_or(|team| trigger.team == *team))
            .collect();
        found.sort_by_key(|trigger| (&trigger.team, &trigger.definition.name));
        MessageResult(found.into_iter().map(|trigger| self.listed(trigger)).collect())
    }
}

impl Handler<Count> for Scheduler {
    type Result = MessageResult<Count>;

    fn handle(&mut self, Count: Count, _: &mut Self::Context) -> Self::Result {
        let of =
            |state: State| self.triggers.values().filter(|trigger| trigger.state == state).count();
        MessageResult(Counts {
            total: self.triggers.len(),
            active: of(State::Active),
            disabled: of(State::Disabled),
        })
    }
}

impl Handler<Get> for Scheduler {
    type Result = MessageResult<Get>;

    fn handle(&mut self, Get { which }: Get, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.find(&which).ok().map(|trigger| self.listed(trigger)))
    }
}
