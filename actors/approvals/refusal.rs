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
    #[error("there is no such approval")]
    NotFound,
    #[error("it has been decided already")]
    AlreadyResolved(Box<Approval>),
    #[error("it has expired, which means denied")]
    Expired(Box<Approval>),
    #[error("the digest is another: what was shown is not what would run")]
    DigestMismatch,
    #[error("whoever caused the task cannot decide this: its risk is high")]
    NotAllowed,
    #[error(
        "you caused this, its risk is high, and nobody else could decide: confirm it by its short id `{0}`"
    )]
    Unconfirmed(String),
    #[error(transparent)]
    NotGrantable(#[from] NotGrantable),
    #[error("the approval cannot be read")]
    Unreadable,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnswered {
    #[error("there is no such question")]
    NotFound,
    #[error("it has been answered already")]
    AlreadyAnswered(Box<Question>),
    #[error("it has expired")]
    Expired,
    #[error("the team that asked is gone")]
    Cancelled,
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("it asks for a secret, which must not stand in a conversation")]
    SecretInChat,
    #[error("somebody answers it just now")]
    Busy,
    #[error("the vault did not take it: {0}")]
    Vault(String),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the question cannot be read")]
    Unreadable,
}
