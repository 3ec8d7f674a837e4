//! The queue alone, between a store and recorders.

use std::sync::Mutex;

use actix::Arbiter;

use super::*;
use crate::{
    budget::Ledger,
    channel::Channel,
    doubles::{
        clock::ManualClock,
        disk::{self, Disk, MemoryStorage},
        entropy::Sequence,
    },
    ids::LeaseId,
    org::{record::TeamRecord, tree::Tree},
    store::{
        Store, StoreError, StoreParts,
        reads::{Range, scan},
    },
    task::{Lane, Task, ending, outcome::Outcome, records as tasks},
};

mod guards;
mod promises;

/// Keeps what the queue says.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    leases: Vec<(TaskId, LeaseId)>,
    stops: usize,
    ended: Vec<TaskId>,
    endings: Vec<(TaskId, Ending)>,
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<Leased> for Recorder {
    type Result = ();

    fn handle(&mut self, leased: Leased, _: &mut Self::Context) {
        let lease = (leased.task.id, leased.lease);
        self.0.lock().unwrap().leases.push(lease);
    }
}

impl Handler<Waiting> for Recorder {
    type Result = ();

    fn handle(&mut self, _: Waiting, _: &mut Self::Context) {}
}

impl Handler<Stop> for Recorder {
    type Result = ();

    fn handle(&mut self, _: Stop, _: &mut Self::Context) {
        self.0.lock().unwrap().stops += 1;
    }
}

impl Handler<Dismiss> for Recorder {
    type Result = ();

    fn handle(&mut self, _: Dismiss, _: &mut Self::Context) {}
}

impl Handler<Ended> for Recorder {
    type Result = ();

    fn handle(&mut self, ended: Ended, _: &mut Self::Context) {
        self.0.lock().unwrap().ended.push(ended.task);
    }
}

impl Handler<Progressed> for Recorder {
    type Result = ();

    fn handle(&mut self, progressed: Progressed, _: &mut Self::Context) {
        if let Progressed::Ended { task, ending, .. } = progressed {
            self.0.lock().unwrap().endings.push((task.id, ending));
        }
    }
}

struct Setting {
    queue: Addr<Queue>,
    heard: Recorder,
    store: StoreHandle,
    clock: Arc<ManualClock>,
}

/// There is the main team alone.
fn view() -> OrgView {
    OrgView::new(Tree::new([TeamRecord::main(Timestamp(0))]))
}

fn set_up(limits: Limits) -> Setting {
    set_up_on(Disk::default().mount(None), limits)
}

fn set_up_on(storage: Arc<MemoryStorage>, limits: Limits) -> Setting {
    let store = Store::start(&Arbiter::current(), StoreParts::of(storage));
    let hands = Arc::new(ManualClock::running(Timestamp(1_000)));
    let clock: Arc<dyn Clock> = hands.clone();
    let ids = Ids::new(Arc::new(Sequence::from(0)));
    let channel = Channel::new(store.clone(), clock.clone(), ids.clone()).start();
    let heard = Recorder::default();
    let recorder = heard.clone().start();
    let listeners = Listeners {
        leased: recorder.clone().recipient(),
        waiting: recorder.clone().recipient(),
        stop: recorder.clone().recipient(),
        dismiss: recorder.clone().recipient(),
        progressed: recorder.clone().recipient(),
        ended: vec![recorder.recipient()],
        ledger: Ledger::default(),
    };
    let queue = Queue::new(
        store.clone(),
        channel,
        clock,
        ids,
        limits,
        listeners,
        Left { teams: view(), ..Left::default() },
    );
    Setting { queue: queue.start(), heard, store, clock: hands }
}

fn task(name: &str, topic: &str) -> Task {
    Task {
        deadline_at: Timestamp(1_000_000),
        ..Task::new(
            name.into(),
            Lane { team: "main".into(), topic: Some(topic.into()) },
            String::new(),
            String::new(),
            Timestamp(1_000),
        )
    }
}

impl Setting {
    fn enqueue(&self, name: &str, topic: &str) {
        self.queue.do_send(Enqueue { task: task(name, topic), writes: Writes::new() });
    }

    /// All that was told so far has been done, and is stored.
    async fn settle(&self) -> Counts {
        for _ in 0..3 {
            self.queue.send(Count).await.unwrap();
            self.store.commit(Writes::new()).await.unwrap();
            self.store.read(|_| Ok(())).await.unwrap();
            tokio::task::yield_now().await;
        }
        self.queue.send(Count).await.unwrap()
    }

    fn leases(&self) -> Vec<(TaskId, LeaseId)> {
        self.heard.0.lock().unwrap().leases.clone()
    }

    /// The row of a task, under this lease.
    fn leased(&self, name: &str, lease: &LeaseId) -> Task {
        Task { lease: Some(lease.clone()), attempts: 1, ..task(name, "t-1") }
    }
}

