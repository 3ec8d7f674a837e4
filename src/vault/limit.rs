//! Limits of what the vault keeps.

use super::scope::Scope;

/// The longest key, in characters.
pub const LONGEST_KEY: usize = 128;
/// The largest value, in bytes.
pub const LARGEST_VALUE: usize = 64 * 1024;
/// A shorter secret could not be told from other text.
pub const SHORTEST_SECRET: usize = 8;
/// The longest note, in characters.
pub const LONGEST_NOTE: usize = 500;
/// Patterns in a list.
pub(super) const MOST_PATTERNS: usize = 100;
pub(super) const LONGEST_PATTERN: usize = 253;

/// What is outside its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    #[error(
        "a key has 1 to {LONGEST_KEY} of letters, digits, `_`, `.`, `:` and `-`; this one has {0} characters"
    )]
    Key(usize),
    #[error(
        "a secret has at least {SHORTEST_SECRET} bytes, or it could not be scrubbed; this one has {0}"
    )]
    TooShort(usize),
    #[error("a value has at least one byte")]
    Empty,
    #[error("a value has at most {LARGEST_VALUE} bytes; this one has {0}")]
    TooLarge(usize),
    #[error("a note has at most {LONGEST_NOTE} characters; this one has {0}")]
    Note(usize),
    #[error(
        "{0} is a list of at most {MOST_PATTERNS} patterns of 1 to {LONGEST_PATTERN} characters without space"
    )]
    Patterns(&'static str),
    #[error("{scope} has {most} entries, which is the most it can have; delete one first")]
    Entries { scope: Scope, most: usize },
    /// There is no room for other credentials of teams that are not made yet.
    #[error(
        "so many credentials of this team's calls wait for a decision that no others fit, at most {0}; the operator decides on those first"
    )]
    Waiting(usize),
}

impl Limit {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Key(_) => "invalid_key",
            Self::TooShort(_) | Self::Empty => "too_short",
            Self::TooLarge(_) => "too_large",
            Self::Entries { .. } | Self::Waiting(_) => "limit_entries",
            Self::Note(_) | Self::Patterns(_) => "invalid_input",
        }
    }
}
