//! Why the service does not start.

use std::{io, net::SocketAddr};

use crate::{
    settings::{error::StartError, problem::Problem},
    storage::error::OpenError,
};

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
    #[error("`{}` cannot be used for TLS: {}; see `server.tls`", .0.file, .0.reason)]
    Certificate(Problem),
    /// Something else that the machine refused.
    #[error("{what}: {reason}")]
    Machine { what: &'static str, reason: String },
}

impl ServiceError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start(error) => error.exit_code(),
            Self::Store(error) => error.exit_code(),
            Self::Certificate(_) => 3,
            Self::Listen { .. } | Self::Machine { .. } => 1,
        }
    }
}

pub(super) fn machine(what: &'static str, reason: impl ToString) -> ServiceError {
    ServiceError::Machine { what, reason: reason.to_string() }
}