/// OR-75: whoever lost a lease gives nothing back.
#[actix::test]
async fn a_task_is_given_back_once() {
    let setting = set_up(Limits::default());
    setting.enqueue("task-1", "t-1");
    setting.settle().await;
    let (_, first) = setting.leases()[0].clone();

    for _ in 0..2 {
        setting.queue.do_send(Return {
            task: setting.leased("task-1", &first),
            after: None,
            uncounted: true,
        });
        setting.settle().await;
    }
    let counts = setting.settle().await;

    assert_eq!(counts.teams, [("main".into(), 0, 1)]);
    assert_eq!(setting.leases().len(), 2);
}

/// OR-73, OR-96: a team that dies twice in a row leaves each task once.
#[actix::test]
async fn orphans_wait_again_once() {
    let setting = set_up(Limits::default());
    setting.enqueue("task-1", "t-1");
    setting.enqueue("task-2", "t-2");
    setting.settle().await;

    for _ in 0..2 {
        setting.queue.do_send(Orphaned {
            team: "main".into(),
            pause: Duration::from_secs(600),
            uncounted: false,
        });
    }
    let counts = setting.settle().await;

    assert_eq!(counts.teams, [("main".into(), 2, 0)]);
    let row = setting.store.read(|storage| tasks::find(storage, &"task-1".into()));
    let row = row.await.unwrap().unwrap();
    assert_eq!((row.lease, row.redelivered, row.attempts), (None, true, 1));
}

/// OR-75, OR-84: an outcome that was stored by a team that died counts, once.
#[actix::test]
async fn an_outcome_is_found_though_its_team_died() {
    let setting = set_up(Limits::default());
    setting.enqueue("task-1", "t-1");
    setting.settle().await;
    let (_, lease) = setting.leases()[0].clone();
    let mut done = setting.leased("task-1", &lease);
    let outcome =
        Outcome { text: "Done.".to_owned(), ..Outcome::new(Ending::Done, Timestamp(1_000)) };
    let ids = Ids::new(Arc::new(Sequence::from(0)));
    let writes = Writes::new()
        .under_lease(&done.id.clone(), &lease)
        .and(ending::close(&mut done, outcome, &ids, &OrgView::default()).writes);

    // Handed in, not yet written, when the news of the death arrives.
    let stored = setting.store.commit(writes);
    setting.queue.do_send(Orphaned {
        team: "main".into(),
        pause: Duration::from_secs(1),
        uncounted: false,
    });
    stored.await.unwrap();
    let counts = setting.settle().await;

    assert_eq!(counts.teams, [("main".into(), 0, 0)]);
    assert_eq!(counts.ended, [("main".into(), Kind::Chat, Ending::Done, 1)]);
    let heard = setting.heard.0.lock().unwrap();
    assert_eq!(heard.endings, [("task-1".into(), Ending::Done)]);
}

/// OR-72, OR-80: what is refused is not stored.
#[actix::test]
async fn a_refused_task_leaves_nothing() {
    let setting = set_up(Limits { running: 1, waiting: 1, ..Limits::default() });
    for name in ["task-1", "task-2", "task-3"] {
        setting.enqueue(name, "t-1");
    }
    let counts = setting.settle().await;

    let open = setting.store.read(|storage| scan::<Task>(storage, Range::all())).await.unwrap();
    let open: Vec<_> = open.iter().map(|task| (task.id.as_str(), task.arrival)).collect();
    assert_eq!(open, [("task-1", 1), ("task-2", 2)]);
    assert_eq!(counts.teams, [("main".into(), 1, 1)]);
}

/// SE-132: a cancel before the team has its lease ends the task without the team.
#[actix::test]
async fn a_task_cancelled_before_its_lease_is_stored_never_reaches_its_team() {
    let setting = set_up(Limits::default());
    setting.enqueue("task-1", "t-1");
    setting.queue.do_send(Cancel {
        behind: None,
        lane: task("task-1", "t-1").lane,
        queued: false,
        channel: None,
    });
    let counts = setting.settle().await;

    assert_eq!(setting.leases(), []);
    assert_eq!(counts.ended, [("main".into(), Kind::Chat, Ending::Cancelled, 1)]);
    assert_eq!(counts.teams, [("main".into(), 0, 0)]);
}

/// OR-95, OP-35: a lease that was on its way when its team was paused never reaches it, and counts for
/// nothing.
#[actix::test]
async fn a_lease_does_not_reach_a_team_that_was_paused_meanwhile() {
    let setting = set_up(Limits::default());
    setting.enqueue("task-1", "t-1");
    let pause = |paused| parking::SetState { team: "main".into(), paused, draining: false };

    setting.queue.do_send(pause(true));
    let counts = setting.settle().await;

    assert_eq!(setting.leases(), []);
    assert_eq!(counts.teams, [("main".into(), 1, 0)]);
    let row = setting.store.read(|storage| tasks::find(storage, &"task-1".into()));
    let row = row.await.unwrap().unwrap();
    assert_eq!((row.lease, row.attempts), (None, 0));
    setting.queue.do_send(pause(false));
    setting.settle().await;
    assert_eq!(setting.leases().len(), 1);
}

