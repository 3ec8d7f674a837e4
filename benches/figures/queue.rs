//! Durable work through queue and store, against one commit per step and against bare sled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use actix::{Actor, ActorFutureExt, Addr, Arbiter, AsyncContext, Context, Handler, WrapFuture};
use futures_util::future;
use hivewright::{
    settings::config::Durability,
    storage::{self, tiers::TieredStorage},
    system::{Randomness, WallClock},
};
use hivewright_actors::{
    budget::Ledger,
    channel::Channel,
    clock::Clock,
    ids::{Ids, TaskId},
    queue::{
        Dismiss, Enqueue, Finished, Leased, Left, Listeners, Progressed, Queue, Stop, Waiting,
        schedule::Limits,
    },
    storage::{Batch, Order, Storage, StorageError, Visit},
    store::{Store, StoreHandle, StoreParts, records::Writes},
    task::{
        Lane, Task,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
};
use tokio::sync::oneshot;

use crate::report::{Bound, Report};

const PRODUCERS: usize = 64;
const CYCLES: usize = 400;
const SINGLE_CYCLES: usize = 300;

pub(crate) fn measure(report: &mut Report) {
    let (grouped, batches) = actix::System::new().block_on(through_the_queue());
    let single = one_commit_per_step();
    let (bare, commits) = bare_sled(&batches);
    let ours = grouped.as_secs_f64();
    report.figure(
        "queue: enqueue → lease → ack, 64 producers",
        (PRODUCERS * CYCLES) as f64 / ours,
        "/s",
        Bound::None,
    );
    report.figure("queue: the same, one durable commit per step", single, "/s", Bound::None);
    report.figure("queue: commits of the whole run", commits as f64, "", Bound::None);
    report.figure(
        "queue: rate / rate of one durable commit per step",
        (PRODUCERS * CYCLES) as f64 / ours / single,
        "×",
        Bound::AtLeast(10.0),
    );
    report.figure(
        "queue: rate / rate of bare sled with the same batches and syncs",
        bare.as_secs_f64() / ours,
        "×",
        Bound::AtLeast(0.5),
    );
}

fn task(ids: &Ids, producer: usize) -> Task {
    Task {
        acked: true,
        ..Task::new(
            ids.task(),
            Lane { team: "main".into(), topic: Some(format!("t-{producer:016x}").into()) },
            "What is the weather like today?".to_owned(),
            "operator".to_owned(),
            WallClock.now(),
        )
    }
}

fn outcome() -> Outcome {
    Outcome { text: "It is sunny.".to_owned(), ..Outcome::new(Ending::Done, WallClock.now()) }
}

/// Acknowledges each task as soon as it has it.
struct Worker {
    store: StoreHandle,
    queue: Option<Addr<Queue>>,
    waiting: Arc<Mutex<HashMap<TaskId, oneshot::Sender<()>>>>,
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Leased> for Worker {
    type Result = ();

    fn handle(&mut self, leased: Leased, ctx: &mut Self::Context) {
        let Leased { mut task, lease, .. } = leased;
        task.outcome = Some(outcome());
        task.lease = None;
        let writes = Writes::new().under_lease(&task.id, &lease).put(&FinishedTask::of(&task));
        let committed = self.store.commit(writes);
        ctx.spawn(committed.into_actor(self).map(move |result, worker, _| {
            result.expect("a commit");
            if let Some(queue) = &worker.queue {
                queue.do_send(Finished {
                    task: task.id.clone(),
                    ending: Ending::Done,
                    ran: Duration::from_millis(1),
                    follow_up: None,
                    told: Vec::new(),
                });
            }
            let waiting = worker.waiting.lock().expect("a lock").remove(&task.id);
            waiting.expect("its producer").send(()).expect("it waits");
        }));
    }
}

impl Handler<Waiting> for Worker {
    type Result = ();
    fn handle(&mut self, _: Waiting, _: &mut Self::Context) {}
}

impl Handler<Stop> for Worker {
    type Result = ();
    fn handle(&mut self, _: Stop, _: &mut Self::Context) {}
}

impl Handler<Dismiss> for Worker {
    type Result = ();
    fn handle(&mut self, _: Dismiss, _: &mut Self::Context) {}
}

impl Handler<Progressed> for Worker {
    type Result = ();
    fn handle(&mut self, _: Progressed, _: &mut Self::Context) {}
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Meet(Addr<Queue>);

impl Handler<Meet> for Worker {
    type Result = ();
    fn handle(&mut self, Meet(queue): Meet, _: &mut Self::Context) {
        self.queue = Some(queue);
    }
}

/// Keeps what is committed, to repeat it.
struct Recorded {
    inner: TieredStorage,
    batches: Mutex<Vec<Batch>>,
}

impl Storage for Recorded {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        self.batches.lock().expect("a lock").push(batch.clone());
        self.inner.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.inner.get(key)
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        self.inner.scan(start, end, order, visit)
    }
}

fn open(folder: &std::path::Path) -> TieredStorage {
    let home = storage::Home::new(&folder.join("data"), &folder.join("run"));
    std::fs::create_dir_all(folder.join("run")).expect("a folder");
    storage::open::open(&home, Durability::Power, &storage::unwatched).expect("a store")
}

async fn through_the_queue() -> (Duration, Vec<Batch>) {
    let folder = tempfile::tempdir().expect("a folder");
    let recorded = Arc::new(Recorded { inner: open(folder.path()), batches: Mutex::default() });
    let store = Store::start(&Arbiter::new().handle(), StoreParts::of(recorded.clone()));
    let clock = Arc::new(WallClock);
    let ids = Ids::new(Arc::new(Randomness));
    let channel = Channel::new(store.clone(), clock.clone(), ids.clone()).start();
    let waiting = Arc::new(Mutex::new(HashMap::new()));
    let worker = Worker { store: store.clone(), queue: None, waiting: waiting.clone() }.start();
    let listeners = Listeners {
        leased: worker.clone().recipient(),
        waiting: worker.clone().recipient(),
        stop: worker.clone().recipient(),
        dismiss: worker.clone().recipient(),
        progressed: worker.clone().recipient(),
        ended: Vec::new(),
        ledger: Ledger::default(),
    };
    let queue = Queue::new(
        store,
        channel,
        clock,
        ids.clone(),
        Limits::default(),
        listeners,
        Left::default(),
    )
    .start();
    worker.do_send(Meet(queue.clone()));
    let began = Instant::now();
    let producers = (0..PRODUCERS).map(|producer| {
        let (queue, ids, waiting) = (queue.clone(), ids.clone(), waiting.clone());
        async move {
            for _ in 0..CYCLES {
                let task = task(&ids, producer);
                let (done, is_done) = oneshot::channel();
                waiting.lock().expect("a lock").insert(task.id.clone(), done);
                queue.do_send(Enqueue { task, writes: Writes::new() });
                is_done.await.expect("it is done");
            }
        }
    });
    future::join_all(producers).await;
    let took = began.elapsed();
    let batches = std::mem::take(&mut *recorded.batches.lock().expect("a lock"));
    (took, batches)
}

/// Cycles a second if each of the three steps is a durable commit of its own.
fn one_commit_per_step() -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = open(folder.path());
    let ids = Ids::new(Arc::new(Randomness));
    let began = Instant::now();
    for producer in 0..SINGLE_CYCLES {
        let mut task = task(&ids, producer);
        let key = format!("task\0{}", task.id).into_bytes();
        let put = |task: &Task, key: &[u8]| {
            Batch::from(vec![(key.to_vec(), Some(serde_json::to_vec(task).expect("JSON")))])
        };
        storage.commit(&put(&task, &key)).expect("a commit");
        task.lease = Some(ids.lease());
        task.attempts = 1;
        storage.commit(&put(&task, &key)).expect("a commit");
        task.outcome = Some(outcome());
        let mut end = put(&task, format!("done\0{}", task.id).as_bytes());
        end.changes.push((key, None));
        storage.commit(&end).expect("a commit");
    }
    SINGLE_CYCLES as f64 / began.elapsed().as_secs_f64()
}

/// The same batches with the same flushes and syncs, without anything around sled.
fn bare_sled(batches: &[Batch]) -> (Duration, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let database = sled::Config::new().path(folder.path()).open().expect("sled");
    let data = std::fs::File::open(folder.path().join("db")).expect("its file");
    let began = Instant::now();
    for batch in batches {
        let mut changes = sled::Batch::default();
        for (key, value) in &batch.changes {
            match value {
                Some(value) => changes.insert(key.as_slice(), value.as_slice()),
                None => changes.remove(key.as_slice()),
            }
        }
        database.apply_batch(changes).expect("a batch");
        database.flush().expect("a flush");
        data.sync_data().expect("a sync");
    }
    (began.elapsed(), batches.len())
}
