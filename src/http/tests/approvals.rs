//! What waits for a person: calls, questions, rules and notices.

use hivewright_actors::{
    approvals::{
        Ask, Opened,
        question::{AnswerKind, Question, QuestionStatus},
        record::{Approval, Status},
        records,
        requests::{CallRequest, RequestBuilder},
    },
    clock::Clock,
    notice::{Notice, NoticeKind},
    store::records::Writes,
    task::{Label, Lane, Task, cause::Cause},
    tool::{Asking, Caller},
};
use serde_json::json;

use super::*;

pub(super) const APPROVALS: &str = "/api/v1/approvals";

pub(super) fn caller() -> Caller {
    let lane = Lane { team: "main".into(), topic: None };
    let task = Task::new("task-1".into(), lane, String::new(), "ann".to_owned(), Timestamp(0));
    Caller {
        deadline_at: Timestamp(u64::MAX),
        cause: Cause::sender("ws", "ann"),
        ..Caller::of(&task)
    }
}

/// A call that waits.
pub(super) async fn held(bench: &Bench, asking: Asking) -> Approval {
    let ids = Ids::new(Arc::new(Randomness));
    let requests = RequestBuilder::new(ids, sha256, Duration::from_secs(3_600));
    let request = CallRequest {
        caller: &caller(),
        turn: &"turn-1".into(),
        label: Label::Trusted,
        call: "turn-1:1:0",
        tool: "bash",
        arguments: &json!({"command": "rm -r build"}),
        asking: &asking,
    };
    let approval = requests.request(request, bench.clock.now());
    let spine = &bench.state.spine;
    spine.store.commit(requests.opening(&approval)).await.unwrap();
    spine.approvals.send(Opened(approval.clone())).await.unwrap();
    approval
}

pub(super) fn question(bench: &Bench, kind: AnswerKind) -> Question {
    let caller = caller();
    let now = bench.clock.now();
    Question {
        id: "qst-1".into(),
        team: caller.team,
        lane: caller.lane,
        task: caller.task,
        question: "Which colour?".to_owned(),
        options: match kind {
            AnswerKind::Text => vec!["red".to_owned(), "blue".to_owned()],
            AnswerKind::Secret => Vec::new(),
        },
        multi: false,
        kind,
        key: (kind == AnswerKind::Secret).then(|| "KEY".to_owned()),
        status: QuestionStatus::Open,
        answer: None,
        by: None,
        source: None,
        lineage: caller.lineage,
        label: Label::Trusted,
        cause: caller.cause,
        created_at: now,
        expires_at: now + Duration::from_secs(3_600),
        answered_at: None,
    }
}

/// OP-25, OP-36, PL-76
#[actix::test]
async fn an_approval_is_listed_shown_and_decided_once() {
    let bench = Bench::new().await;
    let reader = bench.token("watch", only(Scope::Read)).await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let eve = bench.token("eve", only(Scope::Approve)).await;
    let approval = held(&bench, Asking::default()).await;
    let path = format!("{APPROVALS}/{}", approval.id);
    let word = json!({"decision": "deny", "digest": approval.digest, "note": "not now"});

    let listed =
        bench.get(&format!("{APPROVALS}?status=pending&team=main&kind=tool"), &reader).await;
    let by_letters = bench.get(&format!("{APPROVALS}/{}", approval.short_id), &reader).await;
    let decided = bench.post(&path, &bob, word.clone()).await;
    let again = bench.post(&path, &bob, word.clone()).await;
    let late = bench.post(&path, &eve, word).await;
    let ended = bench.get(&format!("{APPROVALS}?status=denied"), &reader).await;
    let none = bench.get(&format!("{APPROVALS}?status=pending"), &reader).await;

    assert_eq!((listed.status, listed.json()["total"].clone()), (200, json!(1)));
    let (list, one) = (listed.json(), decided.json());
    let row = &list["data"][0];
    assert_eq!(row["arguments"], json!({"command": "rm -r build"}));
    assert_eq!((&row["status"], &row["execution"]), (&json!("pending"), &json!("none")));
    assert_eq!(row["time_left_ms"], 3_600_000);
    assert_eq!(by_letters.json()["data"]["id"], approval.id.as_str());
    let row = &one["data"];
    assert_eq!(decided.status, 200);
    assert_eq!((&row["status"], &row["note"]), (&json!("denied"), &json!("not now")));
    assert_eq!((&row["resolved_by"], &row["resolved_via"]), (&json!("bob"), &json!("api")));
    assert_eq!(again.json(), decided.json());
    assert_eq!(late.refusal(), (409, "already_resolved".to_owned()));
    assert!(late.body.contains("denied by bob at 2023-11-14T22:13:20.000Z"), "{}", late.body);
    assert_eq!(ended.json()["total"], 1);
    assert_eq!(none.json()["total"], 0);
}

