//! Rules as somebody wrote them, and what can be wrong with them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use super::{
    caution::Risk,
    resource::{Mode, Resource},
    rule::{Condition, Effect, Rule, Test, Who, one_of},
};
use crate::clock::Timestamp;

/// A rule may have this many conditions.
const MOST_CONDITIONS: usize = 20;
/// A note has at most this many characters.
const LONGEST_NOTE: usize = 2_000;
/// An id has at most this many characters.
const LONGEST_ID: usize = 64;

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
        Self { field: field.into(), reason: reason.into() }
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
            Some(mode) => {
                one_of(mode, &[("r", Mode::Read), ("w", Mode::Write), ("rw", Mode::Both)])
                    .map_err(at("mode"))?
            }
        };
        let principal = match self.principal {
            Some(text) => Who::parse(&text).map_err(at("principal"))?,
            None => Who::Any,
        };
        if self.when.len() > MOST_CONDITIONS {
            return Err(Invalid::new("when", "a rule has at most 20 conditions"));
        }
        let when = self.when.into_iter().enumerate();
        let when =
            when.map(|(place, condition)| condition.check(place)).collect::<Result<_, _>>()?;
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
        Ok(Condition { pointer: self.pointer, test })
    }
}

/// RFC 6901: empty, or parts behind slashes in which `~` stands only before 0 and 1.
fn is_pointer(text: &str) -> bool {
    let mut after = text.split('~');
    after.next();
    (text.is_empty() || text.starts_with('/'))
        && after.all(|part| part.starts_with('0') || part.starts_with('1'))
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Draft::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Draft::deserialize(deserializer)?.check().map_err(D::Error::custom)
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
            effect: name(rule.effect).map_or("deny", |(name, _)| name).to_owned(),
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
        Self { pointer: condition.pointer, equals, glob }
    }
}
