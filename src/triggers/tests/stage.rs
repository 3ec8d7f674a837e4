//! A stage for triggers: the real scheduler, queue, store and calendar, on virtual time, with workers
//! that do as their script says.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{
    Actor, ActorFutureExt, Addr, Arbiter, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};
use futures_util::future::BoxFuture;
use hivewright_actors::{
    budget::Ledger,
    channel::Channel,
    clock::Clock,
    doubles::{
        clock::ManualClock,
        disk::{self, MemoryStorage},
        entropy::Sequence,
    },
    ids::{Ids, TaskId, TeamKey},
    notice::Notice,
    org::{
        roster::{Availability, Roster},
        tree::Tree,
        view::OrgView,
    },
    queue::{
        self, Dismiss, Finished, Leased, Left, Listeners, Progressed, Queue, Stop, Taken, Waiting,
        schedule::Limits,
    },
    scheduler::{
        Neighbours, Ports, Scheduler,
        alarm::{Drain, SetZone},
        firing::{Findings, Preconditions},
        index::{Board, MessageTriggers},
        manage::Create,
        ports::Calendar,
        records,
        run::Run,
        trigger::{Trigger, Which, definition::Definition},
        views::Get,
    },
    store::{
        Store, StoreHandle, StoreParts,
        reads::{Range, scan},
        records::Writes,
    },
    task::{
        Lane, Task,
        outcome::{Ending, Outcome},
        records::{self as tasks, FinishedTask},
    },
};

use crate::{
    settings::zone::Zone,
    timezone::LocalTime,
    triggers::{admin, calendar::Zones, expressions::LinearExpressions},
    vault::Vault,
};

/// The zone of these stories.
pub(crate) const ZONE: &str = "Europe/Berlin";

/// How long a task takes and how it ends, by the first line of what is asked.
pub(crate) type Script = fn(&str) -> (Duration, Ending);

struct Everyone;

impl Roster for Everyone {
    fn availability(&self, _: &TeamKey) -> Availability {
        Availability::Active
    }
}

impl Preconditions for Everyone {
    fn look(&self, _: &Trigger) -> Option<BoxFuture<'static, Findings>> {
        None
    }
}

/// Does the work of all teams.
struct Worker {
    store: StoreHandle,
    queue: Addr<Queue>,
    clock: Arc<dyn Clock>,
    script: Script,
    running: HashMap<TaskId, (Task, SpawnHandle)>,
}

impl Worker {
    fn end(
        &mut self,
        mut task: Task,
        ending: Ending,
        message: Option<String>,
        ctx: &mut Context<Self>,
    ) {
        self.running.remove(&task.id);
        task.lease = None;
        task.outcome = Some(Outcome {
            message: message.or_else(|| (ending == Ending::Failed).then(|| "no luck".to_owned())),
            text: "done".to_owned(),
            ..Outcome::new(ending, self.clock.now())
        });
        let committed = self.store.commit(Writes::new().put(&FinishedTask::of(&task)));
        let queue = self.queue.clone();
        ctx.spawn(committed.into_actor(self).map(move |_, _, _| {
            queue.do_send(Finished {
                task: task.id,
                ending,
                ran: Duration::ZERO,
                follow_up: None,
                told: Vec::new(),
            });
        }));
    }
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Dismiss> for Worker {
    type Result = ();

    fn handle(&mut self, _: Dismiss, _: &mut Self::Context) {}
}

impl Handler<Leased> for Worker {
    type Result = ();

    fn handle(&mut self, leased: Leased, ctx: &mut Self::Context) {
        let task = leased.task;
        self.queue.do_send(Taken { task: task.id.clone(), lease: leased.lease });
        let order = task.body.lines().next().unwrap_or_default();
        let (takes, ending) = (self.script)(order);
        let id = task.id.clone();
        let held = task.clone();
        let handle = ctx.run_later(takes, move |worker, ctx| worker.end(task, ending, None, ctx));
        self.running.insert(id, (held, handle));
    }
}

impl Handler<Stop> for Worker {
    type Result = ();

    fn handle(&mut self, stop: Stop, ctx: &mut Self::Context) {
        let Some(id) = stop.task else { return };
        if let Some((task, handle)) = self.running.remove(&id) {
            ctx.cancel_future(handle);
            self.end(task, Ending::Cancelled, stop.reason, ctx);
        }
    }
}

impl Handler<Waiting> for Worker {
    type Result = ();

    fn handle(&mut self, _: Waiting, _: &mut Self::Context) {}
}

impl Handler<Progressed> for Worker {
    type Result = ();

    fn handle(&mut self, _: Progressed, _: &mut Self::Context) {}
}

/// One process after another on the same store.
pub(crate) struct Stage {
    storage: Arc<MemoryStorage>,
    board: Board,
    clock: Arc<dyn Clock>,
    ids: Ids,
    script: Script,
    process: Option<(Addr<Scheduler>, Addr<Queue>)>,
    store: Option<StoreHandle>,
}

impl Stage {
    /// What administration needs of the process that runs, with a tree of teams.
    pub(crate) fn admin(&self, tree: Tree) -> admin::Parts {
        let (scheduler, _) = self.process.as_ref().unwrap();
        admin::Parts {
            scheduler: scheduler.clone(),
            store: self.store.clone().unwrap(),
            view: OrgView::new(tree),
            clock: self.clock.clone(),
            calendar: Arc::new(Zones),
            expressions: Arc::new(LinearExpressions),
            zone: LocalTime::new(Zone::parse(ZONE).unwrap()),
            board: self.board.clone(),
            subagents: Arc::new(|_| vec!["editor".to_owned()]),
            secrets: Arc::new(Vault::absent()),
        }
    }