/// OP-36, PL-75, PL-77
#[actix::test]
async fn a_decision_that_does_not_count_says_why() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let ann = bench.token("ann", only(Scope::Approve)).await;
    let reader = bench.token("watch", only(Scope::Read)).await;
    let risky = Asking { high_risk: true, ..Asking::default() };
    let approval = held(&bench, risky).await;
    let path = format!("{APPROVALS}/{}", approval.id);
    let word = |decision: &str, digest: &str| json!({"decision": decision, "digest": digest});
    let good = word("approve", &approval.digest);

    let unseen = bench.post(&path, &bob, json!({"decision": "approve"})).await;
    let other = bench.post(&path, &bob, word("approve", "0")).await;
    let choice = bench.post(&path, &bob, word("perhaps", &approval.digest)).await;
    let often = async |uses: Value| {
        let mut word = good.clone();
        word["uses"] = uses;
        let answer = bench.post(&path, &bob, word).await;
        (answer.refusal().0, answer.field())
    };
    for (uses, status) in [
        (json!(0), 400),
        (json!(101), 400),
        (json!("never"), 400),
        // Bob is no admin, and the risk is high.
        (json!("always"), 403),
        (json!(2), 422),
    ] {
        assert_eq!(often(uses).await, (status, "uses".to_owned()));
    }
    let own = bench.post(&path, &ann, good.clone()).await;
    let scope = bench.post(&path, &reader, good.clone()).await;
    let unknown = bench.post(&format!("{APPROVALS}/apr-0"), &bob, good.clone()).await;
    bench.clock.advance(Duration::from_secs(3_601));
    let late = bench.post(&path, &bob, good).await;

    assert_eq!(unseen.refusal(), (400, "invalid_input".to_owned()));
    assert_eq!(other.refusal(), (409, "digest_mismatch".to_owned()));
    assert_eq!((choice.refusal().0, choice.field()), (400, "decision".to_owned()));
    assert_eq!(own.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(scope.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
    assert_eq!(late.refusal(), (409, "expired".to_owned()));
}

/// OP-116, OP-38
#[actix::test]
async fn a_question_is_answered_once() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let reader = bench.token("watch", only(Scope::Read)).await;
    let asked = question(&bench, AnswerKind::Text);
    let spine = &bench.state.spine;
    // The answer becomes a task, and nobody here works.
    spine.queue.do_send(hivewright_actors::queue::Drain);
    spine.approvals.send(Ask(asked)).await.unwrap().unwrap();
    let path = "/api/v1/questions/qst-1/answer";

    let listed = bench.get("/api/v1/questions?status=open&team=main", &reader).await;
    let unknown = bench.post(path, &bob, json!({"selected": ["green"]})).await;
    let answered = bench.post(path, &bob, json!({"selected": ["blue"], "text": "dark"})).await;
    let late = bench.post(path, &bob, json!({"text": "red"})).await;
    let missing = bench.post("/api/v1/questions/qst-0/answer", &bob, json!({"text": "x"})).await;
    let ended = bench.get("/api/v1/questions?status=answered", &reader).await;

    assert_eq!(listed.json()["data"][0]["options"], json!(["red", "blue"]));
    assert_eq!((unknown.refusal().0, unknown.field()), (422, "selected".to_owned()));
    assert_eq!(answered.status, 200);
    assert_eq!(answered.json()["data"]["answer"], json!({"selected": ["blue"], "text": "dark"}));
    assert_eq!(late.refusal(), (409, "already_answered".to_owned()));
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
    assert_eq!(ended.json()["data"][0]["by"], "bob");
}

