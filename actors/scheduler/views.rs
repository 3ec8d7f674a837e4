//! Lists of triggers, for whoever asks.

use actix::{Handler, Message, MessageResult};
use serde::{Deserialize, Serialize};

use super::{
    Scheduler,
    run::Run,
    trigger::{State, Trigger, Which},
};
use crate::ids::TeamKey;

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
