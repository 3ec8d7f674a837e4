//! What waits for a person, and what becomes of it.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::{Actor, Addr, Arbiter, Context, Handler};
use futures_util::future::{BoxFuture, join};
use serde_json::{Value, json};

use super::{
    Approvals, Ask, Decide, Disbanded, Ended, List, ListQuestions, Neighbours, NotAnswered,
    NotDecided, Opened, Recovered, Reply, Resolved,
    desk::{Desk, Wish},
    question::{Answer, AnswerKind, DEFAULT_TTL, Question, QuestionStatus, Unfit},
    record::{
        Approval, Choice, Decider, Execution, Intended, NotPermitted, Resolution, Status, Vote,
        Word,
    },
    secret::{SecretSink, SecretText},
};
use crate::{
    channel::Channel,
    clock::{Clock, Timestamp},
    doubles::{
        disk::{Crash, Disk, Mounted},
        world::World,
    },
    ids::{Entropy, Ids, TeamKey},
    policy::class::Risk,
    queue::Enqueue,
    storage::Storage,
    store::{Store, StoreHandle, reads, records::Writes},
    task::{Cause, Kind, Label, Lane, Parked, Source, Task, TopicRef, WaitReason},
    tool::{Asking, Caller},
};

const TTL: Duration = Duration::from_secs(3_600);

#[derive(Default)]
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn bits(&self) -> u64 {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// Tells texts apart well enough for a test.
fn digester(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parts = ["a", "b", "c", "d"].map(|salt| {
        let number = crate::store::records::digest(&format!("{salt}{text}"));
        format!("{number:016x}")
    });
    parts.concat()
}

/// Stands for queue and team: stores what it is given, and hears of decisions.
struct Work {
    store: StoreHandle,
    full: Arc<AtomicBool>,
    enqueued: Arc<Mutex<Vec<Task>>>,
    resolved: Arc<Mutex<Vec<Approval>>>,
}

impl Actor for Work {
    type Context = Context<Self>;
}

impl Handler<Enqueue> for Work {
    type Result = ();

    fn handle(&mut self, Enqueue { task, writes }: Enqueue, _: &mut Self::Context) {
        if !self.full.load(Ordering::Relaxed) {
            drop(self.store.commit(writes.task(&task)));
            self.enqueued.lock().unwrap().push(task);
        }
    }
}

impl Handler<Resolved> for Work {
    type Result = ();

    fn handle(&mut self, Resolved(approval): Resolved, _: &mut Self::Context) {
        self.resolved.lock().unwrap().push(approval);
    }
}

#[derive(Clone, Default)]
struct Vault {
    kept: Arc<Mutex<Vec<(String, String)>>>,
    locked: Arc<AtomicBool>,
}

impl SecretSink for Vault {
    fn keep(
        &self,
        team: TeamKey,
        key: String,
        secret: SecretText,
    ) -> BoxFuture<'static, Result<(), String>> {
        let this = self.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if this.locked.load(Ordering::Relaxed) {
                return Err("the vault is locked".to_owned());
            }
            let place = format!("{team}/{key}");
            this.kept
                .lock()
                .unwrap()
                .push((place, secret.expose().to_owned()));
            Ok(())
        })
    }
}

/// One process after another on the same disk.
struct Bench {
    disk: Disk,
    clock: Arc<dyn Clock>,
    ids: Ids,
    vault: Vault,
    full: Arc<AtomicBool>,
    enqueued: Arc<Mutex<Vec<Task>>>,
    resolved: Arc<Mutex<Vec<Approval>>>,
}

struct Process {
    approvals: Addr<Approvals>,
    store: StoreHandle,
    desk: Desk,
    storage: Arc<Mounted>,
}

impl Bench {
    fn new() -> Self {
        let world = World::new(|_| Vec::new());
        Self {
            disk: world.disk,
            clock: world.clock,
            ids: Ids::new(Arc::new(Counted::default())),
            vault: Vault::default(),
            full: Arc::default(),
            enqueued: Arc::default(),
            resolved: Arc::default(),
        }
    }

    fn start(&self) -> Process {
        self.start_on(self.disk.mount(None))
    }

