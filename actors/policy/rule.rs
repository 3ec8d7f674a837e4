//! Rules of the operator: which teams may use what, on whose behalf, under which conditions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Request, Role, Subject,
    caution::Risk,
    resource::{Mode, Resource},
};
use crate::{clock::Timestamp, wildcard::fits};

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Go ahead.
    Allow,
    /// Never.
    Deny,
    /// Not without a person.
    RequireApproval,
}

impl Effect {
    /// All effects by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("allow", Self::Allow), ("deny", Self::Deny), ("require_approval", Self::RequireApproval)];
}

/// On whose behalf a call is made, as rules tell them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Who {
    /// Anybody.
    #[default]
    Any,
    /// Somebody with this role.
    Role(Role),
    /// One person: channel type and id.
    User(String),
    /// Whoever it is, in a turn that has read untrusted content.
    Untrusted,
}

/// Something that must be true of the arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What stands there.
    pub test: Test,
}

/// What must stand at a place of the arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Exactly this.
    Equals(Value),
    /// A text, number or truth value that fits a pattern.
    Glob(String),
}

/// A rule that has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// What it is for.
    pub note: String,
    /// From when on it is as if it were not there.
    pub expires_at: Option<Timestamp>,
    /// The teams it concerns: a name with wildcards.
    pub team: String,
    /// What it is about.
    pub resource: Resource,
    /// What is done with files, where it is about files.
    pub mode: Mode,
    /// On whose behalf.
    pub principal: Who,
    /// All of these must be true.
    pub when: Vec<Condition>,
    /// What it says.
    pub effect: Effect,
    /// How much harm a mistake does.
    pub risk: Risk,
}

impl Who {
    /// Reads `any`, `role:…`, `user:<channel type>:<id>` or `label:untrusted`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected `any`, `role:operator`, `role:user`, `role:guest`, `role:system`, \
            `user:<channel type>:<id>` or `label:untrusted`";
        let wrong = || expected.to_owned();
        match text.split_once(':') {
            None if text == "any" => Ok(Self::Any),
            Some(("role", role)) => one_of(role, &Role::ALL).map(Self::Role).map_err(|_| wrong()),
            Some(("label", "untrusted")) => Ok(Self::Untrusted),
            Some(("user", user)) => match user.split_once(':') {
                Some((channel, id)) if !channel.is_empty() && !id.is_empty() => {
                    Ok(Self::User(user.to_owned()))
                }
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }

    fn is(&self, subject: &Subject) -> bool {
        match self {
            Self::Any => true,
            Self::Role(role) => *role == subject.role,
            Self::User(user) => subject.user.as_ref() == Some(user),
            Self::Untrusted => subject.untrusted,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Role(role) => write!(f, "role:{}", role.as_str()),
            Self::User(user) => write!(f, "user:{user}"),
            Self::Untrusted => f.write_str("label:untrusted"),
        }
    }
}

impl Rule {
    /// It is in force, for this team.
    pub(super) fn concerns(&self, team: &str, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end) && fits(&self.team, team)
    }

    /// It holds for every call of the tools that it names, whoever makes it.
    pub(super) fn is_unconditional(&self) -> bool {
        self.when.is_empty() && self.principal == Who::Any
    }

    /// It fits the call in all respects.
    pub(super) fn fits(&self, request: &Request<'_>) -> bool {
        self.concerns(request.team, request.now)
            && self.fits_resource(request)
            && self.principal.is(request.subject)
            && self.when.iter().all(|condition| condition.is_true(request.args))
    }

    /// Who permits must mean everything that is touched; who forbids, anything.
    fn fits_resource(&self, request: &Request<'_>) -> bool {
        if self.resource.names_tool(request.tool, &request.classes()) {
            return true;
        }
        let permits = self.effect == Effect::Allow;
        let mut touched = request
            .touches
            .iter()
            .filter(|touch| self.resource.is_about(touch, self.mode))
            .map(|touch| self.resource.fits(touch, self.mode, permits))
            .peekable();
        if permits {
            touched.peek().is_some() && touched.all(|fits| fits)
        } else {
            touched.any(|fits| fits)
        }
    }

    /// It is part of a list of what this team may use, and the call uses things of that list.
    pub(super) fn lists(&self, request: &Request<'_>) -> bool {
        self.effect == Effect::Allow
            && self.concerns(request.team, request.now)
            && (self.resource.names_tool(request.tool, &request.classes())
                || request.touches.iter().any(|touch| self.resource.is_about(touch, self.mode)))
    }
}

impl Condition {
    fn is_true(&self, args: &Value) -> bool {
        let Some(found) = args.pointer(&self.pointer) else {
            return false;
        };
        match &self.test {
            Test::Equals(value) => same(value, found),
            Test::Glob(pattern) => match found {
                Value::String(text) => fits(pattern, text),
                Value::Number(_) | Value::Bool(_) => fits(pattern, &found.to_string()),
                _ => false,
            },
        }
    }
}

/// The same value: numbers by what they mean, not by how they are written.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

pub(super) fn one_of<T: Copy>(word: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}
