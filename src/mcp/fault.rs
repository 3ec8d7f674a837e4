//! Faults: why a call of a server came to nothing, and why a connection ended.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use hivewright_actors::text::Span;
use tokio_util::sync::CancellationToken;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    #[error("the MCP server `{server}` cannot be used now{}{}", answered(*status), again(*retry_in))]
    Unreachable {
        server: String,
        /// For the operator: it may hold words of the server.
        reason: String,
        /// The HTTP status that it answered with.
        status: Option<u16>,
        retry_in: Option<Duration>,
    },
    #[error("the MCP server `{server}` answered with HTTP {status}{}; the next call asks it again", effect(*status))]
    Status { server: String, status: u16 },
    #[error(
        "the MCP server `{server}` ended during the call; whether the call took effect is not known"
    )]
    Ended { server: String },
    #[error("the call was stopped; the MCP server `{server}` was told")]
    Stopped { server: String },
    /// The words are the server's.
    #[error("{message}")]
    Refused { message: String },
    #[error("the MCP server `{server}` wants {what} for this call, which is not given to servers")]
    Wants { server: String, what: &'static str },
    #[error("the MCP server `{server}` answered something else than the result of a call")]
    Senseless { server: String },
}

fn answered(status: Option<u16>) -> String {
    status.map(|status| format!(": it answered with HTTP {status}")).unwrap_or_default()
}

/// What such an answer says of the call. A server that failed, or one in front of it, may have begun with it.
fn effect(status: u16) -> &'static str {
    if status >= 500 {
        "; whether the call took effect is not known"
    } else {
        "; the call was not made"
    }
}

fn again(retry_in: Option<Duration>) -> String {
    match retry_in {
        Some(wait) => {
            format!("; it is tried again in {}", Span(Duration::from_secs(wait.as_secs() + 1)))
        }
        None => String::new(),
    }
}

/// Why a connection must end. The first word counts: what follows is its consequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    first: Arc<OnceLock<String>>,
    heard: CancellationToken,
    /// The last HTTP status that was none of a success; 0 if there was none.
    status: Arc<AtomicU16>,
}

impl Faults {
    pub(crate) fn say(&self, reason: impl Into<String>) {
        // Another was first.
        let _ = self.first.set(reason.into());
        self.heard.cancel();
    }

    pub(crate) fn said(&self) -> Option<String> {
        self.first.get().cloned()
    }

    pub(super) fn answered(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The last HTTP status in place of an answer.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// Waits for the first.
    pub(crate) async fn heard(&self) -> String {
        self.heard.cancelled().await;
        self.said().unwrap_or_default()
    }
}
