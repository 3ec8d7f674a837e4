//! Ordered writes: rows that the queue stores among those of tasks, in the order in which both were handed in.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use tokio::sync::oneshot;

use super::Queue;
use crate::{
    channel::Deliver,
    store::{StoreError, records::Writes},
};

/// Stores rows after everything that was told before, tasks included. The frames among them go on
/// their way once they are durable.
///
/// Whoever writes the same row now with a task and now without must take this way for the latter:
/// the store itself would be faster than the queue, and the older row would win.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct WriteInOrder {
    pub(crate) writes: Writes,
    /// Told when they are durable.
    pub(crate) stored: Option<oneshot::Sender<Result<(), StoreError>>>,
}

impl Handler<WriteInOrder> for Queue {
    type Result = ();

    fn handle(&mut self, WriteInOrder { writes, stored }: WriteInOrder, ctx: &mut Context<Self>) {
        let committed = self.store.commit(writes);
        ctx.spawn(committed.into_actor(self).map(|result, queue, _| {
            let result = result.map(|frames| {
                if !frames.is_empty() {
                    queue.channel.do_send(Deliver { frames });
                }
            });
            if let Some(stored) = stored {
                // Whoever waited may have gone.
                let _gone = stored.send(result);
            }
        }));
    }
}
