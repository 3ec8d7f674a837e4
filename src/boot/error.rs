//! Why the service does not start.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::{settings::error::StartError, storage::open::OpenError};

/// Why the service did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The settings or the folders are not as they must be.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another with `--port` or `server.port`")]
    Listen {
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("`{path}` cannot be used for TLS: {reason}; see `server.tls`", path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something else that the machine refused.
    #[error("{what}: {reason}")]
    Machine {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        reason: String,
    },
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