/// OP-38, OP-51, OP-55: however many were asked before it, a question is found by its name.
#[actix::test]
async fn a_question_behind_many_is_found() {
    let bench = Bench::new().await;
    let reader = bench.token("watch", only(Scope::Read)).await;
    let request = NewToken {
        name: "elsewhere".to_owned(),
        scopes: vec![Scope::Read],
        teams: Some(vec!["elsewhere".to_owned()]),
        expires: Some(Expiry::Never),
    };
    let operator = bench.auth().token(&bench.operator()).unwrap();
    let minted = bench.auth().mint(request, &operator).await.unwrap();
    let stranger = minted.text.expose();
    let writes = (1..=201).fold(Writes::new(), |writes, number| {
        let mut asked = question(&bench, AnswerKind::Text);
        asked.id = format!("qst-{number:03}").as_str().into();
        asked.created_at = asked.created_at + Duration::from_secs(number);
        if number <= 200 {
            asked.status = QuestionStatus::Expired;
        }
        writes.put(&asked)
    });
    bench.state.spine.store.commit(writes).await.unwrap();

    let one = bench.get("/api/v1/questions/qst-201", &reader).await;
    let foreign = bench.get("/api/v1/questions/qst-201", stranger).await;
    let none = bench.get("/api/v1/questions/qst-999", &reader).await;
    let newest = bench.get("/api/v1/questions?sort=-created_at&limit=2", &reader).await;

    assert_eq!(one.status, 200);
    let found = &one.json()["data"];
    assert_eq!((&found["id"], &found["status"]), (&json!("qst-201"), &json!("open")));
    assert_eq!(foreign.refusal(), (404, "not_found".to_owned()));
    assert_eq!(none.refusal(), (404, "not_found".to_owned()));
    assert_eq!(newest.json()["data"][0]["id"], "qst-201");
}

/// OP-38: a secret without a vault to put it in goes nowhere.
#[actix::test]
async fn a_secret_that_cannot_be_kept_is_not_an_answer() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let reader = bench.token("watch", only(Scope::Read)).await;
    let asked = question(&bench, AnswerKind::Secret);
    bench.state.spine.approvals.send(Ask(asked)).await.unwrap().unwrap();

    let path = "/api/v1/questions/qst-1/answer";
    let refused = bench.post(path, &bob, json!({"text": "hunter2-canary"})).await;
    let listed = bench.get("/api/v1/questions", &reader).await;

    assert_eq!(refused.refusal(), (409, "conflict".to_owned()));
    assert!(!refused.body.contains("canary") && !listed.body.contains("canary"));
    assert_eq!(listed.json()["data"][0]["status"], "open");
}