    /// A first process, at a local time.
    pub(crate) fn new(at: &str, script: Script) -> Self {
        tokio::time::pause();
        let mut stage = Self {
            storage: Arc::new(MemoryStorage::default()),
            board: Board::default(),
            clock: Arc::new(ManualClock::running(Zones.moment(at, ZONE).unwrap())),
            ids: Ids::new(Arc::new(Sequence::from(1))),
            script,
            process: None,
            store: None,
        };
        stage.start();
        stage
    }

    pub(crate) fn start(&mut self) {
        let store = Store::start(&Arbiter::current(), StoreParts::of(self.storage.clone()));
        self.store = Some(store.clone());
        let channel = Channel::new(store.clone(), self.clock.clone(), self.ids.clone()).start();
        let open = scan::<Task>(&*self.storage, Range::all()).unwrap();
        let open = open.into_iter().map(Box::new).collect();
        let recovered = records::recover(&*self.storage, &[]).unwrap();
        let mut scheduler = None;
        let queue = Queue::create(|queue| {
            let worker = Worker {
                store: store.clone(),
                queue: queue.address(),
                clock: self.clock.clone(),
                script: self.script,
                running: HashMap::new(),
            };
            let worker = worker.start();
            let neighbours = Neighbours {
                queue: queue.address(),
                store: store.clone(),
                clock: self.clock.clone(),
                ids: self.ids.clone(),
                ports: Ports {
                    board: self.board.clone(),
                    calendar: Arc::new(Zones),
                    expressions: Arc::new(LinearExpressions),
                    roster: Arc::new(Everyone),
                    preconditions: Arc::new(Everyone),
                    timezone: ZONE.to_owned(),
                },
            };
            let address = Scheduler::new(neighbours, MessageTriggers::default(), recovered).start();
            scheduler = Some(address.clone());
            let listeners = Listeners {
                leased: worker.clone().recipient(),
                waiting: worker.clone().recipient(),
                stop: worker.clone().recipient(),
                dismiss: worker.clone().recipient(),
                progressed: worker.recipient(),
                ended: vec![address.recipient()],
                ledger: Ledger::default(),
            };
            let left = Left { open, ..Left::default() };
            Queue::new(
                store.clone(),
                channel,
                self.clock.clone(),
                self.ids.clone(),
                Limits::default(),
                listeners,
                left,
            )
        });
        self.process = scheduler.map(|scheduler| (scheduler, queue));
    }

    /// The process ends.
    pub(crate) async fn stop(&mut self) {
        let (scheduler, queue) = self.process.take().unwrap();
        scheduler.send(Drain).await.unwrap();
        queue.send(queue::Drain).await.unwrap();
    }

    /// Time passes, until a local time and a little more.
    pub(crate) async fn until(&self, local: &str) {
        let at = Zones.moment(local, ZONE).unwrap();
        let now = self.clock.now();
        assert!(at > now, "{local} has passed");
        tokio::time::sleep(at.since(now) + Duration::from_secs(1)).await;
    }

    pub(crate) async fn create(&self, definition: Definition) -> Trigger {
        let (scheduler, _) = self.process.as_ref().unwrap();
        let create = Create {
            // Each has a team of its own, so that none waits for another.
            team: TeamKey::first(format!("team-{}", definition.name)),
            definition,
            enable: true,
            by: "operator".to_owned(),
        };
        scheduler.send(create).await.unwrap().unwrap()
    }

    pub(crate) async fn trigger(&self, trigger: &Trigger) -> Trigger {
        let (scheduler, _) = self.process.as_ref().unwrap();
        let which = Which::Id(trigger.id.clone());
        let found = scheduler.send(Get { which }).await.unwrap();
        found.unwrap().trigger
    }

    /// The zone of the settings changes.
    pub(crate) fn set_zone(&self, timezone: &str) {
        let (scheduler, _) = self.process.as_ref().unwrap();
        let timezone = timezone.to_owned();
        scheduler.do_send(SetZone { timezone });
    }

    pub(crate) fn task(&self, id: &TaskId) -> Task {
        tasks::find(&*self.storage, id).unwrap().unwrap()
    }

    /// All runs of a trigger, oldest first.
    pub(crate) fn runs(&self, trigger: &Trigger) -> Vec<Run> {
        let Trigger { team, id, .. } = trigger;
        let mut runs = records::runs(&*self.storage, team, id, None, 100_000).unwrap();
        runs.reverse();
        runs
    }

    /// The runs of a trigger in words: when it was due, why, what for, and how it ended.
    pub(crate) fn story(&self, trigger: &Trigger) -> Vec<String> {
        let tell = |run: &Run| {
            let due = Zones.show(ZONE, run.due_at);
            let mut words = vec![due.replace(":00 C", " C"), run.cause.as_str().to_owned()];
            words.push(run.decision.as_str().to_owned());
            words.extend(run.count.map(|count| format!("x{count}")));
            words.extend(run.outcome.map(|outcome| outcome.as_str().to_owned()));
            words.join(" ")
        };
        self.runs(trigger).iter().map(tell).collect()
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        disk::notices(&*self.storage).unwrap()
    }

    /// What the task of a run was asked.
    pub(crate) fn body(&self, run: &Run) -> String {
        let id = run.task_id.as_ref().unwrap();
        tasks::find(&*self.storage, id).unwrap().unwrap().body
    }

    /// The lanes of tasks that are still open.
    pub(crate) fn open(&self) -> Vec<Lane> {
        let open = scan::<Task>(&*self.storage, Range::all()).unwrap();
        open.into_iter().map(|task| task.lane).collect()
    }
}
