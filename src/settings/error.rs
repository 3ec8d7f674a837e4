//! Why the service does not start.

use std::{io, net::IpAddr, path::PathBuf};

use super::problem::Problems;

/// A start that was refused. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("{0}")]
    Invalid(#[from] Problems),
    #[error("no home folder: set `HOME` or `HIVEWRIGHT_HOME`, or give `--home`")]
    NoHome,
    #[error(
        "data dir `{data}` and run dir `{run}` lie inside each other; give them separate folders",
        data = data.display(),
        run = run.display()
    )]
    Nested { data: PathBuf, run: PathBuf },
    #[error(
        "`{path}` is open to other users of this machine; `chmod {wanted} {path}`",
        path = path.display()
    )]
    OpenSecret {
        path: PathBuf,
        /// The mode it should have.
        wanted: &'static str,
    },
    /// The server would be open to the network without encryption.
    #[error(
        "listening on {bind} needs encryption: set `server.tls`, or name the proxy that ends TLS in `server.trusted_proxies`"
    )]
    Exposed { bind: IpAddr },
    #[error(
        "already running as process {} in `{run}`",
        pid.map_or("(unknown)".to_owned(), |pid| pid.to_string()),
        run = run.display()
    )]
    Running {
        /// That process, as far as it is known.
        pid: Option<u32>,
        run: PathBuf,
    },
    #[error("`{path}` cannot be used", path = path.display())]
    Unusable { path: PathBuf, source: io::Error },
}

impl StartError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unusable { .. } => 1,
            Self::Running { .. } => 6,
            Self::Invalid(_)
            | Self::NoHome
            | Self::Nested { .. }
            | Self::OpenSecret { .. }
            | Self::Exposed { .. } => 3,
        }
    }
}
