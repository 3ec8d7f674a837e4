//! An open connection.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, PingRequest},
    service::ServiceError,
};
use tokio_util::sync::CancellationToken;

use super::{fault::Faults, opening::Opened};

/// A server that lives says so in this time.
const PING: Duration = Duration::from_secs(2);

/// An open connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) number: usize,
    pub(super) peer: Peer<RoleClient>,
    pub(super) faults: Faults,
    /// Why the server may be stuck, since a call came to nothing.
    doubt: Arc<Mutex<Option<String>>>,
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
            doubt: Arc::default(),
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
        let Some(why) = self.doubt.lock().clone() else { return true };
        let ping = self.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        let answers = matches!(
            tokio::time::timeout(PING, ping).await,
            Ok(Ok(_) | Err(ServiceError::McpError(_)))
        );
        if answers {
            *self.doubt.lock() = None;
        } else {
            self.faults.say(format!("it does not answer any more: {why}"));
        }
        answers
    }

    /// From now on the server is asked whether it lives before it is called.
    pub(super) fn put_in_doubt(&self, why: String) {
        *self.doubt.lock() = Some(why);
    }
}