    fn start_on(&self, storage: Arc<Mounted>) -> Process {
        let tasks = reads::open_tasks(&*storage).unwrap().rows;
        let recovered = Recovered::read(&*storage, &tasks).unwrap();
        let store = Store::start(
            &Arbiter::current(),
            storage.clone(),
            Box::new(|_| ()),
            Box::new(|_, _| ()),
        );
        let work = Work {
            store: store.clone(),
            full: self.full.clone(),
            enqueued: self.enqueued.clone(),
            resolved: self.resolved.clone(),
        }
        .start();
        let desk = Desk::new(self.ids.clone(), digester, TTL);
        let neighbours = Neighbours {
            store: store.clone(),
            channel: Channel::new(store.clone(), self.clock.clone()).start(),
            queue: work.clone().recipient(),
            resolved: work.recipient(),
            secrets: Arc::new(self.vault.clone()),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            desk: desk.clone(),
        };
        Process {
            approvals: Approvals::new(neighbours, recovered).start(),
            store,
            desk,
            storage,
        }
    }

    fn row(&self, process: &Process, approval: &Approval) -> Approval {
        reads::approval(&*process.storage, &approval.id)
            .unwrap()
            .unwrap()
    }

    fn resolved(&self) -> Vec<(Status, Option<String>)> {
        let resolved = self.resolved.lock().unwrap();
        resolved
            .iter()
            .map(|row| (row.status, row.resolved_by.clone()))
            .collect()
    }
}

fn task() -> Task {
    let lane = Lane {
        team: "main".into(),
        topic: Some("t-1".into()),
    };
    Task {
        source: Some(Source {
            channel: "ws:1".into(),
            message: Some("m1".into()),
            topic: Some(TopicRef {
                id: "t-1".into(),
                name: "garden".to_owned(),
            }),
        }),
        parked: Some(Parked {
            reason: WaitReason::Approval,
            since: Timestamp(0),
            until: None,
        }),
        ..Task::new(
            "task-1".into(),
            lane,
            String::new(),
            "ann".to_owned(),
            Timestamp(0),
        )
    }
}

fn args() -> Value {
    json!({"command": "rm -r build", "n": [1, {"deep": true}]})
}

impl Process {
    fn request(&self, now: Timestamp, asking: &Asking) -> Approval {
        let wish = Wish {
            caller: &Caller::of(&task()),
            turn: &"turn-1".into(),
            label: Label::Trusted,
            call: "turn-1:1:0",
            tool: "bash",
            arguments: &args(),
            asking,
        };
        self.desk.request(wish, now)
    }

    /// A request as a turn stores it.
    async fn open(&self, bench: &Bench) -> Approval {
        self.open_with(bench, Asking::default()).await
    }

    async fn open_with(&self, bench: &Bench, asking: Asking) -> Approval {
        let approval = self.request(bench.clock.now(), &asking);
        let writes = Desk::opening(&approval).task(&task());
        self.store.commit(writes).await.unwrap();
        self.approvals.do_send(Opened(approval.clone()));
        approval
    }

    async fn decide(&self, word: Word) -> Result<Approval, NotDecided> {
        self.approvals
            .send(Decide {
                word,
                channel: None,
            })
            .await
            .unwrap()
    }

    async fn reply(&self, question: &Question, answer: Answer) -> Result<Question, NotAnswered> {
        let reply = Reply {
            question: question.id.clone(),
            answer,
            by: Decider::new("operator"),
            channel: None,
        };
        self.approvals.send(reply).await.unwrap()
    }

    async fn ask(&self, question: &Question) {
        self.approvals
            .send(Ask(question.clone()))
            .await
            .unwrap()
            .unwrap();
    }
}

fn word(approval: &Approval, choice: Choice, who: &str) -> Word {
    Word {
        which: approval.id.to_string(),
        choice,
        digest: Some(approval.digest.clone()),
        note: None,
        by: Decider::new(who),
        via: "api".to_owned(),
    }
}

fn intended<'a>(
    arguments: &'a Value,
    team: &'a TeamKey,
    none: &'a BTreeMap<String, u64>,
) -> Intended<'a> {
    Intended {
        team,
        tool: "bash",
        arguments,
        cwd: None,
        secrets: none,
    }
}

fn permits(approval: &Approval) -> Result<(), NotPermitted> {
    approval.permits(
        digester,
        intended(&args(), &TeamKey::first("main"), &BTreeMap::new()),
    )
}

