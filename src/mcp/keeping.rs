//! Keeping a connection until its end, and clearing away what is left of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use rmcp::{Peer, RoleClient};
use tokio::time::Instant;

use super::{
    fault::Faults,
    link::Link,
    opening::{self, Opened},
    program::Running,
    server::Server,
    status::ServerState,
};
use crate::sandbox::quota::Excess;

/// How long a program has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// A list that changed is read again after this time, however often it changes.
const SETTLES: Duration = Duration::from_millis(500);

impl Server {
    /// Asks for its tools after they changed.
    async fn list_again(&self, peer: &Peer<RoleClient>, faults: &Faults) {
        tokio::time::sleep(SETTLES).await;
        let listing = tokio::time::timeout(
            self.context.config().connect_timeout,
            opening::list(&self.context, peer),
        );
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
                let (team, server) = (&self.context.team().name, &self.context.name);
                tracing::error!(%team, server, %error, "files that an MCP server changed cannot be labelled; they count as untrusted until the next start looks at them");
            }
        }
        if let Some(reason) = reason {
            self.note(number, &self.with_last_words(reason, &remark));
        }
        let mut link = self.link.lock().await;
        if link.as_ref().is_some_and(|link| link.number == number) {
            *link = None;
            // One that was tried meanwhile has failed, which stays as it is told.
            if self.is_newest(number) {
                self.set(ServerState::Resting);
            }
        }
    }

    /// Waits until nobody has called for as long as the settings say.
    async fn rested(&self) {
        loop {
            let used = self.state().used.unwrap_or_else(Instant::now);
            let due = used + self.context.config().idle_timeout;
            if self.busy.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(self.context.config().idle_timeout).await;
            } else if Instant::now() >= due {
                return;
            } else {
                tokio::time::sleep_until(due).await;
            }
        }
    }
}
