//! Roster: which teams work, for whoever gives them some.

use super::{record::TeamState, view::OrgView};
use crate::ids::TeamKey;

/// Whether a team works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    Active,
    Paused,
    Gone,
}

/// Knows which teams work.
pub trait Roster: Send + Sync + 'static {
    fn availability(&self, team: &TeamKey) -> Availability;
}

impl Roster for OrgView {
    fn availability(&self, team: &TeamKey) -> Availability {
        let tree = self.now();
        let record = tree.get(team.name.as_str());
        match record.filter(|record| record.generation == team.generation) {
            Some(record) => match record.state {
                TeamState::Active => Availability::Active,
                TeamState::Paused | TeamState::Degraded => Availability::Paused,
                TeamState::Draining | TeamState::Removed => Availability::Gone,
            },
            None => Availability::Gone,
        }
    }
}
