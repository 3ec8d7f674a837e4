//! An entry: one version of something that a team remembers.

use std::{fmt, str::FromStr, sync::Arc};

use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::{MemoryId, TeamKey, TeamName},
    text::{Expected, UnknownWord, quoted},
    words,
};
use serde::{Deserialize, Serialize};

use super::{
    error::{LONGEST_KEY, MemoryError, Result},
    provenance::{Origin, Provenance},
};

/// What an entry is saved under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl Key {
    pub fn parse(text: &str) -> Result<Self> {
        let allowed = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'/' | b'-')
        };
        if (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(MemoryError::Key)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One version of something that a team remembers, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: MemoryId,
    pub team: TeamKey,
    pub key: Key,
    /// Its place among the versions of its key, from 1.
    pub version: u32,
    pub content: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The one version of its key that counts.
    pub active: bool,
    /// The version it replaced, or would replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes_id: Option<MemoryId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersede_reason: Option<String>,
    /// The version whose content it brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<MemoryId>,
    /// Where it comes from, by what code knows.
    pub provenance: Provenance,
    /// Where it comes from, by what the model says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Whether a person has looked at it.
    pub review: Review,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed: Option<Remark>,
    /// Goes into prompts before others of its type.
    #[serde(default)]
    pub pinned: bool,
    /// Then it is no longer active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Why it is no longer active, or will never be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Remark>,
    pub updated_by: Actor,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The call that saved it: the same call again has the same result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_by_call: Option<String>,
}

impl Entry {
    /// It waits for a person to put it in the place of the active version.
    pub fn is_proposal(&self) -> bool {
        !self.active && self.review == Review::Pending && self.ended.is_none()
    }

    /// Nobody has said that it can be believed.
    pub fn is_untrusted(&self) -> bool {
        self.review.is_untrusted()
    }
}

words! {
    /// The type of an entry, in the order in which room in a prompt is given out.
    pub enum Kind {
        /// Who the team is.
        Identity = "identity" | "core" | "self",
        /// What it learnt.
        Lesson = "lesson" | "warning" | "insight" | "learning",
        /// What was decided.
        Decision = "decision" | "commitment" | "choice" | "note",
        /// What is going on.
        Context = "context" | "active" | "background",
        /// Where something is to be found.
        Reference = "reference" | "pointer" | "link",
        /// What was once.
        Historical = "historical" | "archive" | "past",
    }
}

impl Kind {
    /// The type that a word of a model stands for, in any case.
    pub fn named(word: &str) -> Result<Self> {
        match word.trim().to_lowercase().as_str() {
            "" => Ok(Self::Context),
            lower => lower.parse::<Self>().map_err(|UnknownWord { words }| {
                MemoryError::UnknownType { word: excerpt::line(word, 64), known: quoted(words) }
            }),
        }
    }

    /// Entries of this type go into prompts by themselves.
    pub fn is_injected(self) -> bool {
        !matches!(self, Self::Reference | Self::Historical)
    }
}

words! {
    /// Whether a person has looked at an entry.
    pub enum Review {
        /// Nobody has to.
        NotNeeded = "not_needed",
        /// Not yet.
        Pending = "pending",
        /// Yes, and it is fine.
        Approved = "approved",
        /// Yes, and it is not.
        Rejected = "rejected",
    }
}

impl Review {
    /// Nobody has said that it can be believed.
    pub fn is_untrusted(self) -> bool {
        matches!(self, Self::Pending | Self::Rejected)
    }
}

/// Something done to an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    pub at: Timestamp,
    pub by: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    Team(TeamName),
    /// An operator, by the name of the token.
    Operator(String),
    System,
    Import,
}

impl Actor {
    /// Where what someone writes by themselves comes from, outside of any task.
    pub fn provenance(&self) -> Provenance {
        match self {
            Self::Operator(name) => Provenance::of(Origin::Operator, Some(name.clone())),
            Self::Team(name) => Provenance::of(Origin::Team, Some(name.to_string())),
            Self::System => Provenance::of(Origin::System, None),
            Self::Import => Provenance::of(Origin::Import, None),
        }
    }
}

hivewright_actors::text!(serde Actor);

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Team(name) => write!(f, "team:{name}"),
            Self::Operator(name) => write!(f, "operator:{name}"),
            Self::System => f.write_str("system"),
            Self::Import => f.write_str("import"),
        }
    }
}

impl FromStr for Actor {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("team", name)) => Ok(Self::Team(name.into())),
            Some(("operator", name)) => Ok(Self::Operator(name.to_owned())),
            None if text == "system" => Ok(Self::System),
            None if text == "import" => Ok(Self::Import),
            _ => Err(Expected("`team:…`, `operator:…`, `system` or `import`")),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// MV-01
    #[test]
    fn a_key_has_few_kinds_of_characters() {
        for good in ["a", "scout:last_seen", "Project/Notes-1.2", &"k".repeat(128)] {
            assert_eq!(Key::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a|b", "ä", "a\n", &"k".repeat(129)] {
            assert_eq!(Key::parse(bad), Err(MemoryError::Key), "{bad}");
        }
    }

    /// MV-01
    #[test]
    fn an_actor_is_stored_as_a_word() {
        let table = [
            (Actor::Team("ops".into()), "\"team:ops\""),
            (Actor::Operator("ci".into()), "\"operator:ci\""),
            (Actor::System, "\"system\""),
            (Actor::Import, "\"import\""),
        ];
        for (actor, text) in table {
            assert_eq!(serde_json::to_string(&actor).unwrap(), text);
            assert_eq!(serde_json::from_str::<Actor>(text).unwrap(), actor);
        }
        assert!(serde_json::from_str::<Actor>("\"nobody\"").is_err());
    }

    /// MV-03
    #[test]
    fn each_type_is_known_by_its_name_and_its_aliases() {
        let table = [
            (Kind::Identity, vec!["identity", "core", "self"]),
            (Kind::Lesson, vec!["lesson", "warning", "insight", "learning"]),
            (Kind::Decision, vec!["decision", "commitment", "choice", "note"]),
            (Kind::Context, vec!["context", "active", "background", ""]),
            (Kind::Reference, vec!["reference", "pointer", "link"]),
            (Kind::Historical, vec!["historical", "archive", "past"]),
        ];
        for (kind, words) in table {
            for word in words {
                assert_eq!(Kind::named(word), Ok(kind), "{word}");
                assert_eq!(Kind::named(&word.to_uppercase()), Ok(kind), "{word}");
            }
        }
    }

    /// MV-03
    #[test]
    fn an_unknown_type_is_refused_with_the_six_there_are() {
        let error = Kind::named("feeling").unwrap_err();

        assert_eq!(error.code(), "invalid_input");
        assert_eq!(
            error.to_string(),
            "unknown type `feeling`; there are `identity`, `lesson`, `decision`, `context`, `reference`, `historical`"
        );
    }
}
