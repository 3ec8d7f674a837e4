//! The approvals with a store, a queue and a vault that tests can look into.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix::{Actor, Addr, Arbiter, Context, Handler, ResponseFuture};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    approvals::{
        Approvals, Ask, Decide, Neighbours, Opened, Reply,
        grants::Grants,
        ports::{Deciders, SecretSink, SecretText},
        question::{Answer, AnswerKind, DEFAULT_TTL, Question, QuestionStatus},
        record::{Approval, Choice, Decider, Intended, NotPermitted, Resolved, Status, Word},
        records::Recovered,
        refusal::{NotAnswered, NotDecided},
        requests::{CallRequest, RequestBuilder},
    },
    budget::Ledger,
    channel::Channel,
    clock::{Clock, Timestamp},
    doubles::{
        disk::{Disk, MemoryStorage},
        entropy::Sequence,
        world::World,
    },
    ids::{Ids, PrincipalId, TaskId, TeamKey},
    queue::{
        refusal::Refusal,
        submit::{Submission, Submit},
    },
    store::{
        Store, StoreHandle, StoreParts,
        reads::{Range, get, scan},
    },
    task::{Label, Lane, Parked, Source, Task, Tasks, TopicRef, WaitReason},
    tool::{Asking, Caller},
};

pub(super) const TTL: Duration = Duration::from_secs(3_600);

/// Tells texts apart well enough for a test.
pub(super) fn digester(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parts = ["a", "b", "c", "d"].map(|salt| {
        let number = crate::store::records::digest(&format!("{salt}{text}"));
        format!("{number:016x}")
    });
    parts.concat()
}

/// Stands for queue and team: stores what it is given, and hears of decisions.
pub(super) struct Work {
    pub(super) store: StoreHandle,
    pub(super) full: Arc<AtomicBool>,
    pub(super) enqueued: Arc<Mutex<Vec<Task>>>,
    pub(super) resolved: Arc<Mutex<Vec<Approval>>>,
}

impl Actor for Work {
    type Context = Context<Self>;
}

impl Handler<Submit> for Work {
    type Result = ResponseFuture<Result<Submission, Refusal>>;

    fn handle(&mut self, message: Submit, _: &mut Self::Context) -> Self::Result {
        let Submit { task, writes, .. } = message;
        if self.full.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(Refusal::QueueFull(1))));
        }
        let committed = self.store.commit(writes.put(&task));
        self.enqueued.lock().unwrap().push(task);
        Box::pin(async move {
            committed.await.map_err(|_| Refusal::Stopping)?;
            let in_flight = Vec::new();
            Ok(Submission::Enqueued { in_flight })
        })
    }
}

impl Handler<Resolved> for Work {
    type Result = ();

    fn handle(&mut self, Resolved(approval): Resolved, _: &mut Self::Context) {
        self.resolved.lock().unwrap().push(approval);
    }
}

#[derive(Clone, Default)]
pub(super) struct Vault {
    pub(super) kept: Arc<Mutex<Vec<(String, String)>>>,
    pub(super) locked: Arc<AtomicBool>,
    /// Tasks that ended.
    pub(super) released: Arc<Mutex<Vec<TaskId>>>,
    /// Who gave them.
    pub(super) by: Arc<Mutex<Vec<PrincipalId>>>,
}

impl SecretSink for Vault {
    fn keep(
        &self,
        team: TeamKey,
        key: String,
        secret: SecretText,
        by: &Decider,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (this, by) = (self.clone(), by.principal.clone());
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if this.locked.load(Ordering::Relaxed) {
                return Err("the vault is locked".to_owned());
            }
            let place = format!("{team}/{key}");
            this.kept.lock().unwrap().push((place, secret.expose().to_owned()));
            this.by.lock().unwrap().push(by);
            Ok(())
        })
    }

    fn release(&self, task: &TaskId) {
        self.released.lock().unwrap().push(task.clone());
    }
}

/// One process after another on the same disk.
pub(super) struct Bench {
    pub(super) disk: Disk,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Ids,
    pub(super) vault: Vault,
    pub(super) full: Arc<AtomicBool>,
    pub(super) enqueued: Arc<Mutex<Vec<Task>>>,
    pub(super) resolved: Arc<Mutex<Vec<Approval>>>,
    pub(super) deciders: Deciders,
}

pub(super) struct Process {
    pub(super) approvals: Addr<Approvals>,
    pub(super) store: StoreHandle,
    pub(super) requests: RequestBuilder,
    pub(super) storage: Arc<MemoryStorage>,
    pub(super) ledger: Ledger,
}

impl Bench {
    pub(super) fn new() -> Self {
        let world = World::new(|_| Vec::new());
        Self {
            disk: world.disk,
            clock: world.clock,
            ids: Ids::new(Arc::new(Sequence::scattered())),
            vault: Vault::default(),
            full: Arc::default(),
            enqueued: Arc::default(),
            resolved: Arc::default(),
            deciders: Deciders::new(|_, _| true),
        }
    }

    pub(super) fn start(&self) -> Process {
        self.start_on(self.disk.mount(None))
    }

