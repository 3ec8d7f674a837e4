//! Scopes: what a credential may do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One right.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To see the state of the service.
    Read,
    /// To talk to teams.
    Chat,
    /// To speak in another sender's name.
    AssertSender,
    /// To steer tasks, teams and topics.
    Operate,
    /// To decide on what teams ask for.
    Approve,
    /// To manage secrets.
    Secrets,
    /// To manage tokens and backups.
    Admin,
    /// To read the figures.
    Metrics,
}

impl Scope {
    /// Every scope there is.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Chat,
        Self::AssertSender,
        Self::Operate,
        Self::Approve,
        Self::Secrets,
        Self::Admin,
        Self::Metrics,
    ];

    /// As requests and answers name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Chat => "chat",
            Self::AssertSender => "assert_sender",
            Self::Operate => "operate",
            Self::Approve => "approve",
            Self::Secrets => "secrets",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }

    /// The scope of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Scope>", into = "Vec<Scope>")]
pub struct Scopes(u8);

impl Scopes {
    /// All of them: what the operator has.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
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
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
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
