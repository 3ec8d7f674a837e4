//! Decisions that are good for more than one call, and several at once.

use hivewright_actors::{
    approvals::{grants::Call, record::Approval},
    task::Label,
    tool::Asking,
};
use serde_json::json;

use super::{
    approvals::{APPROVALS, caller, held},
    *,
};

const GRANTS: &str = "/api/v1/grants";

fn asking() -> Asking {
    Asking { schema: "form-1".to_owned(), cwd: Some("/work".to_owned()), ..Asking::default() }
}

/// Whether a call that equals the approved one would run without asking.
fn runs(bench: &Bench, name: &str, command: &str) -> bool {
    let call = Call {
        team: &caller().team,
        tool: "bash",
        arguments: &json!({"command": command}),
        asking: &asking(),
        label: Label::Trusted,
        name,
    };
    let now = bench.state.access.auth.now();
    bench.state.rules.grants().permit(&call, now).is_some()
}

fn word(approval: &Approval, uses: Value) -> Value {
    json!({"decision": "approve", "digest": approval.digest, "uses": uses})
}

async fn admin(bench: &Bench) -> String {
    let scopes = [Scope::Admin, Scope::Approve, Scope::Read];
    bench.token("boss", scopes.into_iter().collect()).await
}

/// OP-25, OP-36, PL-83: the grant is shown before, and is that and nothing else; it is taken back at
/// once.
#[actix::test]
async fn always_makes_the_grant_that_was_shown() {
    let bench = Bench::new().await;
    let (boss, bob) = (admin(&bench).await, bench.token("bob", only(Scope::Approve)).await);
    let approval = held(&bench, asking()).await;
    let path = format!("{APPROVALS}/{}", approval.id);

    let shown = bench.get(&path, &boss).await.json()["data"]["grant"].clone();
    let refused = bench.post(&path, &bob, word(&approval, json!("always"))).await;
    let before = runs(&bench, "task-2/1", "rm -r build");
    let decided = bench.post(&path, &boss, word(&approval, json!("always"))).await;
    let listed = bench.get(&format!("{GRANTS}?team=main"), &boss).await.json();

    assert_eq!(
        shown,
        json!({
            "team": "main",
            "generation": 1,
            "tool": "bash",
            "arguments": {"command": "rm -r build"},
            "cwd": "/work",
            "secrets": [],
            "untrusted": false,
        })
    );
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    assert!(!before);
    assert_eq!(decided.status, 200, "{}", decided.body);
    assert_eq!(decided.json()["data"]["resolution"], "always");
    assert_eq!(decided.json()["data"]["grant"], Value::Null);
    assert_eq!(listed["total"], 1);
    let row = &listed["data"][0];
    for (field, value) in shown.as_object().unwrap() {
        assert_eq!(row[field], *value, "{field}");
    }
    assert_eq!(
        (&row["granted_by"], &row["uses_left"], &row["expires_at"]),
        (&json!("boss"), &Value::Null, &Value::Null)
    );
    assert!(runs(&bench, "task-2/1", "rm -r build"));
    assert!(!runs(&bench, "task-2/1", "rm -r builD"));
    let path = format!("{GRANTS}/{}", row["id"].as_str().unwrap());
    assert_eq!(bench.delete(&path, &bob).await.status, 204);
    assert!(!runs(&bench, "task-2/1", "rm -r build"));
    assert_eq!(bench.delete(&path, &bob).await.status, 404);
    for (action, actor) in [("approval.decide", "boss"), ("grant.revoke", "bob")] {
        let audit = bench.get(&format!("/api/v1/audit?action={action}"), &boss).await.json();
        let line = &audit["data"][0];
        assert_eq!((&line["actor"], &line["from"]), (&json!(actor), &json!("api 127.0.0.1")));
    }
}

/// PL-83: the approved call is the first of the number; a day later none is left.
#[actix::test]
async fn a_number_of_calls_is_granted_for_a_day() {
    let bench = Bench::new().await;
    let boss = admin(&bench).await;
    let approval = held(&bench, asking()).await;
    let path = format!("{APPROVALS}/{}", approval.id);

    let decided = bench.post(&path, &boss, word(&approval, json!(3))).await;

    assert_eq!(decided.json()["data"]["resolution"], json!({"uses": 3}));
    let left = async || bench.get(GRANTS, &boss).await.json()["data"][0]["uses_left"].clone();
    assert_eq!(left().await, 2);
    assert!(runs(&bench, "task-2/1", "rm -r build"));
    assert_eq!(left().await, 1);
    bench.clock.advance(Duration::from_secs(24 * 3_600));
    assert!(!runs(&bench, "task-2/2", "rm -r build"));
    assert_eq!(bench.get(GRANTS, &boss).await.json()["total"], 0);
}

/// OP-25, PL-84
#[actix::test]
async fn several_decisions_succeed_or_fail_alone() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let (one, other) = (held(&bench, asking()).await, held(&bench, asking()).await);
    let batch = format!("{APPROVALS}/batch");
    let item = |id: &str, digest: &str| json!({"id": id, "decision": "deny", "digest": digest});

    let answer = bench
        .post(
            &batch,
            &bob,
            json!({"items": [
                item(one.id.as_str(), &one.digest),
                item(&other.short_id, "0"),
                item("nothing", "0"),
            ]}),
        )
        .await;
    let many: Vec<Value> = (0..101).map(|_| item("x", "0")).collect();
    let too_many = bench.post(&batch, &bob, json!({"items": many})).await;
    let none = bench.post(&batch, &bob, json!({"items": []})).await;
    let slip = json!({"items": [{"id": "x", "decision": "deny", "digets": "0"}]});
    let slip = bench.post(&batch, &bob, slip).await;

    assert_eq!(answer.status, 200, "{}", answer.body);
    let rows = answer.json()["data"]["items"].as_array().unwrap().clone();
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row["status"].as_u64().unwrap(), row["error"]["code"].clone()))
        .collect();
    assert_eq!(
        told,
        [(200, Value::Null), (409, json!("digest_mismatch")), (404, json!("not_found")),]
    );
    assert_eq!(rows[0]["approval"]["status"], "denied");
    for answer in [&too_many, &none] {
        assert_eq!((answer.status, answer.field()), (400, "items".to_owned()));
    }
    assert_eq!(slip.status, 400);
    assert!(slip.field().starts_with("items[0]"), "{}", slip.body);
}
