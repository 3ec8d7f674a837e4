//! Archivist: moves what is over from the hot half of the store to the archive, in batches.

use std::{sync::Arc, time::Duration};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, MessageResult, WrapFuture,
};
use tokio::sync::oneshot;

use crate::{
    archive::{Archive, MoveAll, Written},
    blocking,
    storage::StorageError,
};

/// How long records gather before they move: a turn that goes on writes to the hot half alone.
const GATHERING: Duration = Duration::from_millis(500);
/// After a batch that could not be moved.
const PAUSE: Duration = Duration::from_secs(5);

/// A leaf: it is told, and tells nobody.
pub struct Archivist {
    archive: Arc<dyn Archive>,
    work: Work,
    /// Whoever waits until all that was written before is moved.
    waiting: Vec<oneshot::Sender<()>>,
}

/// What it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Idle,
    /// Lets records gather.
    Gathering,
    /// Moves a batch.
    Moving {
        /// More was written meanwhile.
        again: bool,
    },
}

impl Archivist {
    /// An archivist that first looks for what a former process left.
    pub fn start(archive: Arc<dyn Archive>) -> Addr<Self> {
        Self { archive, work: Work::Idle, waiting: Vec::new() }.start()
    }

    fn gather(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        self.work = Work::Gathering;
        ctx.run_later(pause, |archivist, ctx| {
            if archivist.work == Work::Gathering {
                archivist.begin(ctx);
            }
        });
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.work = Work::Moving { again: false };
        let served = std::mem::take(&mut self.waiting);
        let moving = move_all(self.archive.clone());
        ctx.spawn(moving.into_actor(self).map(move |moved, archivist, ctx| {
            let again = archivist.work == Work::Moving { again: true };
            archivist.work = Work::Idle;
            match moved {
                Ok(()) => {
                    for waiting in served {
                        // Whoever asked may have gone.
                        let _ = waiting.send(());
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "records stay in the store, and are tried again");
                    archivist.waiting.extend(served);
                    return archivist.gather(PAUSE, ctx);
                }
            }
            if !archivist.waiting.is_empty() {
                archivist.begin(ctx);
            } else if again {
                archivist.gather(GATHERING, ctx);
            }
        }));
    }
}

/// Moves batches until there is nothing to move.
async fn move_all(archive: Arc<dyn Archive>) -> Result<(), StorageError> {
    let is_more = |archive: Arc<dyn Archive>| blocking::run(move || archive.take_next());
    while is_more(archive.clone())
        .await
        .map_err(|error| StorageError::Write(error.to_string()))??
    {}
    Ok(())
}

impl Actor for Archivist {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.begin(ctx);
    }
}

impl Handler<Written> for Archivist {
    type Result = ();

    fn handle(&mut self, Written: Written, ctx: &mut Self::Context) {
        match &mut self.work {
            Work::Idle => self.gather(GATHERING, ctx),
            Work::Gathering => {}
            Work::Moving { again } => *again = true,
        }
    }
}

impl Handler<MoveAll> for Archivist {
    type Result = MessageResult<MoveAll>;

    fn handle(&mut self, MoveAll: MoveAll, ctx: &mut Self::Context) -> Self::Result {
        let (done, moved) = oneshot::channel();
        self.waiting.push(done);
        if !matches!(self.work, Work::Moving { .. }) {
            self.begin(ctx);
        }
        MessageResult(moved)
    }
}