fn question(bench: &Bench, kind: AnswerKind) -> Question {
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

fn chosen(option: &str) -> Answer {
    Answer {
        selected: vec![option.to_owned()],
        text: String::new(),
    }
}

fn words(text: &str) -> Answer {
    Answer {
        selected: Vec::new(),
        text: text.to_owned(),
    }
}

/// PL-74, PL-76
#[actix::test]
async fn a_decision_is_stored_before_the_waiting_turn_is_told() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let mut denial = word(&approval, Choice::Deny, "bob");
    denial.note = Some("not today".to_owned());
    let decided = process.decide(denial).await.unwrap();

    assert_eq!(bench.row(&process, &approval), decided);
    assert_eq!(decided.status, Status::Denied);
    assert_eq!(decided.resolved_via.as_deref(), Some("api"));
    assert_eq!(decided.denial(), "denied by bob: not today");
    assert_eq!(bench.resolved(), [(Status::Denied, Some("bob".to_owned()))]);
    assert_eq!(bench.disk.keys("apr-open"), Vec::<String>::new());
    assert_eq!(permits(&decided), Err(NotPermitted::NotApproved));
}

/// PL-75, PL-83: `once` is this digest, one execution.
#[actix::test]
async fn an_approval_permits_exactly_one_run_of_exactly_this() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let before = permits(&approval);
    let approved = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await
        .unwrap();
    let running = Approval {
        execution: Execution::Running,
        ..approved.clone()
    };

    assert_eq!(before, Err(NotPermitted::NotApproved));
    assert_eq!(permits(&approved), Ok(()));
    assert_eq!(approved.resolution, Some(Resolution::Once));
    assert_eq!(permits(&running), Err(NotPermitted::Used));
}

/// PL-95, SC-08: mutating any byte of tool, arguments, team, expiry or nonce → nothing runs.
#[actix::test]
async fn any_changed_byte_after_the_approval_keeps_the_call_from_running() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let approved = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await
        .unwrap();
    let team = TeamKey::first("main");
    let none = BTreeMap::new();

    let text = args().to_string();
    let mut tried = 0;
    for place in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1 << bit;
            let Ok(other) = serde_json::from_slice::<Value>(&bytes) else {
                continue;
            };
            if other == args() {
                continue;
            }
            tried += 1;
            let found = approved.permits(digester, intended(&other, &team, &none));
            assert_eq!(found, Err(NotPermitted::DigestMismatch), "{other}");
        }
    }
    assert!(tried > 100, "{tried}");

    let args = args();
    let versions = BTreeMap::from([("KEY".to_owned(), 1)]);
    let (next_life, other_team) = (
        TeamKey {
            generation: 2,
            ..team.clone()
        },
        TeamKey::first("other"),
    );
    let good = intended(&args, &team, &none);
    let changed = [
        Intended {
            tool: "bosh",
            ..good
        },
        Intended {
            team: &next_life,
            ..good
        },
        Intended {
            team: &other_team,
            ..good
        },
        Intended {
            cwd: Some("/"),
            ..good
        },
        Intended {
            secrets: &versions,
            ..good
        },
    ];
    for intended in changed {
        let found = approved.permits(digester, intended);
        assert_eq!(found, Err(NotPermitted::DigestMismatch), "{intended:?}");
    }
    let rows = [
        Approval {
            expires_at: Timestamp(approved.expires_at.0 + 1),
            ..approved.clone()
        },
        Approval {
            nonce: approved.nonce.replacen('0', "1", 1),
            ..approved.clone()
        },
        Approval {
            requester: Cause::System,
            ..approved.clone()
        },
        Approval {
            digest: digester(b"other"),
            ..approved.clone()
        },
        Approval {
            votes: vec![Vote {
                digest: digester(b"other"),
                ..approved.votes[0].clone()
            }],
            ..approved.clone()
        },
        Approval {
            votes: vec![Vote {
                choice: Choice::Deny,
                ..approved.votes[0].clone()
            }],
            ..approved.clone()
        },
    ];
    for row in rows {
        assert_eq!(permits(&row), Err(NotPermitted::DigestMismatch), "{row:?}");
    }
    let unasked = Approval {
        votes: Vec::new(),
        ..approved
    };
    assert_eq!(permits(&unasked), Err(NotPermitted::NotApproved));
}

