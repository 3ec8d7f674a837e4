//! Why memory says no: its limits, and what else may be wrong.

use std::time::Duration;

use hivewright_actors::{clock::millis, ids::MemoryId, storage::StorageError, store::StoreError};

/// The longest key, in characters.
pub const LONGEST_KEY: usize = 128;
/// The longest content, in bytes.
pub const LONGEST_CONTENT: usize = 65_536;
/// The longest reason or source, in characters.
pub const LONGEST_REASON: usize = 500;
pub const MOST_SOURCES: usize = 20;
/// The most lessons that a team keeps while it looks back at its work once.
pub const MOST_LESSONS: usize = 5;
pub const MOST_ENTRIES: usize = 5_000;
pub const MOST_VERSIONS: usize = 200;

/// The outcome of what the memory is asked for.
pub type Result<T, E = MemoryError> = std::result::Result<T, E>;

/// Why memory could not do as told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    #[error("`key`: 1 to {LONGEST_KEY} characters out of A-Z, a-z, 0-9 and . _ : / - are allowed")]
    Key,
    #[error("`content`: {0} bytes; 1 to {LONGEST_CONTENT} are allowed")]
    Content(usize),
    #[error("`{0}`: at most {LONGEST_REASON} characters are allowed")]
    Reason(&'static str),
    #[error("`sources`: at most {MOST_SOURCES} of at most {LONGEST_REASON} characters are allowed")]
    Sources,
    #[error(
        "`sources`: a lesson of a learning cycle names what it was learnt from: tasks, files, addresses"
    )]
    Unsourced,
    #[error(
        "this cycle has kept {MOST_LESSONS} lessons, the most there can be; the rest has to wait for the next"
    )]
    Lessons,
    #[error("unknown type `{word}`; there are {known}")]
    UnknownType { word: String, known: String },
    #[error(
        "`{key}` exists already and begins: {current}\nTo replace it, save again with `supersede_reason`."
    )]
    Exists { key: String, current: String },
    /// Someone else saved under the key at the same time.
    #[error(
        "`{key}` was saved by someone else just now and begins: {current}\nLook at it before you save again."
    )]
    Raced { key: String, current: String },
    #[error("{0}")]
    State(String),
    /// The content holds the value of a secret. Nothing of it is repeated here.
    #[error(
        "the content holds the value of the secret `{0}`, so nothing was saved; write the reference `${{vault:{0}}}` instead"
    )]
    Secret(String),
    #[error(
        "the content holds the value of a secret of the service, so nothing was saved; leave it out"
    )]
    HiddenSecret,
    #[error("the team has {MOST_ENTRIES} active entries, the most there can be; delete some first")]
    Full,
    #[error("too many saves; try again in {wait} ms", wait = millis(*.0))]
    Rate(Duration),
    #[error("there is no memory `{0}`")]
    Unknown(MemoryId),
    #[error("the team is being shut down; nothing is remembered any more")]
    Forgotten,
    #[error("memory cannot be reached: {0}")]
    Store(#[from] StoreError),
    #[error("memory cannot be reached: {0}")]
    Storage(#[from] StorageError),
}

impl MemoryError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Key
            | Self::Content(_)
            | Self::Reason(_)
            | Self::Sources
            | Self::Unsourced
            | Self::UnknownType { .. } => "invalid_input",
            Self::Lessons => "limit_lessons",
            Self::Exists { .. } | Self::Raced { .. } | Self::State(_) | Self::Forgotten => {
                "conflict"
            }
            Self::Secret(_) | Self::HiddenSecret => "secret_not_allowed",
            Self::Full => "limit_entries",
            Self::Rate(_) => "rate_limited",
            Self::Unknown(_) => "not_found",
            Self::Store(_) | Self::Storage(_) => "internal",
        }
    }

    /// The field that is wrong, if it is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Key => Some("key"),
            Self::Content(_) | Self::Secret(_) | Self::HiddenSecret => Some("content"),
            Self::Reason(field) => Some(field),
            Self::Sources | Self::Unsourced => Some("sources"),
            Self::UnknownType { .. } => Some("type"),
            _ => None,
        }
    }
}
