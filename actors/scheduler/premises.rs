//! Ports: what a firing depends on that lies outside.

use futures_util::future::BoxFuture;

use super::{firing::Standing, trigger::Trigger, validation::Problem};
use crate::{clock::Timestamp, ids::TeamKey};

/// Knows which teams work.
pub trait Roster: Send + Sync + 'static {
    /// Whether a team works now.
    fn standing(&self, team: &TeamKey) -> Standing;
}

/// Looks after what a trigger depends on: files of its team, what happened lately.
pub trait Premises: Send + Sync + 'static {
    /// Looks, right before a firing; none if this trigger depends on nothing. `last` is when it last
    /// made a task.
    fn look(
        &self,
        trigger: &Trigger,
        last: Option<Timestamp>,
    ) -> Option<BoxFuture<'static, Findings>>;
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The trigger cannot be what it is told to be any more.
    pub problem: Option<Problem>,
    /// There is nothing to do, and why.
    pub nothing_to_do: Option<String>,
    /// What the team is asked instead of the trigger's task.
    pub order: Option<String>,
    /// The skill that is active from the start.
    pub skill: Option<String>,
}