/// PL-75, OP-36
#[actix::test]
async fn a_decision_on_another_digest_does_not_count() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let mut other = word(&approval, Choice::Approve, "bob");
    other.digest = Some(digester(b"something else"));
    let refused = process.decide(other).await;

    assert_eq!(refused, Err(NotDecided::DigestMismatch));
    assert_eq!(process.approvals.send(List).await.unwrap(), [approval]);
}

/// SC-08: a row that was changed while it waited is not decided on.
#[actix::test]
async fn a_tampered_request_cannot_be_approved() {
    let bench = Bench::new();
    let process = bench.start();
    let mut approval = process.request(bench.clock.now(), &Asking::default());
    approval.arguments = json!({"command": "ls"});
    process.approvals.do_send(Opened(approval.clone()));

    let refused = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await;

    assert_eq!(refused, Err(NotDecided::DigestMismatch));
}

/// PL-76: the second decider hears who was first.
#[actix::test]
async fn of_two_deciders_the_first_decides() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let (first, second) = join(
        process.decide(word(&approval, Choice::Approve, "bob")),
        process.decide(word(&approval, Choice::Deny, "eve")),
    )
    .await;

    let first = first.unwrap();
    assert_eq!(
        second,
        Err(NotDecided::AlreadyResolved(Box::new(first.clone())))
    );
    assert_eq!(bench.row(&process, &approval), first);
    assert_eq!(bench.resolved().len(), 1);
}

/// PL-76: a decision is idempotent, also for whoever asks again after a restart.
#[actix::test]
async fn the_same_decision_again_is_no_new_one() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let mine = word(&approval, Choice::Approve, "bob");
    let first = process.decide(mine.clone()).await.unwrap();

    let again = process.decide(mine.clone()).await;
    let later = bench.start();
    let after_restart = later.decide(mine).await;
    let other = later.decide(word(&approval, Choice::Deny, "eve")).await;

    assert_eq!(
        (again, after_restart),
        (Ok(first.clone()), Ok(first.clone()))
    );
    assert_eq!(other, Err(NotDecided::AlreadyResolved(Box::new(first))));
}

/// PL-74
#[actix::test]
async fn six_letters_are_enough_to_name_what_waits() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let mut by_letters = word(&approval, Choice::Approve, "bob");
    by_letters.which = approval.short_id.clone();
    by_letters.digest = None;

    let decided = process.decide(by_letters.clone()).await.unwrap();
    by_letters.by = Decider::new("eve");
    let again = bench.start().decide(by_letters.clone()).await;
    by_letters.which = "zzzzzz".to_owned();
    let unknown = process.decide(by_letters).await;

    assert_eq!(approval.short_id.len(), 6);
    assert!(
        approval
            .short_id
            .bytes()
            .all(|byte| byte.is_ascii_lowercase())
    );
    assert_eq!(again, Err(NotDecided::AlreadyResolved(Box::new(decided))));
    assert_eq!(unknown, Err(NotDecided::NotFound));
}

/// PL-77
#[actix::test]
async fn at_high_risk_whoever_caused_the_task_does_not_decide() {
    let bench = Bench::new();
    let process = bench.start();
    let risky = Asking {
        high_risk: true,
        ..Asking::default()
    };
    let approval = process.open_with(&bench, risky).await;
    let as_sender = Word {
        by: Decider {
            principal: "portal".into(),
            sender: Some(("ws".to_owned(), "ann".to_owned())),
        },
        ..word(&approval, Choice::Approve, "portal")
    };

    let own = process
        .decide(word(&approval, Choice::Approve, "ann"))
        .await;
    let in_channel = process.decide(as_sender).await;
    let other = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await;

    assert_eq!(approval.risk, Risk::High);
    assert_eq!(
        (own, in_channel),
        (Err(NotDecided::NotAllowed), Err(NotDecided::NotAllowed))
    );
    assert_eq!(other.unwrap().status, Status::Approved);
}

