//! An open connection, until its end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, PingRequest},
    service::ServiceError,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    fault::Faults,
    opening::Opened,
    program::{Remark, Running},
    server::Server,
    status::ServerState,
};
use crate::sandbox::quota::Excess;

/// How long a program has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// A server that lives says so in this time.
const PING: Duration = Duration::from_secs(2);
/// A list that changed is read again after this time, however often it changes.
const SETTLES: Duration = Duration::from_millis(500);

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

impl Server {
    /// Asks for its tools after they changed.
    async fn list_again(&self, peer: &Peer<RoleClient>, faults: &Faults) {
        tokio::time::sleep(SETTLES).await;
        let listing = tokio::time::timeout(self.config.connect_timeout, self.list(peer));
        match listing.await {
            Ok(Ok(offers)) => {
                self.learn(offers);
                self.set(ServerState::Ready);
            }
            Ok(Err(reason)) => faults.say(reason),
            Err(_) => faults.say("its tools cannot be listed in time"),
        }
    }

    /// Waits for the end of a connection, and clears away what is left of it.
    pub(super) async fn keep(self: Arc<Self>, opened: Opened, link: Link) {
        let Opened { service, running, changed, remark, .. } = opened;
        let Link { number, peer, faults, end, over, .. } = link;
        let _over = over.drop_guard();
        let none: BoxFuture<'static, Excess> = Box::pin(std::future::pending());
        let (running, mut excess) = match running {
            Some(Running { life, excess, window }) => (Some((life, window)), excess),
            None => (None, none),
        };
        let stop = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        let mut has_ended = false;
        let reason = loop {
            tokio::select! {
                _ = &mut ended => {
                    has_ended = true;
                    break Some(faults.said().unwrap_or_else(|| "it ended".to_owned()));
                }
                excess = &mut excess => break Some(format!("it wrote too much: {excess}")),
                fault = faults.heard() => break Some(fault),
                () = self.closed.cancelled() => break None,
                () = end.cancelled() => break None,
                () = self.rested() => break None,
                () = changed.notified() => tokio::select! {
                    () = self.list_again(&peer, &faults) => {}
                    () = self.closed.cancelled() => break None,
                    () = end.cancelled() => break None,
                    fault = faults.heard() => break Some(fault),
                },
            }
        };
        // From now on whoever calls makes a connection of their own.
        faults.say(reason.clone().unwrap_or_else(|| "it was not needed any more".to_owned()));
        stop.cancel();
        if !has_ended {
            // What it was still to be told it is told in a moment, or not at all.
            let _ = tokio::time::timeout(GRACE, ended).await;
        }
        if let Some((life, window)) = running {
            life.end(GRACE).await;
            if let Some(window) = window
                && let Err(error) = window.label_changes().await
            {
                tracing::error!(%error, "files that an MCP server changed stay in doubt");
            }
        }
        if let Some(reason) = reason {
            self.note(&with_remark(reason, &remark));
        }
        let mut link = self.link.lock().await;
        if link.as_ref().is_some_and(|link| link.number == number) {
            *link = None;
            self.set(ServerState::Resting);
        }
    }

    /// Waits until nobody has called for as long as the settings say.
    async fn rested(&self) {
        loop {
            let used = self.state().used.unwrap_or_else(Instant::now);
            let due = used + self.config.idle_timeout;
            if self.busy.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(self.config.idle_timeout).await;
            } else if Instant::now() >= due {
                return;
            } else {
                tokio::time::sleep_until(due).await;
            }
        }
    }
}

/// The reason of a failure, with what the program wrote last to its error output.
pub(super) fn with_remark(reason: String, remark: &Remark) -> String {
    match remark.last() {
        Some(last) => format!("{reason}; its last words: {last}"),
        None => reason,
    }
}
