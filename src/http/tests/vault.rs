//! Secrets over HTTP: set, listed, never shown.

use serde_json::json;

use super::*;

const CANARY: &str = "canary-value-1";

impl Bench {
    async fn put(&self, path: &str, body: Value) -> Answer {
        let path = format!("/api/v1/vault/{path}");
        let request = request(Method::PUT, &path).insert_header(bearer(&self.operator()));
        self.call(request.set_json(body)).await
    }

    async fn vault(&self, path: &str) -> Answer {
        let path = format!("/api/v1/vault{path}");
        self.get(&path, &self.operator()).await
    }

    async fn drop_entry(&self, path: &str) -> Answer {
        let path = format!("/api/v1/vault/{path}");
        let request = request(Method::DELETE, &path).insert_header(bearer(&self.operator()));
        self.call(request).await
    }
}

/// OP-29, MV-62, MV-63
#[actix::test]
async fn a_secret_goes_in_and_never_comes_out() {
    let bench = Bench::new().await;
    let wish =
        json!({ "value": CANARY, "tools": ["bash"], "hosts": ["*.example.org"], "note": "forge" });

    let made = bench.put("team:main/TOKEN", wish).await;
    let again = bench.put("team:main/TOKEN", json!({ "value": "canary-value-2" })).await;
    let system = bench.put("system/OPENAI", json!({ "value": CANARY })).await;
    let listed = bench.vault("").await;
    let of_system = bench.vault("?scope=system&prefix=OPEN").await;
    let shown = bench.vault("/team:main/TOKEN").await;
    let audit = bench.vault("/audit?scope=team:main&action=set").await;

    assert_eq!(made.status, 201, "{}", made.body);
    let expected = json!({ "scope": "team:main", "key": "TOKEN", "secret": true, "version": 1 });
    assert_eq!(made.json()["data"], expected);
    assert_eq!((again.status, &again.json()["data"]["version"]), (200, &json!(2)));
    let keys: Vec<Value> = listed.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["scope"], row["key"]]))
        .collect();
    assert_eq!(keys, [json!(["system", "OPENAI"]), json!(["team:main", "TOKEN"])]);
    assert_eq!(of_system.json()["total"], 1);
    let row = &shown.json()["data"];
    assert_eq!(row["tools"], json!(["bash"]));
    assert_eq!(row["hosts"], json!(["*.example.org"]));
    assert_eq!(row["note"], "forge");
    assert_eq!(row["updated_by"], "operator:operator");
    let rows = audit.json();
    assert_eq!(rows["total"], 2, "{rows}");
    assert_eq!(rows["data"][0]["actor"]["kind"], "operator");
    for answer in [made, again, system, listed, of_system, shown, audit] {
        assert!(!answer.body.contains("canary"), "{}", answer.body);
    }
}

/// MV-63
#[actix::test]
async fn the_audit_is_filtered_by_scope_key_and_action() {
    let bench = Bench::new().await;
    bench.put("team:main/ONE", json!({ "value": CANARY })).await;
    bench.put("team:main/TWO", json!({ "value": CANARY })).await;
    bench.put("system/ONE", json!({ "value": CANARY })).await;
    bench.vault("/team:main/ONE").await;
    bench.drop_entry("team:main/TWO").await;

    let cases = [
        ("scope=team:main", vec!["delete TWO", "get ONE", "set TWO", "set ONE"]),
        ("scope=team:main&key=ONE", vec!["get ONE", "set ONE"]),
        ("key=ONE&action=set", vec!["set ONE", "set ONE"]),
        ("scope=system&key=TWO", vec![]),
    ];
    for (query, expected) in cases {
        let audit = bench.vault(&format!("/audit?{query}")).await.json();
        let rows = audit["data"].as_array().unwrap().iter();
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        let rows = rows.map(|row| format!("{} {}", text(row, "action"), text(row, "key")));
        assert_eq!(rows.collect::<Vec<_>>(), expected, "{query}");
    }
}

/// MV-62
#[actix::test]
async fn a_value_that_is_no_secret_is_shown_alone_and_not_in_lists() {
    let bench = Bench::new().await;
    let wish = json!({ "value": "Rome", "secret": false });
    bench.put("team:main/PLACE", wish).await;
    let bytes = json!({ "value_base64": "AP8=", "secret": false });
    bench.put("team:main/BYTES", bytes).await;

    let place = bench.vault("/team:main/PLACE").await;
    let bytes = bench.vault("/team:main/BYTES").await;
    let listed = bench.vault("").await;

    assert_eq!(place.json()["data"]["value"], "Rome");
    assert_eq!(bytes.json()["data"]["value_base64"], "AP8=");
    assert!(!listed.body.contains("Rome") && !listed.body.contains("AP8="));
}

