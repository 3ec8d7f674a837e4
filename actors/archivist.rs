//! Archivist: moves what is over from the hot half of the store to the archive, in batches.

use std::{sync::Arc, time::Duration};

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, MessageResult, SpawnHandle, WrapFuture,
};
use tokio::sync::oneshot;

use crate::{
    archive::{Archive, MoveAll, Written},
    blocking,
    storage::StorageError,
};

/// How long records gather before they move: a turn that goes on writes to the hot half alone.
const GATHERING_TIME: Duration = Duration::from_millis(500);
/// After a batch that could not be moved.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// What the archive is asked to do once it has had nothing to move for so long.
type Rest = (Duration, fn(&dyn Archive) -> Result<(), StorageError>);
const RESTS: [Rest; 2] = [
    (Duration::from_secs(5), |archive| archive.empty_log()),
    (Duration::from_secs(60), |archive| archive.shrink()),
];

/// After so many failures in a row the archive counts as broken.
const MOST_FAILURES: u32 = 3;

/// Told that the archive cannot be written, and why; later that it can again.
pub type OnFault = Box<dyn Fn(Option<&StorageError>)>;

/// A leaf: it is told, and tells nobody but of its faults.
pub struct Archivist {
    archive: Arc<dyn Archive>,
    on_fault: OnFault,
    /// How often it could not move records since it last could.
    failures: u32,
    work: Work,
    /// Whoever waits until all that was written before is moved.
    waiting: Vec<oneshot::Sender<()>>,
    /// What the archive does if nothing comes before.
    rests: Vec<SpawnHandle>,
}

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
    pub fn new(archive: Arc<dyn Archive>, on_fault: OnFault) -> Self {
        let (waiting, rests) = Default::default();
        Self { archive, on_fault, failures: 0, work: Work::Idle, waiting, rests }
    }

    /// Counts what came of a try, and tells when the archive is broken or whole again.
    fn note(&mut self, error: Option<&StorageError>) {
        let was_broken = self.failures >= MOST_FAILURES;
        self.failures = if error.is_some() { self.failures.saturating_add(1) } else { 0 };
        if was_broken != (self.failures >= MOST_FAILURES) {
            (self.on_fault)(error);
        }
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
        for rest in self.rests.drain(..) {
            ctx.cancel_future(rest);
        }
        self.work = Work::Moving { again: false };
        let served = std::mem::take(&mut self.waiting);
        let moving = move_all(self.archive.clone());
        ctx.spawn(moving.into_actor(self).map(move |moved, archivist, ctx| {
            let again = archivist.work == Work::Moving { again: true };
            archivist.work = Work::Idle;
            archivist.note(moved.as_ref().err());
            match moved {
                Ok(()) => {
                    for waiting in served {
                        // Whoever asked may have gone.
                        let _ = waiting.send(());
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "records of ended work cannot be moved to the archive; it is tried again");
                    // Those who have given up are not kept.
                    archivist.waiting.extend(served.into_iter().filter(|one| !one.is_closed()));
                    return archivist.gather(RETRY_PAUSE, ctx);
                }
            }
            if !archivist.waiting.is_empty() {
                archivist.begin(ctx);
            } else if again {
                archivist.gather(GATHERING_TIME, ctx);
            } else {
                archivist.rest(ctx);
            }
        }));
    }

    /// Has the archive rest, unless something moves before.
    fn rest(&mut self, ctx: &mut Context<Self>) {
        self.rests.extend(RESTS.map(|(pause, rest)| {
            ctx.run_later(pause, move |archivist, ctx| {
                let archive = archivist.archive.clone();
                let resting = blocking::run(move || rest(&*archive));
                ctx.spawn(resting.into_actor(archivist).map(|rested, _, _| {
                    if let Ok(Err(error)) = rested {
                        tracing::debug!(%error, "the archive gives back no memory until it was used again");
                    }
                }));
            })
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
            Work::Idle => self.gather(GATHERING_TIME, ctx),
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    };

    use actix::Arbiter;

    use super::*;
    use crate::{
        archive::ArchiveHandle,
        doubles::disk::Disk,
        search::{Search, SearchPage},
        store::{Store, StoreError, StoreParts},
    };

    #[derive(Default)]
    struct Shelf {
        works: AtomicBool,
        /// What it was asked to do while nothing moved.
        rested: Mutex<Vec<&'static str>>,
    }

    impl Archive for Shelf {
        fn take_next(&self) -> Result<bool, StorageError> {
            if self.works.load(Ordering::SeqCst) {
                Ok(false)
            } else {
                Err(StorageError::Write("no such disk".to_owned()))
            }
        }

        fn empty_log(&self) -> Result<(), StorageError> {
            self.rested.lock().unwrap().push("log");
            Ok(())
        }

        fn shrink(&self) -> Result<(), StorageError> {
            self.rested.lock().unwrap().push("memory");
            Ok(())
        }

        fn search(&self, _: &Search) -> Result<SearchPage, StorageError> {
            Ok(SearchPage::default())
        }
    }

    /// SC-115: nobody waits for ever for an archive that cannot be written, and it is told once.
    #[actix::test]
    async fn an_archive_that_cannot_be_written_is_told_of_and_not_waited_for() {
        tokio::time::pause();
        let storage = Disk::default().mount(None);
        let (shelf, told) = (Arc::new(Shelf::default()), Arc::<Mutex<Vec<_>>>::default());
        let hear = told.clone();
        let on_fault: OnFault = Box::new(move |error| {
            hear.lock().unwrap().push(error.map(ToString::to_string));
        });
        let archivist = Archivist::new(shelf.clone(), on_fault).start();
        let archive = Some(ArchiveHandle::new(shelf.clone(), archivist));
        let parts = StoreParts { archive, ..StoreParts::of(storage) };
        let store = Store::start(&Arbiter::current(), parts);

        let waited = store.archived().await;
        let broken = std::mem::take(&mut *told.lock().unwrap());
        shelf.works.store(true, Ordering::SeqCst);
        let moved = store.archived().await;

        assert_eq!(waited, Err(StoreError::NotArchived));
        assert_eq!(broken, [Some("the store cannot be written: no such disk".to_owned())]);
        assert_eq!((moved, &*told.lock().unwrap()), (Ok(()), &vec![None]));
    }

    /// Each time once, and only after a while in which nothing was written.
    #[actix::test]
    async fn an_archive_rests_when_nothing_moves() {
        tokio::time::pause();
        let shelf = Arc::new(Shelf::default());
        shelf.works.store(true, Ordering::SeqCst);
        let archivist = Archivist::new(shelf.clone(), Box::new(|_| ())).start();
        let rested_after = async |seconds| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            // The calls themselves are on other threads.
            archivist.send(MoveAll).await.unwrap().await.unwrap();
            std::mem::take(&mut *shelf.rested.lock().unwrap())
        };

        let seen = [rested_after(4).await, rested_after(10).await, rested_after(600).await];

        assert_eq!(seen, [vec![], vec!["log"], vec!["log", "memory"]]);
    }
}
