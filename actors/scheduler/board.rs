//! The board: all triggers as they are, for those who cannot wait for an answer.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use super::{run::Run, trigger::Trigger};
use crate::ids::TeamKey;

/// What is known of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// As it was last changed by someone.
    pub trigger: Arc<Trigger>,
    /// What its newest run with a known price cost, in USD.
    pub cost_usd: Option<f64>,
}

type Notes = HashMap<(TeamKey, String), Posted>;

/// Written by the scheduler, read by anyone. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<RwLock<Notes>>);

impl Board {
    /// A trigger by team and name.
    pub fn find(&self, team: &TeamKey, name: &str) -> Option<Posted> {
        let notes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        notes.get(&(team.clone(), name.to_owned())).cloned()
    }

    pub(super) fn post(&self, trigger: &Trigger, last: Option<&Run>) {
        let key = (trigger.team.clone(), trigger.definition.name.clone());
        let mut notes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = notes.get(&key).and_then(|posted| posted.cost_usd);
        let posted = Posted {
            trigger: Arc::new(trigger.clone()),
            cost_usd: last.and_then(|run| run.cost_usd).or(known),
        };
        notes.insert(key, posted);
    }

    pub(super) fn note_cost(&self, trigger: &Trigger, run: &Run) {
        let key = (trigger.team.clone(), trigger.definition.name.clone());
        let mut notes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(posted) = notes.get_mut(&key) {
            posted.cost_usd = run.cost_usd.or(posted.cost_usd);
        }
    }

    pub(super) fn remove(&self, trigger: &Trigger) {
        let key = (trigger.team.clone(), trigger.definition.name.clone());
        let mut notes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        notes.remove(&key);
    }
}