/// OP-115, PL-66
#[actix::test]
async fn a_rule_is_added_listed_and_removed() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let rule = json!({
        "id": "ask-first", "effect": "require_approval", "resource": "exec:git push",
        "team": "web-*", "when": [{"pointer": "/command", "glob": "*--force*"}], "risk": "high",
        "expires_at": "2099-01-31T12:00:00Z", "note": "why",
    });

    let added = bench.post("/api/v1/policies", &admin, rule.clone()).await;
    let twice = bench.post("/api/v1/policies", &admin, rule).await;
    let in_force = bench.state.rules.now().rules().len();
    let listed = bench.get("/api/v1/policies", &admin).await;
    let removed = bench.delete("/api/v1/policies/ask-first", &admin).await;
    let gone = bench.delete("/api/v1/policies/ask-first", &admin).await;

    assert_eq!(added.status, 201);
    assert_eq!(
        added.json()["data"],
        json!({
            "id": "ask-first", "source": "stored", "note": "why", "team": "web-*",
            "resource": "exec:git push", "principal": "any",
            "when": [{"pointer": "/command", "glob": "*--force*"}],
            "effect": "require_approval", "risk": "high", "expires_at": "2099-01-31T12:00:00.000Z",
        })
    );
    assert_eq!(twice.refusal(), (409, "conflict".to_owned()));
    assert_eq!(in_force, 1);
    assert_eq!(listed.json()["data"], json!([added.json()["data"]]));
    assert_eq!((removed.status, gone.status), (204, 404));
    assert_eq!(bench.state.rules.now().rules().len(), 0);
}

/// PL-66: nonsense is refused with the field that is wrong.
#[actix::test]
async fn a_rule_that_makes_no_sense_is_refused_by_field() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let table = [
        (json!({"effect": "perhaps", "resource": "tool:bash"}), "effect"),
        (json!({"effect": "deny", "resource": "bash"}), "resource"),
        (json!({"effect": "deny", "resource": "tool:bash", "principal": "me"}), "principal"),
        (json!({"effect": "deny", "resource": "tool:bash", "team": "nobody"}), "team"),
        (json!({"effect": "deny", "resource": "tool:bash", "expires_at": "soon"}), "expires_at"),
        (json!({"effect": "deny", "resource": "tool:bash", "quorum": 2}), "quorum"),
        (
            json!({"effect": "deny", "resource": "tool:bash", "when": [{"pointer": "x", "glob": "*"}]}),
            "when[0].pointer",
        ),
        (json!({"effect": "deny", "resource": "tool:bash", "efect": 1}), "efect"),
    ];

    for (rule, field) in table {
        let refused = bench.post("/api/v1/policies", &admin, rule).await;
        assert_eq!((refused.refusal().0, refused.field()), (400, field.to_owned()));
    }
    assert_eq!(bench.state.rules.list(), []);
}

/// OP-117, OP-39
#[actix::test]
async fn notices_are_counted_and_marked_as_read() {
    let bench = Bench::new().await;
    let ops = bench.token("ops", only(Scope::Operate)).await;
    let notice = |id: &str, kind, text: &str| Notice {
        id: id.into(),
        kind,
        team: Some("main".into()),
        text: text.to_owned(),
        refs: vec!["task-1".to_owned()],
        at: bench.clock.now(),
        read: false,
    };
    let writes = Writes::new()
        .put(&notice("n-1", NoticeKind::DeadTask, "given up"))
        .put(&notice("n-2", NoticeKind::DeadTask, "given up"))
        .put(&notice("n-3", NoticeKind::Stall, "stands still"));
    bench.state.spine.store.commit(writes).await.unwrap();

    let all = bench.get("/api/v1/inbox", &ops).await;
    let of_kind = bench.get("/api/v1/inbox?kind=dead_task", &ops).await;
    let read = bench.post("/api/v1/inbox/n-1/read", &ops, json!({})).await;
    let unread = bench.get("/api/v1/inbox?unread=true", &ops).await;
    let missing = bench.post("/api/v1/inbox/n-9/read", &ops, json!({})).await;
    bench.post("/api/v1/inbox/read-all", &ops, json!({})).await;
    let none = bench.get("/api/v1/inbox?unread=true", &ops).await;

    assert_eq!(all.json()["total"], 2);
    assert_eq!(of_kind.json()["data"][0]["count"], 2);
    assert_eq!(of_kind.json()["data"][0]["links"], json!(["task-1", "task-1"]));
    assert_eq!((read.status, missing.status), (204, 404));
    assert_eq!(unread.json()["total"], 1);
    assert_eq!(unread.json()["data"][0]["id"], "n-3");
    assert_eq!(none.json()["total"], 0);
}

