//! Why the vault says no.

use std::{io, path::PathBuf};

use hivewright_actors::{storage::StorageError, store::StoreError};

use super::{limit::Limit, scope::Scope};

/// The outcome of what the vault is asked for.
pub type Result<T, E = VaultError> = std::result::Result<T, E>;

/// Why there is no usable key, and where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Locked(pub(crate) String);

/// Why the vault did not do as told. No text holds a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    #[error("the vault is locked: {0}")]
    Locked(Locked),
    #[error("vault key \"{key}\" not found{}", near_keys(near))]
    NotFound {
        key: String,
        /// Keys of the same scope that are written much like it.
        near: Vec<String>,
    },
    #[error("there is an entry `{key}` already; a new one does not replace it")]
    Exists { key: String },
    /// A team may not change a secret, and nobody can make it public again.
    #[error("`{key}` is a secret; {way_out}")]
    IsSecret { key: String, way_out: String },
    #[error(transparent)]
    Limit(#[from] Limit),
    #[error(
        "`{key}` may not be used in `{tool}`; an operator allows it with `hivewright vault set {key} {} --keep-value{}`",
        scope.flag(),
        flags("tool", tools, tool)
    )]
    ToolDenied { key: String, scope: Scope, tool: String, tools: Vec<String> },
    #[error(
        "`{key}` may not be sent to `{host}`; an operator allows it with `hivewright vault set {key} {} --keep-value{}`",
        scope.flag(),
        flags("host", hosts, host)
    )]
    HostDenied { key: String, scope: Scope, host: String, hosts: Vec<String> },
    #[error("`{key}` was changed since the call was approved; ask again")]
    Changed { key: String },
    /// A reference stands where none is expanded, or is none.
    #[error("{0}")]
    Misplaced(String),
    #[error("entry `{key}` of {scope} is corrupt and cannot be read; set it anew with `hivewright vault set {key} {}`", scope.flag())]
    Corrupt { scope: Scope, key: String },
    #[error("`{key}` holds bytes that are no text, so it cannot be used here")]
    NotText { key: String },
    #[error(
        "the master key comes from the systemd credential `hivewright-master-key`; replace it there"
    )]
    NotOurKey,
    #[error(
        "the key in use is `{0}`, since the store is from before a rotation; rename it to `master.key` and start again"
    )]
    OldKey(String),
    #[error("`{}` cannot be written: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the machine has no randomness")]
    Randomness,
    #[error("the vault cannot be written: {0}")]
    Store(#[from] StoreError),
    #[error("the vault cannot be read: {0}")]
    Storage(#[from] StorageError),
    #[error("the vault is not open for changes")]
    NotReady,
}

impl VaultError {
    pub(super) fn corrupt(scope: &Scope, key: &str) -> Self {
        Self::Corrupt { scope: scope.clone(), key: key.to_owned() }
    }

    /// For code: tools, routes, audit.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Locked(_) => "vault_locked",
            Self::NotFound { .. } => "not_found",
            Self::IsSecret { .. } => "is_secret",
            Self::Limit(limit) => limit.code(),
            Self::ToolDenied { .. } => "secret_tool_denied",
            Self::HostDenied { .. } => "secret_host_denied",
            Self::Changed { .. } => "digest_mismatch",
            Self::Misplaced(_) => "secret_not_allowed",
            Self::Corrupt { .. } => "corrupt",
            Self::NotText { .. } => "not_text",
            Self::NotOurKey | Self::OldKey(_) | Self::Exists { .. } => "conflict",
            Self::File { .. }
            | Self::Randomness
            | Self::Store(_)
            | Self::Storage(_)
            | Self::NotReady => "internal",
        }
    }
}

/// What a list would have to be, as flags of a command.
fn flags(name: &str, list: &[String], more: &String) -> String {
    list.iter().chain([more]).map(|text| format!(" --{name} '{text}'")).collect()
}

fn near_keys(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; there are \"{}\"", near.join("\", \"")),
    }
}
