//! Refusals: why a decision or an answer does not count.

use super::{
    grants::NotGrantable,
    question::{Question, Unfit},
    record::Approval,
};
use crate::{queue::refusal::Refusal, store::StoreError};

/// Why a decision does not count.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDecided {
    /// There is no such approval.
    #[error("there is no such approval")]
    NotFound,
    /// Somebody was first.
    #[error("it has been decided already")]
    AlreadyResolved(Box<Approval>),
    /// The time is over.
    #[error("it has expired, which means denied")]
    Expired(Box<Approval>),
    /// What they saw is not what would run.
    #[error("the digest is another: what was shown is not what would run")]
    DigestMismatch,
    /// They caused the task, and the risk is high.
    #[error("whoever caused the task cannot decide this: its risk is high")]
    NotAllowed,
    /// The same, but nobody else could decide: they have to say that they mean it.
    #[error(
        "you caused this, its risk is high, and nobody else could decide: confirm it by its short id `{0}`"
    )]
    Unconfirmed(String),
    /// It can be decided on alone, and not in advance for others.
    #[error(transparent)]
    NotGrantable(#[from] NotGrantable),
    /// It cannot be looked up.
    #[error("the approval cannot be read")]
    Unreadable,
    /// It cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnswered {
    /// There is no such question.
    #[error("there is no such question")]
    NotFound,
    /// Somebody was first.
    #[error("it has been answered already")]
    AlreadyAnswered(Box<Question>),
    /// The time is over.
    #[error("it has expired")]
    Expired,
    /// The team that asked is gone.
    #[error("the team that asked is gone")]
    Cancelled,
    /// It does not fit the question.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A secret would stand in a conversation.
    #[error("it asks for a secret, which must not stand in a conversation")]
    SecretInChat,
    /// Somebody answers it just now.
    #[error("somebody answers it just now")]
    Busy,
    /// The vault did not take the secret.
    #[error("the vault did not take it: {0}")]
    Vault(String),
    /// The team that asked cannot be given the answer now.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be looked up.
    #[error("the question cannot be read")]
    Unreadable,
}
