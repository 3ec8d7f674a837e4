//! Rules of the operator: which teams may use what, on whose behalf, under which conditions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Request, Role, Subject,
    class::Risk,
    glob::fits,
    resource::{Mode, Resource},
};
use crate::clock::Timestamp;

/// A rule may have this many conditions.
const MOST_CONDITIONS: usize = 20;
/// A note has at most this many characters.
const LONGEST_NOTE: usize = 2_000;
/// An id has at most this many characters.
const LONGEST_ID: usize = 64;

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
    pub const ALL: [(&'static str, Self); 3] = [
        ("allow", Self::Allow),
        ("deny", Self::Deny),
        ("require_approval", Self::RequireApproval),
    ];
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Draft", into = "Draft")]
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

/// A rule as somebody wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// See [`Rule::id`].
    #[serde(default)]
    pub id: String,
    /// See [`Rule::note`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// See [`Rule::expires_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// See [`Rule::team`]. None is every team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// See [`Rule::resource`].
    pub resource: String,
    /// `r`, `w` or `rw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// `any`, `role:…`, `user:<channel type>:<id>` or `label:untrusted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// See [`Rule::when`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<DraftCondition>,
    /// `allow`, `deny` or `require_approval`.
    pub effect: String,
    /// How many people must agree. Only one so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u64>,
    /// `normal` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// A condition as somebody wrote it: `equals` or `glob`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftCondition {
    /// See [`Condition::pointer`].
    pub pointer: String,
    /// See [`Test::Equals`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// See [`Test::Glob`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct Invalid {
    /// Where.
    pub field: String,
    /// What, and what would be right.
    pub reason: String,
}

impl Invalid {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

impl Draft {
    /// The rule, if it makes sense.
    pub fn check(self) -> Result<Rule, Invalid> {
        let at = |field: &'static str| move |reason: String| Invalid::new(field, reason);
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-:".contains(c);
        if self.id.is_empty() || self.id.len() > LONGEST_ID || !self.id.chars().all(plain) {
            let reason = "expected 1 to 64 letters, digits or one of `_.-:`";
            return Err(Invalid::new("id", reason));
        }
        if self.note.chars().count() > LONGEST_NOTE {
            return Err(Invalid::new("note", "a note has at most 2000 characters"));
        }
        let team = self.team.unwrap_or_else(|| "*".to_owned());
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?".contains(c);
        if team.is_empty() || !team.chars().all(named) {
            let reason = "expected the name of a team; `*` and `?` are the wildcards";
            return Err(Invalid::new("team", reason));
        }
        let resource = Resource::parse(&self.resource).map_err(at("resource"))?;
        let is_file = matches!(resource, Resource::File(_));
        let mode = match self.mode.as_deref() {
            None => Mode::Both,
            Some(_) if !is_file => {
                return Err(Invalid::new("mode", "belongs to a `file:` resource only"));
            }
            Some(mode) => one_of(
                mode,
                &[("r", Mode::Read), ("w", Mode::Write), ("rw", Mode::Both)],
            )
            .map_err(at("mode"))?,
        };
        let principal = match self.principal {
            Some(text) => Who::parse(&text).map_err(at("principal"))?,
            None => Who::Any,
        };
        if self.when.len() > MOST_CONDITIONS {
            return Err(Invalid::new("when", "a rule has at most 20 conditions"));
        }
        let when = self.when.into_iter().enumerate();
        let when = when
            .map(|(place, condition)| condition.check(place))
            .collect::<Result<_, _>>()?;
        let effect = one_of(&self.effect, &Effect::ALL).map_err(at("effect"))?;
        if self.quorum.is_some_and(|people| people != 1) {
            let reason = "one person decides; more than 1 is not supported";
            return Err(Invalid::new("quorum", reason));
        }
        let risks = [("normal", Risk::Normal), ("high", Risk::High)];
        let risk = match self.risk {
            Some(risk) => one_of(&risk, &risks).map_err(at("risk"))?,
            None => Risk::Normal,
        };
        Ok(Rule {
            id: self.id,
            note: self.note,
            expires_at: self.expires_at,
            team,
            resource,
            mode,
            principal,
            when,
            effect,
            risk,
        })
    }
}

fn one_of<T: Copy>(word: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

impl DraftCondition {
    fn check(self, place: usize) -> Result<Condition, Invalid> {
        let field = |name: &str| format!("when[{place}].{name}");
        if !is_pointer(&self.pointer) {
            let reason = "expected a JSON pointer such as `/command`";
            return Err(Invalid::new(field("pointer"), reason));
        }
        let test = match (self.equals, self.glob) {
            (Some(value), None) => Test::Equals(value),
            (None, Some(pattern)) => Test::Glob(pattern),
            _ => {
                let reason = "give either `equals` or `glob`";
                return Err(Invalid::new(format!("when[{place}]"), reason));
            }
        };
        Ok(Condition {
            pointer: self.pointer,
            test,
        })
    }
}

/// RFC 6901: empty, or parts behind slashes in which `~` stands only before 0 and 1.
fn is_pointer(text: &str) -> bool {
    let mut after = text.split('~');
    after.next();
    (text.is_empty() || text.starts_with('/'))
        && after.all(|part| part.starts_with('0') || part.starts_with('1'))
}

impl TryFrom<Draft> for Rule {
    type Error = Invalid;

    fn try_from(draft: Draft) -> Result<Self, Invalid> {
        draft.check()
    }
}

impl From<Rule> for Draft {
    fn from(rule: Rule) -> Self {
        let name = |effect| Effect::ALL.iter().find(|(_, known)| *known == effect);
        let is_file = matches!(rule.resource, Resource::File(_));
        let mode = match rule.mode {
            Mode::Read => "r",
            Mode::Write => "w",
            Mode::Both => "rw",
        };
        Self {
            id: rule.id,
            note: rule.note,
            expires_at: rule.expires_at,
            team: Some(rule.team),
            resource: rule.resource.to_string(),
            mode: is_file.then(|| mode.to_owned()),
            principal: Some(rule.principal.to_string()),
            when: rule.when.into_iter().map(DraftCondition::from).collect(),
            effect: name(rule.effect)
                .map_or("deny", |(name, _)| name)
                .to_owned(),
            quorum: None,
            risk: (rule.risk == Risk::High).then(|| "high".to_owned()),
        }
    }
}

impl From<Condition> for DraftCondition {
    fn from(condition: Condition) -> Self {
        let (equals, glob) = match condition.test {
            Test::Equals(value) => (Some(value), None),
            Test::Glob(pattern) => (None, Some(pattern)),
        };
        Self {
            pointer: condition.pointer,
            equals,
            glob,
        }
    }
}

impl Who {
    /// Reads `any`, `role:…`, `user:<channel type>:<id>` or `label:untrusted`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected `any`, `role:operator`, `role:user`, `role:guest`, `role:system`, \
            `user:<channel type>:<id>` or `label:untrusted`";
        let wrong = || expected.to_owned();
        match text.split_once(':') {
            None if text == "any" => Ok(Self::Any),
            Some(("role", role)) => one_of(role, &Role::ALL)
                .map(Self::Role)
                .map_err(|_| wrong()),
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
            && self
                .when
                .iter()
                .all(|condition| condition.is_true(request.args))
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
        match permits {
            true => touched.peek().is_some() && touched.all(|fits| fits),
            false => touched.any(|fits| fits),
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
                    .any(|touch| self.resource.is_about(touch, self.mode)))
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
