//! Rules of the operator: which teams may use what, on whose behalf, under which conditions.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Request, Role, Subject,
    caution::Risk,
    resource::{Mode, Resource},
};
use crate::{
    clock::Timestamp,
    text::{Expected, Text},
    wildcard::fits,
    words,
};

const MOST_CONDITIONS: usize = 20;
/// A note has at most this many characters.
const LONGEST_NOTE: usize = 2_000;
/// An id has at most this many characters.
const LONGEST_ID: usize = 64;

words! {
    /// What a rule says.
    #[schemars(rename = "RuleEffect")]
    pub enum Effect {
        /// Go ahead.
        Allow = "allow",
        /// Never.
        Deny = "deny",
        /// Not without a person.
        RequireApproval = "require_approval",
    }
}

/// On whose behalf a call is made, as rules tell them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Who {
    #[default]
    Any,
    Role(Role),
    /// One person: channel type and id.
    User(String),
    /// Whoever it is, in a turn that has read untrusted content.
    Untrusted,
}

/// Something that must be true of the arguments: `equals` or `glob`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RuleCondition")]
pub struct Condition {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// Exactly this stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// A text, number or truth value stands there that fits a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
}

/// A rule, in the form that is stored. [`Rule::check`] says whether it makes sense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default)]
    pub id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// From when on it is as if it were not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The teams it concerns: a name with wildcards.
    #[serde(default = "every_team")]
    pub team: String,
    pub resource: Resource,
    /// What is done with files. Rules about anything else have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default)]
    pub principal: Who,
    /// All of these must be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    pub effect: Effect,
    /// How many people must agree. Only one so far, and not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u64>,
    #[serde(default, skip_serializing_if = "is_normal")]
    pub risk: Risk,
}

/// The teams that a rule concerns if it does not say which.
pub fn every_team() -> String {
    "*".to_owned()
}

fn is_normal(risk: &Risk) -> bool {
    *risk == Risk::Normal
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct Invalid {
    pub field: String,
    pub reason: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

crate::text!(Who);

impl Text for Who {
    const FORMAT: &'static str = "principal";
    const PATTERN: &'static str = "^(any|role:.+|user:.+:.+|label:untrusted)$";
    const EXAMPLES: &'static [&'static str] = &["any", "role:user", "user:ws:ann"];
}

impl FromStr for Who {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let found = match text.split_once(':') {
            None if text == "any" => Some(Self::Any),
            Some(("role", role)) => role.parse().ok().map(Self::Role),
            Some(("label", "untrusted")) => Some(Self::Untrusted),
            Some(("user", user)) => user
                .split_once(':')
                .filter(|(channel, id)| !channel.is_empty() && !id.is_empty())
                .map(|_| Self::User(user.to_owned())),
            _ => None,
        };
        found.ok_or(Expected(
            "`any`, `role:operator`, `role:user`, `role:guest`, `role:system`, \
             `user:<channel type>:<id>` or `label:untrusted`",
        ))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Role(role) => write!(f, "role:{role}"),
            Self::User(user) => write!(f, "user:{user}"),
            Self::Untrusted => f.write_str("label:untrusted"),
        }
    }
}

impl Who {
    fn is(&self, subject: &Subject) -> bool {
        match self {
            Self::Any => true,
            Self::Role(role) => *role == subject.role,
            Self::User(user) => subject.user.as_ref() == Some(user),
            Self::Untrusted => subject.untrusted,
        }
    }
}

impl Rule {
    /// A rule for every team and everybody.
    pub fn new(id: &str, resource: Resource, effect: Effect) -> Self {
        Self {
            id: id.to_owned(),
            note: String::new(),
            expires_at: None,
            team: every_team(),
            resource,
            mode: None,
            principal: Who::Any,
            when: Vec::new(),
            effect,
            quorum: None,
            risk: Risk::Normal,
        }
    }

    /// The rule in the form that is stored, if it makes sense.
    pub fn check(mut self) -> Result<Self, Invalid> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-:".contains(c);
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?".contains(c);
        if self.id.is_empty() || self.id.len() > LONGEST_ID || !self.id.chars().all(plain) {
            return Err(Invalid::new("id", "expected 1 to 64 letters, digits or one of `_.-:`"));
        }
        if self.note.chars().count() > LONGEST_NOTE {
            return Err(Invalid::new("note", "a note has at most 2000 characters"));
        }
        if self.team.is_empty() || !self.team.chars().all(named) {
            let reason = "expected the name of a team; `*` and `?` are the wildcards";
            return Err(Invalid::new("team", reason));
        }
        let is_file = matches!(self.resource, Resource::File(_));
        if self.mode.is_some() && !is_file {
            return Err(Invalid::new("mode", "belongs to a `file:` resource only"));
        }
        if self.when.len() > MOST_CONDITIONS {
            return Err(Invalid::new("when", "a rule has at most 20 conditions"));
        }
        for (place, condition) in self.when.iter().enumerate() {
            condition.check(place)?;
        }
        if self.quorum.take().is_some_and(|people| people != 1) {
            return Err(Invalid::new("quorum", "one person decides; more than 1 is not supported"));
        }
        self.mode = is_file.then(|| self.file_mode());
        Ok(self)
    }

    fn file_mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

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
            .filter(|touch| self.resource.is_about(touch, self.file_mode()))
            .map(|touch| self.resource.fits(touch, self.file_mode(), permits))
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
                || request
                    .touches
                    .iter()
                    .any(|touch| self.resource.is_about(touch, self.file_mode())))
    }
}

impl Condition {
    fn check(&self, place: usize) -> Result<(), Invalid> {
        if !is_pointer(&self.pointer) {
            let reason = "expected a JSON pointer such as `/command`";
            return Err(Invalid::new(format!("when[{place}].pointer"), reason));
        }
        if self.equals.is_some() == self.glob.is_some() {
            return Err(Invalid::new(format!("when[{place}]"), "give either `equals` or `glob`"));
        }
        Ok(())
    }

    fn is_true(&self, args: &Value) -> bool {
        let Some(found) = args.pointer(&self.pointer) else { return false };
        let equals = self.equals.as_ref().is_none_or(|value| same(value, found));
        let fits_glob = |pattern: &String| match found {
            Value::String(text) => fits(pattern, text),
            Value::Number(_) | Value::Bool(_) => fits(pattern, &found.to_string()),
            _ => false,
        };
        equals && self.glob.as_ref().is_none_or(fits_glob)
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

/// RFC 6901: empty, or parts behind slashes in which `~` stands only before 0 and 1.
fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|part| part.starts_with(['0', '1']))
}