/// OR-83: a lease that nobody takes is told again, once a minute, until it is taken.
#[actix::test]
async fn a_lease_that_is_not_taken_up_is_told_again() {
    tokio::time::pause();
    let setting = set_up(Limits::default());
    setting.enqueue("task-1", "t-1");
    setting.settle().await;
    let (id, lease) = setting.leases()[0].clone();

    tokio::time::sleep(Duration::from_secs(61)).await;
    setting.settle().await;
    let again = setting.leases();
    setting.queue.do_send(Taken { task: id, lease });
    tokio::time::sleep(Duration::from_secs(600)).await;
    setting.settle().await;

    assert_eq!(again.len(), 2);
    assert_eq!(again[0], again[1]);
    assert_eq!(setting.leases().len(), 2);
    let notices = setting.store.read(disk::notices).await.unwrap();
    assert_eq!(notices.len(), 1);
}

/// EN-27: what follows a turn that failed waits a moment; what follows one that was stopped does not.
#[actix::test]
async fn a_lane_rests_after_a_turn_that_failed() {
    tokio::time::pause();
    for (ending, at_once) in [(Ending::Failed, 1), (Ending::Cancelled, 2)] {
        let setting = set_up(Limits::default());
        setting.enqueue("task-1", "t-1");
        setting.enqueue("task-2", "t-1");
        setting.settle().await;

        let (task, ran) = ("task-1".into(), Duration::ZERO);
        setting.queue.do_send(Finished { task, ending, ran, follow_up: None, told: Vec::new() });
        setting.settle().await;
        let leased = setting.leases().len();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        setting.settle().await;

        assert_eq!((leased, setting.leases().len()), (at_once, 2), "{ending:?}");
    }
}

/// A commit that no key of the store can hold.
fn unwritable() -> Writes {
    Writes::new().put_json(vec![b'x'; 2_000], &1)
}

/// OR-72: a task that the store does not take ends with the reason, and its lane goes on.
#[actix::test]
async fn a_task_that_cannot_be_stored_ends_and_frees_its_lane() {
    let setting = set_up(Limits { running: 1, ..Limits::default() });
    for (name, writes) in
        [("task-1", unwritable()), ("task-2", Writes::new()), ("task-3", unwritable())]
    {
        setting.queue.do_send(Enqueue { task: task(name, "t-1"), writes });
    }
    setting.settle().await;
    let (id, lease) = setting.leases()[0].clone();
    let too_large = StoreError::TooLarge(1);

    let held = setting.leased(id.as_str(), &lease);
    setting.queue.do_send(Unstorable { task: held.clone(), error: too_large.clone() });
    setting.queue.do_send(Unstorable { task: held, error: too_large });
    setting.enqueue("task-4", "t-1");
    let counts = setting.settle().await;

    let leased: Vec<_> = setting.leases().into_iter().map(|(id, _)| id).collect();
    assert_eq!(leased, ["task-2".into(), "task-4".into()]);
    assert_eq!(counts.teams, [("main".into(), 0, 1)]);
    let mut ended: Vec<_> = setting.heard.0.lock().unwrap().endings.clone();
    ended.sort_by_key(|(id, _)| id.clone());
    assert_eq!(ended, ["task-1", "task-2", "task-3"].map(|id| (id.into(), Ending::Failed)));
    let row = setting.store.read(|storage| tasks::find(storage, &"task-1".into())).await.unwrap();
    let message = row.unwrap().outcome.unwrap().message.unwrap();
    assert!(message.starts_with("it could not be stored: record xxx"), "{message}");
    assert!(message.ends_with("its key has 2000 bytes, more than 1024"), "{message}");
}

/// OR-83: a clock that was set forward delays nothing that is due.
#[actix::test]
async fn what_is_due_is_done_soon_after_the_clock_was_set_forward() {
    tokio::time::pause();
    let setting = set_up(Limits { running: 1, ..Limits::default() });
    setting.enqueue("task-1", "t-1");
    setting.enqueue("task-2", "t-1");
    setting.settle().await;
    let (id, lease) = setting.leases()[0].clone();
    setting.queue.do_send(Taken { task: id, lease });
    tokio::time::sleep(Duration::from_secs(61)).await;

    setting.clock.advance(Duration::from_secs(2 * 60 * 60));
    tokio::time::sleep(Duration::from_secs(31)).await;
    setting.settle().await;

    let heard = setting.heard.0.lock().unwrap();
    assert_eq!(heard.endings, [("task-2".into(), Ending::Expired)]);
}
