//! Why a credential was not made, changed or removed.

use std::{io, path::PathBuf};

use hivewright_actors::{storage::StorageError, store::StoreError};

use crate::api::scope::Scope;

/// Why a credential was not made, changed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// Names are used in lists of senders, so they are plain.
    #[error(
        "a token name has 1 to 64 of `a-z 0-9 . _ -`, begins with a letter or digit, and means nobody else, such as `operator` or `nobody`"
    )]
    Name,
    /// Two tokens with one name would be one sender.
    #[error("there is a token named `{0}` already")]
    NameTaken(String),
    /// A token without rights is good for nothing.
    #[error("a token needs at least one scope")]
    NoScopes,
    /// Nobody gives what they do not have.
    #[error("scope `{0}` cannot be given by someone who does not have it")]
    BeyondOwn(Scope),
    /// Nobody gives teams that they do not reach.
    #[error("team `{0}` cannot be given by someone whose token is not for it")]
    BeyondOwnTeams(String),
    /// A token for no team reaches nothing.
    #[error("a token is for 1 to 100 teams; leave `teams` out for all")]
    NoTeams,
    /// The moment has no date.
    #[error("a token expires after 1m to 3650d, or `never`")]
    Expiry,
    /// Every token is compared on every request, so there is a bound.
    #[error("there are {0} tokens already; revoke one first")]
    TooMany(usize),
    /// No such token.
    #[error("there is no token `{0}`")]
    Unknown(String),
    /// The operator token is replaced, never revoked.
    #[error("the operator token can be rotated, not revoked")]
    Operator,
    /// The credential that was to be used has ended.
    #[error("the credential has ended")]
    Ended,
    /// The file of the operator token cannot be used.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of the operator token holds something else.
    #[error("{} does not hold an operator token; remove it to have a new one made", path.display())]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
    /// The machine gives no random numbers.
    #[error("the system has no random numbers")]
    Randomness,
    /// The change is not safe.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The credentials cannot be read, or the change cannot be written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
