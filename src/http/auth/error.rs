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
    #[error("a token expires after 1m to 3650d, or `never`")]
    Expiry,
    /// Every token is compared on every request, so there is a bound.
    #[error("there are {0} tokens already; revoke one first")]
    TooMany(usize),
    #[error("there is no token `{0}`")]
    Unknown(String),
    /// The operator token is replaced, never revoked.
    #[error("the operator token can be rotated, not revoked")]
    Operator,
    #[error("the credential has ended")]
    Ended,
    #[error("{} cannot be used", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} does not hold an operator token; remove it to have a new one made", path.display())]
    NotAToken { path: PathBuf },
    #[error("the system has no random numbers")]
    Randomness,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}