/// PL-78: expired means denied, by the alarm alone.
#[actix::test]
async fn what_nobody_decides_on_expires() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    let row = bench.row(&process, &approval);
    let late = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await;

    assert_eq!(row.status, Status::Expired);
    assert_eq!(row.denial(), "denied by nobody: no decision in time");
    assert_eq!(late, Err(NotDecided::Expired(Box::new(row.clone()))));
    assert_eq!(permits(&row), Err(NotPermitted::NotApproved));
    assert_eq!(bench.resolved(), [(Status::Expired, None)]);
}

/// PL-78: also when the time ran out while nobody was there.
#[actix::test]
async fn what_expired_while_the_service_was_down_expires_at_the_start() {
    let bench = Bench::new();
    let approval = {
        let process = bench.start();
        let approval = process.open(&bench).await;
        process.approvals.send(List).await.unwrap();
        approval
    };
    bench.resolved.lock().unwrap().clear();

    tokio::time::sleep(TTL * 2).await;
    bench.resolved.lock().unwrap().clear();
    let process = bench.start();
    let waiting = process.approvals.send(List).await.unwrap();
    let late = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await;

    assert_eq!(waiting, []);
    assert!(matches!(late, Err(NotDecided::Expired(_))), "{late:?}");
}

/// PL-76: a restart loses nothing.
#[actix::test]
async fn what_waits_still_waits_after_a_restart() {
    let bench = Bench::new();
    let first = bench.start();
    let approval = first.open(&bench).await;

    let second = bench.start();
    let waiting = second.approvals.send(List).await.unwrap();
    let decided = second
        .decide(word(&approval, Choice::Approve, "bob"))
        .await
        .unwrap();

    assert_eq!(waiting, [approval]);
    assert_eq!(permits(&decided), Ok(()));
}

/// PL-79: if its task ends otherwise, nobody needs to decide.
#[actix::test]
async fn the_end_of_a_task_cancels_what_it_waited_for() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    process
        .approvals
        .send(Ended {
            task: "task-1".into(),
            kind: crate::task::Kind::Chat,
            team: "main".into(),
        })
        .await
        .unwrap();
    let late = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await;

    let row = bench.row(&process, &approval);
    assert_eq!(row.status, Status::Cancelled);
    assert_eq!(late, Err(NotDecided::AlreadyResolved(Box::new(row))));
}

/// PL-79: also if nobody was there to hear of it.
#[actix::test]
async fn what_waits_for_no_open_task_is_cancelled_at_the_start() {
    let bench = Bench::new();
    let first = bench.start();
    let approval = first.open(&bench).await;
    let mut over = task();
    over.parked = None;
    first
        .store
        .commit(Writes::new().finished(&over))
        .await
        .unwrap();

    let second = bench.start();
    let waiting = second.approvals.send(List).await.unwrap();
    second.store.commit(Writes::new()).await.unwrap();

    assert_eq!(waiting, []);
    assert_eq!(bench.row(&second, &approval).status, Status::Cancelled);
}

/// PL-76: a decision that its turn did not hear of is told again after a restart.
#[actix::test]
async fn a_parked_turn_hears_of_its_decision_after_a_crash() {
    let bench = Bench::new();
    let first = bench.start();
    let approval = first.open(&bench).await;
    let decided = first
        .decide(word(&approval, Choice::Approve, "bob"))
        .await
        .unwrap();
    bench.resolved.lock().unwrap().clear();

    let second = bench.start();
    second.approvals.send(List).await.unwrap();
    second.store.commit(Writes::new()).await.unwrap();

    assert_eq!(*bench.resolved.lock().unwrap(), [decided]);
}

/// A decision may come before the turn has said that there is something to decide.
#[actix::test]
async fn a_request_is_found_in_the_store_before_it_is_announced() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.request(bench.clock.now(), &Asking::default());
    process
        .store
        .commit(Desk::opening(&approval).task(&task()))
        .await
        .unwrap();

    let decided = process
        .decide(word(&approval, Choice::Deny, "bob"))
        .await
        .unwrap();
    process.approvals.do_send(Opened(approval));
    let waiting = process.approvals.send(List).await.unwrap();

    assert_eq!(decided.status, Status::Denied);
    assert_eq!(waiting, []);
}

