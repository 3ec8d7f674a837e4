//! What kind of thing an entry is: six types, each with the words that people use for it.

use hivewright_actors::{excerpt, words};

use super::error::{MemoryError, Result};

words! {
    /// The type of an entry, in the order in which room in a prompt is given out.
    pub enum Kind {
        /// Who the team is.
        Identity = "identity",
        /// What it learnt.
        Lesson = "lesson",
        /// What was decided.
        Decision = "decision",
        /// What is going on.
        Context = "context",
        /// Where something is to be found.
        Reference = "reference",
        /// What was once.
        Historical = "historical",
    }
}

impl Kind {
    fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Identity => &["core", "self"],
            Self::Lesson => &["warning", "insight", "learning"],
            Self::Decision => &["commitment", "choice", "note"],
            Self::Context => &["active", "background", ""],
            Self::Reference => &["pointer", "link"],
            Self::Historical => &["archive", "past"],
        }
    }

    /// The type that a word stands for, in any case.
    pub fn named(word: &str) -> Result<Self> {
        let lower = word.trim().to_lowercase();
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.as_str() == lower || kind.aliases().contains(&lower.as_str()))
            .ok_or_else(|| MemoryError::UnknownType(excerpt::line(word, 64)))
    }

    /// Entries of this type go into prompts by themselves.
    pub fn is_injected(self) -> bool {
        !matches!(self, Self::Reference | Self::Historical)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

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
