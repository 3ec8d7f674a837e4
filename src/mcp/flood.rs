//! Flood guard: what a server sends without being asked is bounded, whichever way it comes.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hivewright_actors::{
    clock::{Timestamp, millis},
    router::rate::{Bucket, Rate},
};
use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::time::Instant;

use super::fault::Faults;

/// How many requests and notifications may come.
const RATE: Rate = Rate { per_minute: 200 * 60, burst: 2_000 };
/// Requests of the server whose answers it has not read yet.
const UNANSWERED: usize = 100;

/// A connection that ends when its server sends too much by itself. Notifications that nobody
/// listens to go no further than this.
pub(crate) struct Guarded<T> {
    inner: T,
    /// Which notifications go on.
    passes: fn(&ServerNotification) -> bool,
    faults: Faults,
    since: Instant,
    left: Bucket,
    unanswered: Arc<AtomicUsize>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(inner: T, faults: Faults, passes: fn(&ServerNotification) -> bool) -> Self {
        Self {
            inner,
            passes,
            faults,
            since: Instant::now(),
            left: Bucket::new(RATE, Timestamp(0)),
            unanswered: Arc::default(),
        }
    }

    /// Counts something that nobody asked for.
    fn is_too_much(&mut self) -> bool {
        self.left.take(Timestamp(millis(self.since.elapsed()))).is_err()
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
