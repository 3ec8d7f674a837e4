//! Scopes: what a credential may do.

use std::fmt;

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// One right.
    pub enum Scope {
        /// To see the state of the service.
        Read = "read",
        /// To talk to teams.
        Chat = "chat",
        /// To speak in another sender's name.
        AssertSender = "assert_sender",
        /// To steer tasks, teams and topics.
        Operate = "operate",
        /// To decide on what teams ask for.
        Approve = "approve",
        /// To manage secrets.
        Secrets = "secrets",
        /// To manage tokens and backups.
        Admin = "admin",
        /// To read the figures.
        Metrics = "metrics",
    }
}

impl Scope {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "Vec<Scope>")]
#[serde(from = "Vec<Scope>", into = "Vec<Scope>")]
pub struct Scopes(u8);

impl Scopes {
    /// All of them: what the operator has.
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    /// The scope is in the set.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Nothing is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.has(*scope))
    }

    /// A scope that is here and not there.
    pub fn beyond(self, other: Self) -> Option<Scope> {
        self.iter().find(|scope| !other.has(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | scope.bit()))
    }
}

impl From<Vec<Scope>> for Scopes {
    fn from(scopes: Vec<Scope>) -> Self {
        scopes.into_iter().collect()
    }
}

impl From<Scopes> for Vec<Scope> {
    fn from(scopes: Scopes) -> Self {
        scopes.iter().collect()
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