/// PL-95: cut at every commit point of ask and decide. A decision that was answered is there; one
/// that was not is either there or still to be made; nothing waits that was decided.
#[actix::test]
async fn a_cut_at_any_commit_loses_no_request_and_no_decision() {
    let bench = Bench::new();
    let whole = bench.start();
    let approval = whole.open(&bench).await;
    whole
        .decide(word(&approval, Choice::Approve, "bob"))
        .await
        .unwrap();
    let commits = whole.storage.commits();
    assert_eq!(commits, 2);

    for cut in (0..commits).flat_map(|n| [Crash::Before(n), Crash::After(n)]) {
        let bench = Bench::new();
        let doomed = bench.start_on(bench.disk.mount(Some(cut)));
        let approval = doomed.request(bench.clock.now(), &Asking::default());
        let writes = Desk::opening(&approval).task(&task());
        let stored =
            tokio::time::timeout(Duration::from_secs(1), doomed.store.commit(writes)).await;
        let mut answered = None;
        if stored.is_ok_and(|stored| stored.is_ok()) {
            doomed.approvals.do_send(Opened(approval.clone()));
            let decide = doomed.decide(word(&approval, Choice::Approve, "bob"));
            answered = tokio::time::timeout(Duration::from_secs(1), decide)
                .await
                .ok();
        }
        let told_before = bench.resolved().len();

        let next = bench.start();
        let waiting = next.approvals.send(List).await.unwrap();
        let row = reads::approval(&*next.storage, &approval.id).unwrap();

        let label = format!("{cut:?}");
        match &row {
            None => assert!(matches!(cut, Crash::Before(0)), "{label}"),
            Some(row) if row.status == Status::Pending => {
                assert!(!matches!(answered, Some(Ok(_))), "{label}");
                assert_eq!(told_before, 0, "{label}");
                assert_eq!(waiting.len(), 1, "{label}");
                let decided = next.decide(word(&approval, Choice::Deny, "eve")).await;
                assert_eq!(decided.unwrap().status, Status::Denied, "{label}");
            }
            Some(row) => {
                assert_eq!(row.status, Status::Approved, "{label}");
                assert_eq!(waiting, [], "{label}");
                assert_eq!(
                    bench.resolved().len() - told_before,
                    1,
                    "told after the cut: {label}"
                );
                let late = next.decide(word(&approval, Choice::Deny, "eve")).await;
                assert!(
                    matches!(late, Err(NotDecided::AlreadyResolved(_))),
                    "{label}"
                );
            }
        }
    }
}

/// PL-85: the card shows tool, arguments, short id and the beginning of the digest.
#[actix::test]
async fn the_card_stands_in_the_conversation_that_the_work_comes_from() {
    let bench = Bench::new();
    let process = bench.start();
    let asking = Asking {
        summary: "It deletes files.".to_owned(),
        ..Asking::default()
    };
    let approval = process.open_with(&bench, asking).await;

    let frames = reads::outbox(&*process.storage, &"ws:1".into()).unwrap();
    let card = serde_json::to_value(&frames[0].frame).unwrap();

    assert_eq!(frames.len(), 1);
    assert_eq!(card["topic"]["id"], "t-1");
    let body = &card["body"];
    assert_eq!(body["type"], "notification");
    assert_eq!(body["kind"], "approval");
    assert_eq!(body["status"], "pending");
    assert_eq!(body["ref_id"], approval.id.as_str());
    let digest = &approval.digest[..8];
    let name = &approval.short_id;
    assert_eq!(
        body["content"],
        format!(
            "[main] wants to use bash. It deletes files.\n\
             Arguments: {}\n\
             Digest {digest}. Decide with /approve {name} or /deny {name} <why>.",
            args()
        )
    );
}

/// What must not be shown is not stored either, and the digest still binds what runs.
#[actix::test]
async fn arguments_are_stored_as_they_may_be_shown() {
    let bench = Bench::new();
    let process = bench.start();
    let asking = Asking {
        shown: Some(json!({"command": "[hidden]"})),
        ..Asking::default()
    };
    let approval = process.open_with(&bench, asking).await;

    let approved = process
        .decide(word(&approval, Choice::Approve, "bob"))
        .await
        .unwrap();

    assert_eq!(approved.arguments, json!({"command": "[hidden]"}));
    assert_eq!(permits(&approved), Ok(()));
}

