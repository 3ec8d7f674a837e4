//! Keep: rows that belong between tasks, stored in the order in which both were handed in.

use actix::{ActorFutureExt, Handler, Message, ResponseActFuture, WrapFuture};

use super::Queue;
use crate::{
    channel::Deliver,
    store::{StoreError, records::Writes},
};

/// Stores rows after everything that was handed in before, tasks included. Answered when they are
/// durable; the frames among them are on their way then.
///
/// Whoever writes the same row now with a task and now without must take this way for the latter:
/// the store itself would be faster than the queue, and the older row would win.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), StoreError>")]
pub struct Keep {
    /// The rows.
    pub writes: Writes,
}

impl Handler<Keep> for Queue {
    type Result = ResponseActFuture<Self, Result<(), StoreError>>;

    fn handle(&mut self, Keep { writes }: Keep, _: &mut Self::Context) -> Self::Result {
        let committed = self.store.commit(writes);
        Box::pin(committed.into_actor(self).map(|result, queue, _| {
            let frames = result?;
            if !frames.is_empty() {
                queue.channel.do_send(Deliver { frames });
            }
            Ok(())
        }))
    }
}