/// OP-37
#[actix::test]
async fn what_waits_for_a_person_is_counted_at_a_glance() {
    let bench = Bench::new().await;
    let reader = bench.token("watch", only(Scope::Read)).await;
    held(&bench, Asking::default()).await;
    let asked = question(&bench, AnswerKind::Text);
    bench.state.spine.approvals.send(Ask(asked)).await.unwrap().unwrap();

    let overview = bench.get("/api/v1/overview", &reader).await.json();

    let data = &overview["data"];
    assert_eq!(
        (&data["approvals_open"], &data["questions_open"], &data["inbox_unread"]),
        (&json!(1), &json!(1), &json!(0))
    );
}

/// OP-96: what was shown is what is decided on; the second word, a late one and a lost process
/// change nothing.
#[actix::test]
async fn a_decision_holds_against_every_twist() {
    let bench = Bench::new().await;
    let (bob, eve) = (
        bench.token("bob", only(Scope::Approve)).await,
        bench.token("eve", only(Scope::Approve)).await,
    );
    let approval = held(&bench, Asking::default()).await;
    let path = format!("{APPROVALS}/{}", approval.id);
    let word = |digest: &str| json!({"decision": "approve", "digest": digest});
    let tampered = Approval {
        arguments: json!({"command": "rm -r builD"}),
        id: "apr-tampered".into(),
        short_id: "zzzzzz".to_owned(),
        ..approval.clone()
    };
    let store = &bench.state.spine.store;
    store.commit(Writes::new().put(&tampered)).await.unwrap();
    let late = held(&bench, Asking::default()).await;

    let changed =
        bench.post(&format!("{APPROVALS}/apr-tampered"), &bob, word(&approval.digest)).await;
    let (first, second) = tokio::join!(
        bench.post(&path, &bob, word(&approval.digest)),
        bench.post(&path, &eve, word(&approval.digest)),
    );
    bench.clock.advance(Duration::from_secs(3_601));
    let expired = bench.post(&format!("{APPROVALS}/{}", late.id), &bob, word(&late.digest)).await;

    assert_eq!(changed.refusal(), (409, "digest_mismatch".to_owned()));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(expired.refusal(), (409, "expired".to_owned()));
    let denied = bench.get(&format!("{APPROVALS}/{}", late.id), &bench.operator()).await;
    assert_eq!(denied.json()["data"]["status"], "expired");
    let rows = store.read(records::all::<Approval>);
    let mut stored: Vec<_> = rows
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.id.to_string(), row.status, row.votes.len()))
        .collect();
    stored.sort_by(|one, other| one.0.cmp(&other.0));
    let mut expected = [
        (approval.id.to_string(), Status::Approved, 1),
        (late.id.to_string(), Status::Expired, 0),
        ("apr-tampered".to_owned(), Status::Expired, 0),
    ];
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(stored, expected);
}

/// OP-36, CH-107: only the operator's own token is the command line, whatever a client calls itself.
#[actix::test]
async fn nobody_else_decides_as_the_command_line() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let mut seen = Vec::new();
    for token in [bob, bench.operator()] {
        let approval = held(&bench, Asking::default()).await;
        let word = json!({"decision": "deny", "digest": approval.digest});
        let path = format!("{APPROVALS}/{}", approval.id);
        let request = request(Method::POST, &path)
            .insert_header(bearer(&token))
            .insert_header(("X-Client", "cli"));
        let decided = bench.call(request.set_json(word)).await;
        seen.push(decided.json()["data"]["resolved_via"].clone());
    }

    assert_eq!(seen, [json!("api"), json!("cli")]);
}
