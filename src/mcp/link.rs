//! An open connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, PingRequest},
    service::ServiceError,
};
use tokio_util::sync::CancellationToken;

use super::{fault::Faults, opening::Opened, program::Remark};

/// A server that lives says so in this time.
const PING: Duration = Duration::from_secs(2);

/// An open connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) number: usize,
    pub(super) peer: Peer<RoleClient>,
    pub(super) faults: Faults,
    /// A call was given up: the server may be stuck.
    pub(super) doubted: Arc<AtomicBool>,
    /// Ends it.
    pub(super) end: CancellationToken,
    /// Nothing of it is left.
    pub(super) over: CancellationToken,
}

impl Link {
    pub(super) fn new(number: usize, opened: &Opened) -> Self {
        Self {
            number,
            peer: opened.service.peer().clone(),
            faults: opened.faults.clone(),
            doubted: Arc::default(),
            end: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }

    /// Whether calls can be made. A server in doubt is asked; one that does not answer is ended.
    pub(super) async fn is_alive(&self) -> bool {
        if self.peer.is_transport_closed()
            || self.end.is_cancelled()
            || self.faults.said().is_some()
        {
            return false;
        }
        if !self.doubted.load(Ordering::Relaxed) {
            return true;
        }
        let ping = self.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        let answers = matches!(
            tokio::time::timeout(PING, ping).await,
            Ok(Ok(_) | Err(ServiceError::McpError(_)))
        );
        if answers {
            self.doubted.store(false, Ordering::Relaxed);
        } else {
            self.faults.say("it does not answer any more");
        }
        answers
    }
}

/// The reason of a failure, with what the program wrote last to its error output.
pub(super) fn with_remark(reason: String, remark: &Remark) -> String {
    match remark.last() {
        Some(last) => format!("{reason}; its last words: {last}"),
        None => reason,
    }
}