/// MV-35, MV-63, MV-80
#[actix::test]
async fn what_cannot_be_done_is_refused_with_its_code_and_without_the_value() {
    let bench = Bench::new().await;
    bench.put("team:main/TOKEN", json!({ "value": CANARY })).await;
    let cases = [
        ("team:main/TOKEN", json!({ "value": CANARY, "secret": false }), (409, "is_secret")),
        ("team:main/SHORT", json!({ "value": "canary" }), (400, "too_short")),
        ("team:main/LONG", json!({ "value": "c".repeat(65_537) }), (400, "too_large")),
        ("team:main/a%20b", json!({ "value": CANARY }), (400, "invalid_key")),
        ("team:main/NONE", json!({ "note": "x" }), (404, "not_found")),
        ("team:none/K", json!({ "value": CANARY }), (404, "not_found")),
        ("main/K", json!({ "value": CANARY }), (400, "invalid_input")),
        ("team:main/K", json!({ "value": CANARY, "tools": ["@none"] }), (400, "invalid_input")),
        ("team:main/K", json!({ "value": CANARY, "hosts": ["a b"] }), (400, "invalid_input")),
        ("team:main/K", json!({ "value": CANARY, "value_base64": "AP8=" }), (400, "invalid_input")),
        ("team:main/K", json!({ "value": { "canary": 1 } }), (400, "invalid_input")),
    ];
    for (path, body, (status, code)) in cases {
        let answer = bench.put(path, body).await;

        assert_eq!(answer.refusal(), (status, code.to_owned()), "{path}");
        assert!(!answer.body.contains("canary"), "{}", answer.body);
    }
}

/// MV-64
#[actix::test]
async fn an_entry_can_be_narrowed_and_deleted() {
    let bench = Bench::new().await;
    bench.put("team:main/TOKEN", json!({ "value": CANARY })).await;

    let narrowed = bench.put("team:main/TOKEN", json!({ "tools": ["web_fetch"] })).await;
    let shown = bench.vault("/team:main/TOKEN").await;
    let deleted = bench.drop_entry("team:main/TOKEN").await;
    let again = bench.drop_entry("team:main/TOKEN").await;
    let missing = bench.vault("/team:main/TOKEN").await;

    assert_eq!((narrowed.status, &narrowed.json()["data"]["version"]), (200, &json!(1)));
    assert_eq!(shown.json()["data"]["tools"], json!(["web_fetch"]));
    assert_eq!(deleted.status, 204);
    assert_eq!(again.refusal(), (404, "not_found".to_owned()));
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
}

/// MV-58, OP-29
#[actix::test]
async fn the_master_key_is_replaced_while_the_service_runs() {
    let bench = Bench::new().await;
    bench.put("team:main/TOKEN", json!({ "value": CANARY })).await;
    let file = bench.folder.path().join("master.key");
    let before = std::fs::read(&file).unwrap();
    let rotate = "/api/v1/vault/rotate";

    let rotated = bench.post(rotate, &bench.operator(), json!({})).await;
    let forgotten = bench.post(rotate, &bench.operator(), json!({ "forget_old": true })).await;
    let still = bench.vault("/team:main/TOKEN").await;

    assert_eq!(rotated.json()["data"], json!({ "data_keys": 1 }));
    assert_ne!(std::fs::read(&file).unwrap(), before);
    assert_eq!(forgotten.json()["data"], json!({ "forgotten": true }));
    assert_eq!(still.status, 200);
}

/// OP-47, MV-57
#[actix::test]
async fn readiness_says_to_whom_may_know_that_the_vault_is_open() {
    let bench = Bench::new().await;

    let stranger = bench.call(request(Method::GET, "/readyz")).await;
    let operator = bench.get("/readyz", &bench.operator()).await;

    assert_eq!(stranger.json(), json!({ "ready": true }));
    assert_eq!(operator.json()["checks"]["vault"], "ok");
}

/// OP-117: a new entry takes the place of none, and a new value keeps what the old one was for.
#[actix::test]
async fn creating_refuses_a_key_that_exists_and_replacing_keeps_what_it_is_for() {
    let bench = Bench::new().await;
    let path = "/api/v1/vault/system/API_KEY";
    let set = async |body: Value| {
        let put = request(Method::PUT, path).insert_header(bearer(&bench.operator()));
        bench.call(put.set_json(body)).await
    };
    let first = json!({
        "value": "first-value-1", "create": true, "tools": ["web_fetch"],
        "hosts": ["api.example.org"], "note": "For invoices.",
    });

    let created = set(first.clone()).await;
    let again = set(first).await;
    let shown = bench.get(path, &bench.operator()).await.json();
    let replaced = set(json!({"value": "second-value-2"})).await;
    let after = bench.get(path, &bench.operator()).await.json();

    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(again.refusal(), (409, "conflict".to_owned()));
    assert_eq!(shown["data"]["version"], 1);
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    assert_eq!(after["data"]["version"], 2);
    for field in ["tools", "hosts", "note"] {
        assert_eq!(after["data"][field], shown["data"][field], "{field}");
    }
}