    pub(super) fn start_on(&self, storage: Arc<MemoryStorage>) -> Process {
        let tasks = scan::<Task>(&*storage, Range::all()).unwrap();
        let tasks: Tasks = tasks.into_iter().map(Box::new).collect();
        let recovered = Recovered::read(&*storage, &tasks).unwrap();
        let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
        let work = Work {
            store: store.clone(),
            full: self.full.clone(),
            enqueued: self.enqueued.clone(),
            resolved: self.resolved.clone(),
        }
        .start();
        let requests = RequestBuilder::new(self.ids.clone(), digester, TTL);
        let ledger = Ledger::default();
        let neighbours = Neighbours {
            store: store.clone(),
            channel: Channel::new(store.clone(), self.clock.clone(), self.ids.clone()).start(),
            queue: work.clone().recipient(),
            resolved: work.recipient(),
            secrets: Arc::new(self.vault.clone()),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            requests: requests.clone(),
            grants: Grants::read(&*storage).unwrap(),
            deciders: self.deciders.clone(),
            ledger: ledger.clone(),
            days: Arc::new(crate::doubles::world::OneDay),
        };
        Process {
            approvals: Approvals::new(neighbours, recovered).start(),
            store,
            requests,
            storage,
            ledger,
        }
    }

    pub(super) fn row(&self, process: &Process, approval: &Approval) -> Approval {
        get::<Approval>(&*process.storage, &approval.id).unwrap().unwrap()
    }

    pub(super) fn resolved(&self) -> Vec<(Status, Option<String>)> {
        let resolved = self.resolved.lock().unwrap();
        resolved.iter().map(|row| (row.status, row.resolved_by.clone())).collect()
    }
}

pub(super) fn task() -> Task {
    let lane = Lane { team: "main".into(), topic: Some("t-1".into()) };
    Task {
        source: Some(Source {
            channel: "ws:1".into(),
            message: Some("m1".into()),
            topic: Some(TopicRef { id: "t-1".into(), name: "garden".to_owned() }),
            notify: None,
        }),
        deadline_at: Timestamp(u64::MAX),
        parked: Some(Parked { reason: WaitReason::Approval, since: Timestamp(0), until: None }),
        ..Task::new("task-1".into(), lane, String::new(), "ann".to_owned(), Timestamp(0))
    }
}

pub(super) fn args() -> Value {
    json!({"command": "rm -r build", "n": [1, {"deep": true}]})
}

impl Process {
    pub(super) fn request(&self, now: Timestamp, asking: &Asking) -> Approval {
        let request = CallRequest {
            caller: &Caller::of(&task()),
            turn: &"turn-1".into(),
            label: Label::Trusted,
            call: "turn-1:1:0",
            tool: "bash",
            arguments: &args(),
            asking,
        };
        self.requests.request(request, now)
    }

    /// A request as a turn stores it.
    pub(super) async fn open(&self, bench: &Bench) -> Approval {
        self.open_with(bench, Asking::default()).await
    }

    pub(super) async fn open_with(&self, bench: &Bench, asking: Asking) -> Approval {
        let approval = self.request(bench.clock.now(), &asking);
        let writes = self.requests.opening(&approval).put(&task());
        self.store.commit(writes).await.unwrap();
        self.approvals.do_send(Opened(approval.clone()));
        approval
    }

    pub(super) async fn decide(&self, word: Word) -> Result<Approval, NotDecided> {
        self.approvals.send(Decide { word, channel: None }).await.unwrap()
    }

    pub(super) async fn reply(
        &self,
        question: &Question,
        answer: Answer,
    ) -> Result<Question, NotAnswered> {
        let reply = Reply {
            question: question.id.clone(),
            answer,
            by: Decider::new("operator"),
            channel: None,
        };
        self.approvals.send(reply).await.unwrap()
    }

    pub(super) async fn ask(&self, question: &Question) {
        self.approvals.send(Ask(question.clone())).await.unwrap().unwrap();
    }
}

pub(super) fn word(approval: &Approval, choice: Choice, who: &str) -> Word {
    Word {
        which: approval.id.to_string(),
        choice,
        resolution: crate::approvals::record::Resolution::Once,
        digest: Some(approval.digest.clone()),
        note: None,
        confirm: None,
        by: Decider::new(who),
        via: "api".to_owned(),
    }
}

pub(super) fn intended<'a>(
    arguments: &'a Value,
    team: &'a TeamKey,
    none: &'a BTreeMap<String, u64>,
) -> Intended<'a> {
    Intended { team, tool: "bash", arguments, cwd: None, secrets: none }
}

pub(super) fn permits(approval: &Approval) -> Result<(), NotPermitted> {
    approval.permits(digester, intended(&args(), &TeamKey::first("main"), &BTreeMap::new()))
}

pub(super) fn question(bench: &Bench, kind: AnswerKind) -> Question {
    let caller = Caller::of(&task());
    let now = bench.clock.now();
    Question {
        id: "qst-1".into(),
        team: caller.team,
        lane: caller.lane,
        task: caller.task,
        question: "Which colour?".to_owned(),
        options: vec!["red".to_owned(), "blue".to_owned()],
        multi: false,
        kind,
        key: (kind == AnswerKind::Secret).then(|| "API_KEY".to_owned()),
        status: QuestionStatus::Open,
        answer: None,
        by: None,
        source: caller.source,
        lineage: caller.lineage,
        label: Label::Untrusted,
        cause: caller.cause,
        created_at: now,
        expires_at: now + DEFAULT_TTL,
        answered_at: None,
    }
}

pub(super) fn chosen(option: &str) -> Answer {
    Answer { selected: vec![option.to_owned()], text: String::new() }
}

pub(super) fn words(text: &str) -> Answer {
    Answer { selected: Vec::new(), text: text.to_owned() }
}
