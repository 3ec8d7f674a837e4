//! Why memory says no.

use std::time::Duration;

use hivewright_actors::{
    clock::millis,
    ids::MemoryId,
    storage::StorageError,
    store::StoreError,
    text::{Words, quoted},
};

use super::{
    entry::{LONGEST_CONTENT, LONGEST_KEY, LONGEST_REASON, MOST_ENTRIES, MOST_LESSONS},
    kind::Kind,
};

/// Why memory could not do as told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A key that cannot be one.
    #[error("`key`: 1 to {LONGEST_KEY} characters out of A-Z, a-z, 0-9 and . _ : / - are allowed")]
    Key,
    /// A content that cannot be one.
    #[error("`content`: {0} bytes; 1 to {LONGEST_CONTENT} are allowed")]
    Content(usize),
    /// A reason that is too long.
    #[error("`{0}`: at most {LONGEST_REASON} characters are allowed")]
    Reason(&'static str),
    /// Too many or too long sources.
    #[error("`sources`: at most 20 of at most {LONGEST_REASON} characters are allowed")]
    Sources,
    /// A lesson that comes from nowhere.
    #[error(
        "`sources`: a lesson of a learning cycle names what it was learnt from: tasks, files, addresses"
    )]
    Unsourced,
    /// One lesson too many.
    #[error(
        "this cycle has kept {MOST_LESSONS} lessons, the most there can be; the rest has to wait for the next"
    )]
    Lessons,
    /// No type has this name.
    #[error("unknown type `{0}`; there are {known}", known = quoted(Kind::WORDS))]
    UnknownType(String),
    /// There is an active entry already.
    #[error(
        "`{key}` exists already and begins: {current}\nTo replace it, save again with `supersede_reason`."
    )]
    Exists {
        key: String,
        /// How it begins.
        current: String,
    },
    /// Someone else saved under the key at the same time.
    #[error(
        "`{key}` was saved by someone else just now and begins: {current}\nLook at it before you save again."
    )]
    Raced {
        key: String,
        /// How it begins now.
        current: String,
    },
    /// The entry is not in a state for it.
    #[error("{0}")]
    State(String),
    /// The content holds the value of a secret. Nothing of it is repeated here.
    #[error(
        "the content holds the value of the secret `{0}`, so nothing was saved; write the reference `${{vault:{0}}}` instead"
    )]
    Secret(String),
    /// The same, of a secret that teams cannot name.
    #[error(
        "the content holds the value of a secret of the service, so nothing was saved; leave it out"
    )]
    HiddenSecret,
    /// The team remembers as much as it may.
    #[error("the team has {MOST_ENTRIES} active entries, the most there can be; delete some first")]
    Full,
    /// Too many saves in a minute.
    #[error("too many saves; try again in {wait} ms", wait = millis(*.0))]
    Rate(Duration),
    /// There is no such entry.
    #[error("there is no memory `{0}`")]
    Unknown(MemoryId),
    /// The team is being shut down.
    #[error("the team is being shut down; nothing is remembered any more")]
    Forgotten,
    /// The store could not be written or read.
    #[error("memory cannot be reached: {0}")]
    Store(String),
}

impl MemoryError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Key
            | Self::Content(_)
            | Self::Reason(_)
            | Self::Sources
            | Self::Unsourced
            | Self::UnknownType(_) => "invalid_input",
            Self::Lessons => "limit_lessons",
            Self::Exists { .. } | Self::Raced { .. } | Self::State(_) | Self::Forgotten => {
                "conflict"
            }
            Self::Secret(_) | Self::HiddenSecret => "secret_not_allowed",
            Self::Full => "limit_entries",
            Self::Rate(_) => "rate_limited",
            Self::Unknown(_) => "not_found",
            Self::Store(_) => "internal",
        }
    }

    /// The field that is wrong, if it is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Key => Some("key"),
            Self::Content(_) | Self::Secret(_) | Self::HiddenSecret => Some("content"),
            Self::Reason(field) => Some(field),
            Self::Sources | Self::Unsourced => Some("sources"),
            Self::UnknownType(_) => Some("type"),
            _ => None,
        }
    }
}

impl From<StoreError> for MemoryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<StorageError> for MemoryError {
    fn from(error: StorageError) -> Self {
        Self::Store(error.to_string())
    }
}