/// Whoever saw the card hears what became of it, unless they decided there themselves.
#[actix::test]
async fn a_decision_elsewhere_is_told_where_the_card_was() {
    let bench = Bench::new();
    let process = bench.start();
    let here = process.open(&bench).await;
    let decide = |approval: &Approval, channel: Option<&str>| Decide {
        word: word(approval, Choice::Approve, "bob"),
        channel: channel.map(Into::into),
    };
    let frames = || {
        reads::outbox(&*process.storage, &"ws:1".into())
            .unwrap()
            .len()
    };

    process
        .approvals
        .send(decide(&here, Some("ws:1")))
        .await
        .unwrap()
        .unwrap();
    let after_here = frames();
    let there = process.open(&bench).await;
    process
        .approvals
        .send(decide(&there, None))
        .await
        .unwrap()
        .unwrap();

    assert_eq!((after_here, frames()), (1, 3));
}

/// PL-88: the first answer wins; it is stored with the task that brings it to the lane that asked.
#[actix::test]
async fn an_answer_becomes_a_task_of_the_lane_that_asked() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;

    let answered = process.reply(&asked, chosen("blue")).await.unwrap();
    let second = process.reply(&asked, chosen("red")).await;

    let row = reads::question(&*process.storage, &asked.id)
        .unwrap()
        .unwrap();
    assert_eq!(row, answered);
    assert_eq!(second, Err(NotAnswered::AlreadyAnswered(Box::new(row))));
    let tasks = bench.enqueued.lock().unwrap().clone();
    let [task] = &tasks[..] else {
        unreachable!("one answer, one task")
    };
    assert_eq!(
        (task.kind, &task.lane, task.label),
        (Kind::Result, &asked.lane, Label::Untrusted)
    );
    assert_eq!(task.source.as_ref().unwrap().message, None);
    assert_eq!(
        serde_json::from_str::<Value>(&task.body).unwrap(),
        json!({
            "event": "operator_answered",
            "question_id": "qst-1",
            "question": "Which colour?",
            "by": "operator",
            "selected": ["blue"],
            "text": "",
        })
    );
    assert_eq!(bench.disk.keys("qst-open"), Vec::<String>::new());
}

/// PL-88, OP-38
#[actix::test]
async fn an_answer_that_does_not_fit_is_refused_and_the_question_stays() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;
    let both = Answer {
        selected: vec!["red".to_owned(), "blue".to_owned()],
        text: String::new(),
    };

    let unknown = process.reply(&asked, chosen("green")).await;
    let several = process.reply(&asked, both).await;
    let nothing = process.reply(&asked, words(" ")).await;
    let free = process.reply(&asked, words("green, please")).await;

    let field = |refused: Result<Question, NotAnswered>| match refused {
        Err(NotAnswered::Unfit(Unfit { field, .. })) => field,
        other => unreachable!("{other:?}"),
    };
    assert_eq!(
        [unknown, several, nothing].map(field),
        ["selected", "selected", "text"]
    );
    assert_eq!(free.unwrap().answer, Some(words("green, please")));
}

/// PL-87, PL-88: a secret goes into the vault and nowhere else.
#[actix::test]
async fn a_secret_answer_leaves_only_its_reference() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Secret);
    process.ask(&asked).await;

    let (first, second) = join(
        process.reply(&asked, words("hunter2-canary")),
        process.reply(&asked, words("other-canary")),
    )
    .await;

    assert_eq!(second, Err(NotAnswered::Busy));
    assert_eq!(first.unwrap().answer, None);
    assert_eq!(
        *bench.vault.kept.lock().unwrap(),
        [("main~1/API_KEY".to_owned(), "hunter2-canary".to_owned())]
    );
    let batches = process.storage.batches();
    let values = batches
        .iter()
        .flat_map(|batch| &batch.changes)
        .filter_map(|(_, value)| value.as_ref());
    for value in values {
        let text = String::from_utf8_lossy(value);
        assert!(!text.contains("canary"), "{text}");
    }
    let tasks = bench.enqueued.lock().unwrap();
    assert!(
        tasks[0].body.contains("${vault:API_KEY}"),
        "{}",
        tasks[0].body
    );
}

