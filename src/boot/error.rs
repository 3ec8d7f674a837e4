//! Why the service does not start.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::{settings::error::StartError, storage::open::OpenError};

/// Why the service did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("cannot listen on {address}: {source}; choose another with `--port` or `server.port`")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("`{path}` cannot be used for TLS: {reason}; see `server.tls`", path = path.display())]
    Certificate { path: PathBuf, reason: String },
    /// Something else that the machine refused.
    #[error("{what}: {reason}")]
    Machine { what: &'static str, reason: String },
}

impl ServiceError {
    /// What the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start(error) => error.exit_code(),
            Self::Store(error) => error.exit_code(),
            Self::Certificate { .. } => 3,
            Self::Listen { .. } | Self::Machine { .. } => 1,
        }
    }
}

pub(super) fn machine(what: &'static str, reason: impl ToString) -> ServiceError {
    ServiceError::Machine { what, reason: reason.to_string() }
}
