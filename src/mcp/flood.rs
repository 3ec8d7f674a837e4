//! Flood guard: what a server sends without being asked is bounded, whichever way it comes.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::time::Instant;

use super::fault::Faults;

/// So many requests and notifications may come at once …
const BURST: u32 = 2_000;
/// … and so many a second for long.
const A_SECOND: u32 = 200;
/// Requests of the server whose answers it has not read yet.
const UNANSWERED: usize = 100;

/// A connection that ends when its server sends too much by itself. Notifications that nobody
/// listens to go no further than this.
pub(crate) struct Guarded<T> {
    inner: T,
    /// Which notifications go on.
    passes: fn(&ServerNotification) -> bool,
    faults: Faults,
    left: f64,
    since: Instant,
    unanswered: Arc<AtomicUsize>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(inner: T, faults: Faults, passes: fn(&ServerNotification) -> bool) -> Self {
        Self {
            inner,
            passes,
            faults,
            left: f64::from(BURST),
            since: Instant::now(),
            unanswered: Arc::default(),
        }
    }

    /// Counts something that nobody asked for.
    fn is_too_much(&mut self) -> bool {
        let now = Instant::now();
        let refilled = now.duration_since(self.since).min(Duration::from_secs(60)).as_secs_f64();
        self.since = now;
        self.left = (self.left + refilled * f64::from(A_SECOND)).min(f64::from(BURST)) - 1.0;
        self.left < 0.0
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sent, unanswered) = (self.inner.send(item), self.unanswered.clone());
        async move {
            let sent = sent.await;
            if is_answer {
                unanswered.fetch_sub(1, Ordering::Relaxed);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            match &message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return Some(message),
                _ if self.is_too_much() => {
                    self.faults.say("it sends far more than it is asked for");
                    return None;
                }
                JsonRpcMessage::Request(_) => {
                    if self.unanswered.fetch_add(1, Ordering::Relaxed) >= UNANSWERED {
                        self.faults.say("it asks again and again, and does not read the answers");
                        return None;
                    }
                    return Some(message);
                }
                JsonRpcMessage::Notification(sent) if (self.passes)(&sent.notification) => {
                    return Some(message);
                }
                JsonRpcMessage::Notification(_) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