/// PL-88: never for `secret` in a chat.
#[actix::test]
async fn a_secret_is_not_taken_from_a_conversation() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Secret);
    process.ask(&asked).await;

    let reply = Reply {
        question: asked.id.clone(),
        answer: words("hunter2"),
        by: Decider::new("operator"),
        channel: Some("ws:1".into()),
    };
    let refused = process.approvals.send(reply).await.unwrap();

    assert_eq!(refused, Err(NotAnswered::SecretInChat));
    assert_eq!(*bench.vault.kept.lock().unwrap(), []);
}

#[actix::test]
async fn a_vault_that_refuses_leaves_the_question_open() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Secret);
    process.ask(&asked).await;

    bench.vault.locked.store(true, Ordering::Relaxed);
    let refused = process.reply(&asked, words("hunter2")).await;
    bench.vault.locked.store(false, Ordering::Relaxed);
    let taken = process.reply(&asked, words("hunter2")).await;

    assert_eq!(
        refused,
        Err(NotAnswered::Vault("the vault is locked".to_owned()))
    );
    assert_eq!(taken.unwrap().status, QuestionStatus::Answered);
}

/// PL-88: expiry delivers the same with `expired:true`.
#[actix::test]
async fn a_question_that_nobody_answers_tells_its_lane_so() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;
    bench.full.store(true, Ordering::Relaxed);

    tokio::time::sleep(DEFAULT_TTL + Duration::from_secs(1)).await;
    let while_full = bench.enqueued.lock().unwrap().len();
    bench.full.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let late = process.reply(&asked, chosen("red")).await;

    let tasks = bench.enqueued.lock().unwrap();
    let body: Value = serde_json::from_str(&tasks[0].body).unwrap();
    assert_eq!((while_full, tasks.len()), (0, 1));
    assert_eq!(body["expired"], true);
    assert_eq!(late, Err(NotAnswered::Expired));
}

#[actix::test]
async fn an_answer_that_finds_no_room_can_be_given_again() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;

    bench.full.store(true, Ordering::Relaxed);
    let refused = process.reply(&asked, chosen("red")).await;
    bench.full.store(false, Ordering::Relaxed);
    let taken = process.reply(&asked, chosen("blue")).await;

    assert_eq!(refused, Err(NotAnswered::Full));
    assert_eq!(taken.unwrap().answer, Some(chosen("blue")));
}

/// PL-88: team shutdown cancels.
#[actix::test]
async fn nobody_answers_a_team_that_is_gone() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;
    let approval = process.open(&bench).await;

    process
        .approvals
        .send(Disbanded {
            team: asked.team.clone(),
        })
        .await
        .unwrap();
    let late = process.reply(&asked, chosen("red")).await;

    assert_eq!(late, Err(NotAnswered::Cancelled));
    assert_eq!(bench.row(&process, &approval).status, Status::Cancelled);
    assert_eq!(process.approvals.send(ListQuestions).await.unwrap(), []);
}

/// TO-05: a call that is made again after a crash asks nothing new.
#[actix::test]
async fn the_same_question_is_asked_once() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);

    process.ask(&asked).await;
    process.ask(&asked).await;
    let later = bench.start();
    later.ask(&asked).await;

    assert_eq!(later.approvals.send(ListQuestions).await.unwrap(), [asked]);
    assert_eq!(
        reads::outbox(&*later.storage, &"ws:1".into())
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn short_ids_of_what_waits_are_unlike() {
    let desk = Desk::new(Ids::new(Arc::new(Stuck::default())), digester, TTL);
    let caller = Caller::of(&task());
    let asking = Asking::default();
    let mut names: Vec<String> = (0..3)
        .map(|_| {
            let wish = Wish {
                caller: &caller,
                turn: &"turn-1".into(),
                label: Label::Trusted,
                call: "",
                tool: "bash",
                arguments: &args(),
                asking: &asking,
            };
            desk.request(wish, Timestamp(0)).short_id
        })
        .collect();

    names.dedup();

    assert_eq!(names.len(), 3);
}

/// Gives each number twenty times.
#[derive(Default)]
struct Stuck(AtomicU64);

impl Entropy for Stuck {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) / 20
    }
}

/// What is in the store is enough to see what waits.
#[actix::test]
async fn a_store_without_approvals_recovers_nothing() {
    let storage = Disk::default().mount(None);

    let recovered = Recovered::read(&*storage as &dyn Storage, &[task()]).unwrap();

    assert_eq!((recovered.approvals.len(), recovered.decided.len()), (0, 0));
}
